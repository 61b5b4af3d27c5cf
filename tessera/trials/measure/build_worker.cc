#include "tessera/trials/measure/build_worker.h"

#include <ctime>
#include <exception>
#include <new>

#include <sys/resource.h>

#include "tessera/backend/codegen/ptx_tools.h"
#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/trials/measure/confine.h"

namespace tessera::measure {
namespace {

// No C function has a dot in its name, so that the kernel cannot be taken for one.
constexpr const char* kSymbol = "tsr.candidate";

// Time of the processor: a builder stands still while candidates are timed on every core.
double processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  rusage children{};  // assemblers
  getrusage(RUSAGE_CHILDREN, &children);
  const auto ms = [](const timeval& v) {
    return 1e3 * static_cast<double>(v.tv_sec) + 1e-3 * static_cast<double>(v.tv_usec);
  };
  return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec) +
         ms(children.ru_utime) + ms(children.ru_stime);
}

// Where there is an assembler, all builders use it side by side; else the driver assembles when the
// one run worker loads the code.
Result<void> assemble(runtime::Binary* binary) {
  if (binary->kind != runtime::BinaryKind::kPtx) return {};
  Result<codegen::Assembled> done = codegen::assemble_ptx(
      std::string(binary->bytes.begin(), binary->bytes.end()), binary->target.cpu);
  if (!done.ok() && done.error().code == ErrorCode::kUnavailable) return {};
  if (!done.ok()) return done.error();
  binary->bytes = std::move(done->cubin);
  binary->kind = runtime::BinaryKind::kCubin;
  return {};
}

Result<Built> build(const te::Dag& dag, const schedule::Schedule& steps,
                    const target::Target& target) {
  TESSERA_TRY(kernel::Kernel kernel,
              kernel::build_kernel(dag, steps, target, {.codegen = {}, .symbol = kSymbol}));
  TESSERA_DO(assemble(&kernel.binary));
  Built built;
  built.kind = kernel.binary.kind;
  built.object.assign(kernel.binary.bytes.begin(), kernel.binary.bytes.end());
  if (!kernel.binary.kernels.empty()) {
    built.symbol = kernel.binary.kernels[0].name;
    built.shared_bytes = kernel.binary.kernels[0].shared_bytes;
    built.worker_bytes = kernel.binary.kernels[0].worker_bytes;
  }
  built.launches = std::move(kernel.binary.launches);
  built.temporaries = std::move(kernel.binary.temporaries);
  for (const schedule::Layout& layout : kernel.param_layouts)
    built.layouts.push_back(schedule::to_text(layout));
  built.layouts.resize(dag.inputs.size() + dag.outputs.size());
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
                  const WorkerHooks& hooks, bool confine) {
  // PTX is assembled by a program of its own.
  if (confine) confine_process(work_of(target));
  while (const std::optional<Frame> frame = channel.receive()) {
    Job job;
    if (frame->kind != Kind::kBuild || !decode(*frame, &job) || job.task >= tasks.size()) return;
    if (hooks.before_build) hooks.before_build(job.trial);
    Built built = build_candidate(tasks[job.task], job.trial.steps, target);
    if (hooks.after_build) hooks.after_build(job.trial, &built);
    if (!channel.send(Kind::kBuilt, encode(built))) return;
  }
}

}  // namespace tessera::measure
