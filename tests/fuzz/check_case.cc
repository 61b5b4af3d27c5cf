#include "check_case.h"

#include <algorithm>
#include <cstring>

#include "random_schedule.h"
#include "tessera/backend/codegen/codegen.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/scheduling/lower/lower.h"
#include "tests/testing/testing.h"

namespace tessera::fuzz {
namespace {

constexpr std::size_t kGuardBytes = 256;  // around every parameter
constexpr int kMaxNodes = 60000;          // larger programs are interpreted only

// Memory with canaries on both sides.
class Guarded {
 public:
  explicit Guarded(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuardBytes) {
    std::memset(memory_.data(), 0xa5, memory_.bytes());
  }
  std::byte* data() const { return memory_.data() + kGuardBytes; }
  bool intact() const {
    const auto untouched = [](std::byte b) { return b == std::byte{0xa5}; };
    return std::all_of(memory_.data(), data(), untouched) &&
           std::all_of(data() + bytes_, memory_.data() + memory_.bytes(), untouched);
  }

 private:
  std::size_t bytes_;
  runtime::AlignedBuffer memory_;
};

std::vector<HostTensor> make_params(const lower::Lowered& lowered,
                                    const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> params;
  for (std::size_t i = 0; i < lowered.func.params.size(); ++i) {
    const ir::Buffer& b = lowered.func.params[i];
    HostTensor t(b->dtype, b->shape);
    if (i < inputs.size()) {
      const HostTensor packed = lowered.param_layouts[i].empty()
                                    ? inputs[i]
                                    : lower::pack(inputs[i], lowered.param_layouts[i]);
      std::memcpy(t.data(), packed.data(), packed.bytes());
    }
    params.push_back(t);
  }
  return params;
}

std::string compare(const RandomDag& dag, const std::vector<HostTensor>& params,
                    const std::vector<HostTensor>& want) {
  for (std::size_t o = 0; o < want.size(); ++o) {
    // Lowered outputs are flat.
    HostTensor got(want[o].dtype(), want[o].shape());
    std::memcpy(got.data(), params[dag.inputs.size() + o].data(), got.bytes());
    const std::string difference =
        testing::mismatch(got, want[o], is_float(got.dtype()) ? dag.tolerance : 0);
    if (!difference.empty())
      return fmt::format("output {} {}", dag.dag.outputs[o]->name, difference);
  }
  return "";
}

std::string check_func(const RandomDag& dag, const lower::Lowered& lowered,
                       const std::vector<HostTensor>& want) {
  std::vector<HostTensor> params = make_params(lowered, dag.inputs);
  if (const Result<void> ran = interp::run(lowered.func, params); !ran.ok())
    return ran.error().message;
  return compare(dag, params, want);
}

std::string check_text(const ir::Func& func) {
  const std::string text = ir::to_text(func);
  const Result<ir::Func> back = ir::parse_func(text);
  if (!back.ok()) return "its text does not parse: " + back.error().message;
  return ir::equal(*back, func) ? "" : "its text reads back as another function";
}

std::string check_kernel(const RandomDag& dag, const lower::Lowered& lowered,
                         const std::vector<HostTensor>& want, const target::Target& target) {
  auto binary =
      codegen::compile_kernel(lowered.func, target, {.opt_level = 1, .verify_llvm = true});
  if (!binary.ok()) return binary.error().message;
  binary->target = target::host();  // a handler may execute what the processor does not have
  const auto kernel = runtime::load_kernel(*binary);
  if (!kernel.ok()) return kernel.error().message;
  for (const int threads : {1, 3}) {
    static runtime::ThreadPool single({.threads = 1});
    static runtime::ThreadPool several({.threads = 3, .spin_us = 0});
    runtime::ThreadPool& pool = threads == 1 ? single : several;
    std::vector<HostTensor> params = make_params(lowered, dag.inputs);
    std::vector<Guarded> memory;
    std::vector<void*> pointers;
    for (std::size_t i = 0; i < params.size(); ++i) {
      memory.emplace_back(params[i].bytes());
      if (i < dag.inputs.size())
        std::memcpy(memory.back().data(), params[i].data(), params[i].bytes());
      pointers.push_back(memory.back().data());
    }
    const codegen::KernelInfo& info = (*kernel)->info;
    const Guarded workspace(
        static_cast<std::size_t>(info.shared_bytes + info.worker_bytes * pool.host()->num_workers));
    (*kernel)->entry(pointers.data(), workspace.data(), pool.host());
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!memory[i].intact())
        return fmt::format("{} threads: wrote beside {}", threads, lowered.func.params[i]->name);
      const bool input = i < dag.inputs.size();
      if (input && std::memcmp(memory[i].data(), params[i].data(), params[i].bytes()) != 0) {
        return fmt::format("{} threads: wrote to input {}", threads, lowered.func.params[i]->name);
      }
      std::memcpy(params[i].data(), memory[i].data(), params[i].bytes());
    }
    if (!workspace.intact()) return fmt::format("{} threads: wrote beside the workspace", threads);
    if (const std::string difference = compare(dag, params, want); !difference.empty()) {
      return fmt::format("{} threads: {}", threads, difference);
    }
  }
  return "";
}

