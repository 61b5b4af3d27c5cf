#include "tessera/measure/build_worker.h"

#include <ctime>
#include <exception>
#include <new>

#include <sys/resource.h>

#include "tessera/codegen/codegen.h"
#include "tessera/codegen/ptx_tools.h"
#include "tessera/lower/lower.h"
#include "tessera/lower/lower_device.h"
#include "tessera/measure/confine.h"
#include "tessera/schedule/step.h"

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

void add_layouts(const std::vector<schedule::Layout>& layouts, Built* built) {
  for (const schedule::Layout& layout : layouts)
    built->layouts.push_back(schedule::to_text(layout));
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

Result<Built> build_device(const te::Dag& dag, const schedule::Schedule& steps,
                           const target::Target& target) {
  TESSERA_TRY(const lower::LoweredDevice lowered, lower::lower_device(dag, steps, target));
  TESSERA_TRY(codegen::Binary binary, codegen::compile(lowered.program, target));
  TESSERA_DO(assemble(&binary));
  Built built;
  built.kind = binary.kind;
  built.object.assign(binary.bytes.begin(), binary.bytes.end());
  built.launches = std::move(binary.launches);
  built.temporaries = std::move(binary.temporaries);
  add_layouts(lowered.param_layouts, &built);
  built.layouts.resize(dag.inputs.size() + dag.outputs.size());
  return built;
}

Result<Built> build(const te::Dag& dag, const schedule::Schedule& steps,
                    const target::Target& target) {
  if (target.is_gpu()) return build_device(dag, steps, target);
  TESSERA_TRY(lower::Lowered lowered, lower::lower(dag, steps, target));
  lowered.func.name = kSymbol;
  TESSERA_TRY(const codegen::Binary object, codegen::compile({lowered.func}, target));
  Built built;
  built.object.assign(object.bytes.begin(), object.bytes.end());
  built.symbol = object.kernels[0].name;
  built.shared_bytes = object.kernels[0].shared_bytes;
  built.worker_bytes = object.kernels[0].worker_bytes;
  add_layouts(lowered.param_layouts, &built);
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
  if (confine) confine_process(target.is_gpu() ? Work::kDevice : Work::kCode);
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
