#include "tessera/app/study/written_task.h"

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/tune/tune_problem.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/frontend/plan/rules.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/learn/lm/uniform_reader.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

Result<te::Dag> dag_of(const WrittenTaskOptions& options, const dataset::Dataset& data) {
  if (options.op.empty() == options.task.empty())
    return make_error(ErrorCode::kInvalidArgument, "name an operation or a task: --op or --task");
  if (!options.op.empty()) {
    TESSERA_TRY(const te::OpSpec spec, parse_op(options.op, plan::rules_for(options.target)));
    return te::make_dag(spec);
  }
  for (const dataset::TaskInfo& t : data.tasks) {
    if (t.key == options.task) return te::dag_from_text(t.definition);
  }
  return make_error(ErrorCode::kInvalidArgument, "{} has no task {}", options.data, options.task);
}

// The fastest record of the task on that machine, where the space still has it.
void find_best(const dataset::Dataset& data, const std::string& key, WrittenTask* task) {
  const target::Target& target = task->space->target();
  for (const dataset::Example& e : data.examples) {
    const dataset::MachineInfo& m = data.machines[static_cast<std::size_t>(e.machine)];
    const bool wanted = data.tasks[static_cast<std::size_t>(e.task)].key == key && e.seconds > 0 &&
                        (task->best_s == 0 || e.seconds < task->best_s) &&
                        m.target.starts_with(target.name) && m.threads == target.code_threads();
    if (!wanted) continue;
    Result<decide::Candidate> c = task->space->parse(e.candidate);
    if (!c || !task->space->check(*c)) continue;
    task->best = std::move(c).value();
    task->best_s = static_cast<double>(e.seconds);
  }
}

}  // namespace

Result<WrittenTask> make_written_task(const WrittenTaskOptions& options) {
  dataset::Dataset data;
  if (!options.task.empty() || (options.with_best && !options.data.empty())) {
    TESSERA_TRY(data, dataset::load(options.data));
  }
  TESSERA_TRY(const te::Dag dag, dag_of(options, data));
  TESSERA_TRY(space::Space space, space::make_space(dag, options.target));
  WrittenTask out;
  out.space = std::make_unique<space::Space>(std::move(space));
  if (options.with_best) find_best(data, task::key_of(dag), &out);
  return out;
}

Result<OpenReader> open_reader(const std::string& weights, const std::string& device,
                               const target::Target& target) {
  OpenReader out;
  if (device != target::to_text(target::Kind::kCpu)) {
    TESSERA_TRY(out.device, runtime::open_device(device));
  }
  const std::string path =
      weights == kShipped ? shipped_language(weights_folder(), target) : weights;
  if (path.empty() || path == kNoModel) {
    out.reader = std::make_unique<lm::UniformReader>();
    return out;
  }
  const auto start = Clock::now();
  TESSERA_TRY(std::unique_ptr<lm::LanguageModel> loaded,
              lm::LanguageModel::load(path, {.threads = target::default_threads(),
                                             .device = out.device.get(),
                                             .cache = kernel::user_kernel_cache()}));
  out.load_s = seconds_since(start);
  out.model = loaded.get();
  out.reader = std::move(loaded);
  return out;
}

}  // namespace tessera::app
