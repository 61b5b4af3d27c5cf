#include "tessera/app/compile/decide_model.h"

#include <algorithm>

#include "tessera/app/compile/float_products.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/measured_as.h"

namespace tessera::app {
namespace {

bool has_all(const plan::Plan& plan, const std::vector<task::Task>& tasks) {
  return std::all_of(tasks.begin(), tasks.end(),
                     [&](const task::Task& t) { return plan.find(t.key) != nullptr; });
}

// Schedules by the cost model for tasks that the plan lacks.
Result<void> judge(const CompileOptions& options, DecidedModel* model) {
  const bool written = options.language != kNoModel;
  const ZeroTrialModels models =
      written ? zero_trial_models(options.cost_model, weights_folder(), options.target)
              : ZeroTrialModels{.paths = model_paths(options.cost_model, options.target)};
  const std::vector<std::string>& paths = models.paths;
  if (options.cost_model == kShipped && options.note && weights_folder().empty())
    options.note(kNoWeights);
  // A strict plan refuses what it lacks.
  if (paths.empty() || (options.plan && options.plan->strict())) return {};
  ZeroTrialOptions judging;
  if (options.plan) judging.known = options.plan->plan();
  if (has_all(judging.known, model->tasks.tasks)) return {};
  const auto note = [&](const std::string& line) {
    if (options.note) options.note(line);
  };
  judging.search_threads =
      options.build_threads > 0 ? options.build_threads : target::usable_cpus();
  Result<std::shared_ptr<const model::CostModel>> loaded =
      model::load_models(paths, judging.search_threads);
  if (!loaded.ok() && options.cost_model == kShipped) {
    note(loaded.error().message + "; default schedules are used");
    return {};
  }
  TESSERA_TRY(judging.model, std::move(loaded));
  judging.target = options.target;
  if (models.in_networks) judging.agreed = kInNetworks;
  if (written) {
    TESSERA_TRY(const std::string path, language_path(options.language, options.target));
    TESSERA_DO(open_language(path, kGuidance, 1));
    judging.open_language = [path] { return open_language(path, kGuidance, 1); };
  }
  // How several threads share work out is told too poorly to leave the default for it: judging
  // could change nothing.
  if (target::measured_threads(options.target, options.target.code_threads()) > 1) {
    note("code for several threads keeps its default schedules: learned models have no say");
    return {};
  }
  TESSERA_TRY(model->judged, choose_schedules(model->tasks.tasks, judging));
  if (const std::string error = judging.model->last_error(); !error.empty()) {
    note(error + "; tasks that could not be judged keep their defaults");
  }
  if (model->judged->plan.tasks.size() == judging.known.tasks.size()) return {};
  TESSERA_TRY(const PlanSchedules schedules,
              PlanSchedules::make(model->judged->plan, options.target, false));
  model->build.schedule = schedules.schedules();
  return {};
}

}  // namespace

Result<DecidedModel> decide_model(ModelSource& source, const CompileOptions& options) {
  DecidedModel out;
  TESSERA_DO(check_floats(options.target, options.floats));
  TESSERA_TRY(const onnx::Model* model, source.model());
  TESSERA_TRY(graph::Graph imported, import_graph(*model, options));
  source.forget();
  TESSERA_TRY(task::PlannedGraph planned, plan_graph(std::move(imported), options));
  out.graph = std::move(planned.graph);
  if (options.accept) TESSERA_DO(options.accept(out.graph));
  out.tasks = std::move(planned.tasks);
  out.decided = std::move(planned.decided);
  out.build = build_options(options);
  TESSERA_DO(judge(options, &out));
  return out;
}

Result<exec::CompiledModel> compile_decided(const DecidedModel& model, const target::Target& target,
                                            runtime::Device* device) {
  exec::ModelOptions build = model.build;
  build.device = device;
  return exec::compile_model(model.graph, model.tasks, target, build);
}

}  // namespace tessera::app
