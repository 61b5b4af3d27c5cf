#include "tessera/measure/build_worker.h"

#include <ctime>
#include <exception>
#include <new>

#include "tessera/codegen/codegen.h"
#include "tessera/lower/lower.h"
#include "tessera/schedule/step.h"

namespace tessera::measure {
namespace {

// No C function has a dot in its name, so that the kernel cannot be taken for one.
constexpr const char* kSymbol = "tsr.candidate";

// Time of the processor: a builder stands still while candidates are timed on every core.
double processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
}

Result<Built> build(const te::Dag& dag, const schedule::Schedule& steps,
                    const target::Target& target) {
  TESSERA_TRY(lower::Lowered lowered, lower::lower(dag, steps, target));
  lowered.func.name = kSymbol;
  TESSERA_TRY(const codegen::Binary object, codegen::compile({lowered.func}, target));
  Built built;
  built.object.assign(object.bytes.begin(), object.bytes.end());
  built.symbol = object.kernels[0].name;
  built.shared_bytes = object.kernels[0].shared_bytes;
  built.worker_bytes = object.kernels[0].worker_bytes;
  for (const schedule::Layout& layout : lowered.param_layouts)
    built.layouts.push_back(schedule::to_text(layout));
  return built;
}

}  // namespace

Built build_candidate(const te::Dag& dag, const schedule::Schedule& steps,
                      const target::Target& target) {
  const double start_ms = processor_ms();
  Built built;
  try {
    Result<Built> result = build(dag, steps, target);
    if (result.ok()) {
      built = std::move(result).value();
    } else {
      built.error = fmt::format("{}: {}", to_text(result.error().code), result.error().message);
    }
  } catch (const std::bad_alloc&) {
    built.error = "no memory for this candidate";
  } catch (const std::exception& e) {
    built.error = e.what();
    built.defect = true;
  }
  built.build_ms = processor_ms() - start_ms;
  return built;
}

void serve_builds(Channel& channel, const std::vector<te::Dag>& tasks, const target::Target& target,
                  const WorkerHooks& hooks) {
  while (const std::optional<Frame> frame = channel.receive()) {
    Job job;
    if (frame->kind != Kind::kBuild || !decode(*frame, &job) || job.task >= tasks.size()) return;
    if (hooks.before_build) hooks.before_build(job.trial);
    const Built built = build_candidate(tasks[job.task], job.trial.steps, target);
    if (!channel.send(Kind::kBuilt, encode(built))) return;
  }
}

}  // namespace tessera::measure