std::string check_schedule_text(const te::Dag& dag, const schedule::Schedule& schedule,
                                const schedule::State& state) {
  const std::string text = schedule::to_text(schedule);
  const Result<schedule::Schedule> back = schedule::schedule_from_text(text);
  if (!back.ok()) return "schedule text: " + back.error().message;
  if (schedule::to_text(*back) != text) return "schedule text reads back as another schedule";
  const Result<schedule::State> again = schedule::apply(dag, *back);
  if (!again.ok()) return "schedule text: " + again.error().message;
  return schedule::to_text(*again) == schedule::to_text(state)
             ? ""
             : "schedule text replays to another state";
}

int count_nodes(const ir::Func& func) {
  int nodes = 0;
  if (func.body) ir::for_each_expr(func.body, [&](const ir::Expr&) { ++nodes; });
  return nodes;
}

// Vectors of four times the usual width: longer remainders, other splits of the lanes.
std::string check_wide(const RandomDag& dag, const schedule::State& state,
                       const std::vector<HostTensor>& want, target::Target wide) {
  wide.vector_bytes = 64;
  const auto lowered = lower::lower(state, wide);
  return lowered.ok() ? check_func(dag, *lowered, want) : lowered.error().message;
}

std::string check(const RandomDag& dag, const schedule::Schedule& schedule,
                  const CheckOptions& options) {
  if (const Result<void> ok = te::verify(dag.dag); !ok.ok()) return "dag: " + ok.error().message;
  const auto want = interp::run(dag.dag, dag.inputs);
  if (!want.ok()) return "interp of the dag: " + want.error().message;
  const auto state = schedule::apply(dag.dag, schedule);
  if (!state.ok()) return "";  // refused: nothing to compare
  if (std::string bad = check_schedule_text(dag.dag, schedule, *state); !bad.empty()) return bad;
  const auto built = lower::lower(*state, *options.target,
                                  {.print_after = {}, .stop_after = "build_loop_nest", .skip = {}});
  if (!built.ok())
    return built.error().code == ErrorCode::kIllegalSchedule
               ? ""
               : "build_loop_nest: " + built.error().message;
  if (std::string bad = check_func(dag, *built, *want); !bad.empty())
    return "after build_loop_nest: " + bad;
  const auto lowered = lower::lower(*state, *options.target);
  if (!lowered.ok())
    return lowered.error().code == ErrorCode::kIllegalSchedule
               ? ""
               : "lower: " + lowered.error().message;
  if (std::string bad = check_func(dag, *lowered, *want); !bad.empty()) {
    for (const std::string& pass : lower::pass_names(*options.target)) {
      const auto part = lower::lower(*state, *options.target,
                                     {.print_after = {}, .stop_after = pass, .skip = {}});
      if (const std::string first = check_func(dag, *part, *want); !first.empty())
        return "after " + pass + ": " + first;
    }
    return "after lowering: " + bad;
  }
  if (std::string bad = check_wide(dag, *state, *want, *options.target); !bad.empty())
    return "lowered for wide vectors: " + bad;
  const bool small = count_nodes(lowered->func) <= kMaxNodes;
  if (std::string bad = small ? check_text(lowered->func) : ""; !bad.empty())
    return "lowered function: " + bad;
  if (!options.compile || !small) return "";
  const std::string bad = check_kernel(dag, *lowered, *want, *options.target);
  return bad.empty() ? "" : "compiled kernel, " + bad;
}

}  // namespace

std::string check_case(const RandomDag& dag, const schedule::Schedule& schedule,
                       const CheckOptions& options) {
  try {
    return check(dag, schedule, options);
  } catch (const std::exception& e) {
    return fmt::format("exception: {}", e.what());
  }
}

schedule::Schedule shrink(const RandomDag& dag, const schedule::Schedule& schedule,
                          const CheckOptions& options) {
  schedule::Schedule best = schedule;
  for (std::size_t i = best.steps.size(); i-- > 0;) {
    const schedule::Schedule shorter = without_step(best, i);
    if (check_case(dag, shorter, options).empty()) continue;
    best = shorter;
    i = best.steps.size();  // an earlier drop may allow a later one
  }
  return best;
}

std::string lowered_text(const te::Dag& dag, const schedule::Schedule& schedule) {
  const auto lowered = lower::lower(dag, schedule, target::host());
  return lowered.ok() ? ir::to_text(lowered->func) : lowered.error().message;
}

Case make_case(std::uint64_t seed) {
  Rng rng(seed);
  Case out;
  out.dag = random_dag(rng);
  out.schedule = random_schedule(out.dag.dag, rng);
  return out;
}

}  // namespace tessera::fuzz
