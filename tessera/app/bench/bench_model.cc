#include "tessera/app/bench/bench_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/ranges.h>

#include "tessera/app/bench/bench_stages.h"
#include "tessera/app/bench/ceilings.h"
#include "tessera/app/bench/check_kernels.h"
#include "tessera/app/bench/model_file.h"
#include "tessera/app/bench/peer_process.h"
#include "tessera/app/bench/watch_steps.h"
#include "tessera/app/compile/decide_model.h"
#include "tessera/app/compile/float_products.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/open_model.h"
#include "tessera/frontend/onnx/input_types.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kSeed = 1;
// Mean difference from nodes alone, of the range of an output, that roundings of products add up to
// at most: more is another model.
constexpr double kMostRounded = 0.1;

// Decided as the options say, built and run once.
Result<std::vector<HostTensor>> run_as(const onnx::Model& model, const CompileOptions& options,
                                       const std::vector<HostTensor>& inputs,
                                       runtime::Device& device) {
  ModelSource source{Result<onnx::Model>(model)};
  TESSERA_TRY(const exec::PreparedModel prepared, prepare_model(source, options, &device));
  return exec::run_model(prepared.model, device, inputs);
}

// The same model compiled for the cores of this machine: what a GPU's results are compared with.
Result<std::vector<HostTensor>> cpu_outputs(const onnx::Model& model, CompileOptions options,
                                            const std::vector<HostTensor>& inputs) {
  runtime::CpuDevice cores({.threads = target::default_threads()});
  options.integer_products = integer_products_for(options);
  options.target = cores.target();
  options.floats = DType::kF32;
  options.skip_passes.clear();
  options.plan.reset();
  return run_as(model, options, inputs, cores);
}

// The same model with nothing rewritten, fused or reordered.
Result<std::vector<HostTensor>> plain_outputs(const onnx::Model& model, CompileOptions options,
                                              const std::vector<HostTensor>& inputs,
                                              runtime::Device& device) {
  options.optimize = options.fuse = false;
  options.plan.reset();
  return run_as(model, options, inputs, device);
}

constexpr int kProfileRuns = 9;

// A model that is ready to run, with the keys of its tasks.
struct Runnable {
  const exec::CompiledModel& model;
  exec::ModelRunner& runner;
  std::vector<std::string> keys;
};

std::vector<std::string> keys_of(const std::vector<task::Task>& tasks) {
  std::vector<std::string> keys;
  keys.reserve(tasks.size());
  for (const task::Task& t : tasks) keys.push_back(t.key);
  return keys;
}

std::vector<StepTime> median_steps(const Runnable& r, std::vector<std::vector<double>> times) {
  std::vector<StepTime> steps;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double us = median(std::move(times[i]));
    const exec::CompiledModel::Step& s = r.model.steps[i];
    const bool kernel = s.kind == task::GroupKind::kKernel;
    steps.push_back({.name = s.name,
                     .origin = s.origin,
                     .task = kernel ? r.keys[s.kernel] : "",
                     .us = us,
                     .gflops = s.flops / us * 1e-3,
                     .gbytes_per_s = s.bytes / us * 1e-3});
  }
  return steps;
}

// In turns, so that what disturbs one disturbs all.
Result<std::vector<std::vector<StepTime>>> profile_in_turns(const std::vector<Runnable>& models) {
  std::vector<std::vector<std::vector<double>>> times;
  times.reserve(models.size());
  for (const Runnable& r : models) times.emplace_back(r.model.steps.size());
  for (int run = 0; run < kProfileRuns; ++run) {
    for (std::size_t m = 0; m < models.size(); ++m) {
      TESSERA_TRY(const std::vector<double> one, models[m].runner.profile());
      for (std::size_t i = 0; i < one.size(); ++i) times[m][i].push_back(one[i]);
    }
  }
  std::vector<std::vector<StepTime>> out;
  for (std::size_t m = 0; m < models.size(); ++m)
    out.push_back(median_steps(models[m], std::move(times[m])));
  return out;
}

// Shares of the time of a step, each the median of several runs.
struct StepShares {
  std::vector<double> waiting, cold;
};

// Of a device with memory of its own nothing is known of what happens inside a kernel.
Result<std::vector<StepShares>> shares_of(const Runnable& model, bool in_process, int threads) {
  std::vector<StepShares> out(model.model.steps.size());
  for (int run = 0; run < kProfileRuns && in_process; ++run) {
    TESSERA_TRY(const std::vector<WatchedStep> steps,
                watch_steps(model.model, model.runner, threads));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].us <= 0) continue;
      out[i].waiting.push_back(steps[i].waiting_us / steps[i].us);
      out[i].cold.push_back(1 - steps[i].again_us / steps[i].us);
    }
  }
  return out;
}

// In the order of the profile; empty where the rates of the machine are not known.
Result<std::vector<Breakdown>> breakdown_of(const Runnable& model,
                                            const std::vector<task::Task>& tasks,
                                            const std::vector<StepTime>& profile, bool in_process,
                                            const ModelBenchOptions& options) {
  const target::Target& target = options.compile.target;
  TESSERA_TRY(const std::vector<StepShares> shares, shares_of(model, in_process, options.threads));
  TESSERA_TRY(const auto ceilings, ceilings_of(target::to_text(target), options.threads));
  if (!ceilings) return std::vector<Breakdown>();
  const auto l2_bytes = static_cast<double>(target.l2_bytes) * options.threads;
  const auto model_bytes = static_cast<double>(model.model.constant_bytes + model.model.live_bytes);
  std::vector<Breakdown> out;
  for (std::size_t i = 0; i < profile.size(); ++i) {
    const exec::CompiledModel::Step& step = model.model.steps[i];
    double constants = 0;
    for (const exec::Storage& s : step.params) {
      if (s.place == exec::Place::kConstant)
        constants += static_cast<double>(model.model.constants[s.index].bytes());
    }
    StepFacts facts{.us = profile[i].us, .flops = step.flops};
    if (step.kind == task::GroupKind::kKernel && !tasks[step.kernel].dag.inputs.empty())
      facts.dtype = to_text(tasks[step.kernel].dag.inputs[0].buffer->dtype);
    facts.far_bytes =
        far_bytes(constants, std::max(0.0, step.bytes - constants), l2_bytes, model_bytes);
    if (!shares[i].waiting.empty()) {
      facts.waiting_share = median(shares[i].waiting);
      facts.cold_share = std::max(0.0, median(shares[i].cold));
    }
    out.push_back(break_down(facts, *ceilings, model_bytes));
  }
  return out;
}

// Those that the options give, random ones for the rest.
Result<std::vector<HostTensor>> chosen_inputs(const graph::Graph& graph,
                                              const exec::CompiledModel& model,
                                              const ModelBenchOptions& options) {
  const std::vector<std::string>& names = model.input_names;
  for (const auto& [name, unused] : options.inputs) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return make_error(ErrorCode::kInvalidArgument, "the model has no input '{}'; it has: {}",
                        name, fmt::join(names, " "));
    }
  }
  std::vector<HostTensor> inputs = random_model_inputs(graph, kSeed);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto it = options.inputs.find(names[i]);
    if (it != options.inputs.end()) inputs[i] = it->second;
  }
  return inputs;
}

// What a peer is given: it has the inputs, too, that have a fixed value in ours.
struct PeerInputs {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;
};

Result<PeerInputs> peer_inputs(const onnx::Model& model, const onnx::ImportOptions& import,
                               const exec::CompiledModel& compiled,
                               const std::vector<HostTensor>& inputs) {
  PeerInputs out{compiled.input_names, inputs};
  if (import.values.empty() && import.literals.empty()) return out;
  TESSERA_TRY(const onnx::ResolvedInputs resolved, onnx::resolve_inputs(model.graph, import));
  for (const onnx::GraphInput& input : resolved.inputs) {
    if (!input.value) continue;
    out.names.push_back(input.name);
    out.tensors.push_back(*input.value);
  }
  return out;
}

// Types that are not f32 matter to peers on a GPU; on a CPU they run the model as it is.
PeerPlace peer_place(const target::Target& target, DType floats) {
  if (!target.is_gpu()) return {};
  const bool tf32 = floats == DType::kF32 && target::products_of(target) == Products::kTf32;
  return {.device = target::to_text(target.kind), .dtype = tf32 ? "tf32" : to_text(floats)};
}

void describe(const exec::CompiledModel& compiled, ModelBenchResult* result) {
  result->kernels = static_cast<std::int64_t>(compiled.kernels.size());
  result->cached_kernels = compiled.cached_kernels;
  result->steps = static_cast<std::int64_t>(compiled.steps.size());
  result->arena_bytes = compiled.arena_bytes;
  result->live_bytes = compiled.live_bytes;
  result->constant_bytes = compiled.constant_bytes;
}

// A model that ran once, and what it computed.
struct Computed {
  const onnx::Model& model;
  const DecidedModel& decided;
  const exec::CompiledModel& compiled;
  const ModelBenchOptions& options;
  const CompileOptions& compile;  // for the threads of the options
  bool quantised = false;
  std::vector<HostTensor> inputs, outputs;
};

// The peers that could be started; the first that agrees with ours verifies it.
Result<std::vector<std::unique_ptr<PeerProcess>>> start_peers(const Computed& ours, ModelFile* file,
                                                              runtime::InterleavedTimer* timer,
                                                              ModelBenchResult* result) {
  BenchResult& bench = result->bench;
  TESSERA_TRY(const PeerInputs given,
              peer_inputs(ours.model, ours.compile.import, ours.compiled, ours.inputs));
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (const std::string& name : ours.options.peers) {
    PeerResult peer{.name = name};
    std::vector<HostTensor> theirs;
    for (const auto& type : ours.compiled.output_types) theirs.emplace_back(type.dtype, type.shape);
    TESSERA_TRY(const std::string path, file->path(bench.name, ours.model));
    Result<std::unique_ptr<PeerProcess>> started = start_peer_model(
        name, path, ours.options.threads, given.names, given.tensors, ours.compiled.output_names,
        std::move(theirs), peer_place(ours.compile.target, ours.compile.floats));
    if (!started) {
      peer.absent = started.error().message;
    } else {
      PeerProcess& process = **started;
      peer.version = process.version();
      peer.max_error = worst_output(ours.decided.graph, ours.outputs, process.outputs(),
                                    target::products_of(ours.compile.target));
      for (std::size_t i = 0; i < ours.outputs.size(); ++i) {
        const double error = range_error(process.outputs()[i], ours.outputs[i]);
        peer.range_error = std::max(peer.range_error, error);
      }
      peer.verified = peer.max_error <= 1;
      if (ours.quantised) peer.agreement = agreement(ours.outputs, process.outputs());
      if (peer.verified && !bench.verified && !ours.quantised) {
        result->verified_by = peer.version;
        bench.max_error = peer.max_error;
        bench.verified = true;
      }
      timer->add(
          runtime::Sampler([&process](int n, bool warm) { return process.sample(n, warm); }));
      peers.push_back(std::move(*started));
    }
    bench.peers.push_back(peer);
  }
  return peers;
}

// The same model in another build, on the same inputs.
struct Beside {
  exec::CompiledModel compiled;
  std::vector<std::string> keys;
  std::unique_ptr<exec::ModelRunner> runner;
};

Result<std::vector<std::unique_ptr<Beside>>> start_beside(const Computed& ours,
                                                          runtime::Device& device,
                                                          runtime::InterleavedTimer* timer,
                                                          BenchResult* bench) {
  std::vector<std::unique_ptr<Beside>> out;
  for (const BesideModel& other : ours.options.beside) {
    auto b = std::make_unique<Beside>();
    CompileOptions how = ours.compile;
    how.plan = other.plan;
    ModelSource source{Result<onnx::Model>(ours.model)};
    TESSERA_TRY(DecidedModel decided, decide_model(source, how));
    if (other.as_written)
      decided.build.schedule = [](const task::Task&) { return Result(schedule::Schedule()); };
    b->keys = keys_of(decided.tasks.tasks);
    TESSERA_TRY(b->compiled, compile_decided(decided, how.target, &device));
    b->runner = std::make_unique<exec::ModelRunner>(b->compiled, device);
    for (std::size_t i = 0; i < ours.inputs.size(); ++i)
      TESSERA_DO(b->runner->set_input(i, ours.inputs[i]));
    TESSERA_DO(b->runner->run());
    std::vector<HostTensor> theirs;
    for (std::size_t i = 0; i < b->compiled.output_types.size(); ++i)
      theirs.push_back(b->runner->output(i));
    PeerResult peer{.name = other.name};
    peer.max_error = worst_output(ours.decided.graph, ours.outputs, theirs,
                                  target::products_of(ours.compile.target));
    peer.verified = peer.max_error <= 1;
    bench->peers.push_back(peer);
    add_runs(timer, device, *b->runner);
    out.push_back(std::move(b));
  }
  return out;
}

// Products round what they multiply where that is permitted, which nodes alone do not: over many
// layers the whole may part from them by more than roundings of the same products.
bool rounds_products(const graph::Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return std::string_view(node.op->name) == "contract_rounded";
  });
}

// By code of ours that is made in another way.
Result<void> verify_alone(const Computed& ours, runtime::Device& device, ModelBenchResult* result) {
  BenchResult& bench = result->bench;
  TESSERA_TRY(const std::vector<HostTensor> plain,
              outputs_otherwise(ours.model, ours.compile, ours.inputs, device));
  result->verified_by = device.features().in_process ? "every node alone" : "this machine's cores";
  bench.max_error = worst_output(ours.decided.graph, ours.outputs, plain,
                                 target::products_of(ours.compile.target));
  const bool rounds = rounds_products(ours.decided.graph);
  if (ours.quantised || rounds) {
    result->agrees_with = result->verified_by;
    result->agreement = agreement(ours.outputs, plain);
  }
  bench.verified =
      bench.max_error <= 1 || (rounds && result->agreement->mean_error <= kMostRounded);
  if (ours.compile.floats != DType::kF32) {
    for (std::size_t i = 0; i < plain.size(); ++i) {
      result->error_of_floats =
          std::max(result->error_of_floats, range_error(ours.outputs[i], plain[i]));
    }
  }
  bench.compared =
      bench.verified || !agree_but_for_no_numbers(ours.decided.graph, ours.outputs, plain);
  return {};
}

// Each kernel alone, where the outputs of the whole tell little.
Result<void> verify_kernels(const Computed& ours, exec::ModelRunner& runner,
                            ModelBenchResult* result) {
  BenchResult& bench = result->bench;
  if (!bench.compared || !is_narrow(ours.decided.graph)) return {};
  TESSERA_TRY(const KernelsCheck check,
              check_kernels(ours.decided.graph, ours.decided.tasks, ours.compiled, runner));
  bench.verified = bench.verified && check.worst <= 1;
  // Of a whole that is wrong, its own error is told.
  if (bench.verified || check.worst > 1) bench.max_error = check.worst;
  result->verified_by = "the interpreter, kernel by kernel";
  if (check.worst > 1) result->wrong_node = check.worst_node;
  return {};
}

}  // namespace

Result<std::vector<HostTensor>> outputs_otherwise(const onnx::Model& model,
                                                  const CompileOptions& options,
                                                  const std::vector<HostTensor>& inputs,
                                                  runtime::Device& device) {
  return device.features().in_process ? plain_outputs(model, options, inputs, device)
                                      : cpu_outputs(model, options, inputs);
}

double ModelBenchResult::kernels_us() const {
  double sum = 0;
  for (const StepTime& s : profile) sum += s.us;
  return sum;
}

Result<ModelBenchResult> bench_model(const std::string& spec, const ModelBenchOptions& options) {
  CompileOptions how = options.compile;
  how.target = target::code_target(how.target, options.threads);
  TESSERA_TRY(const std::unique_ptr<runtime::Device> device,
              runtime::open_device(how.target.kind, {.threads = options.threads}));
  ModelBenchResult result;
  BenchResult& bench = result.bench;
  bench.name = spec;
  bench.threads = options.threads;
  const auto start = Clock::now();
  TESSERA_TRY(const onnx::Model model, load_onnx(spec));
  result.import_ms = milliseconds_since(start);
  const auto build = Clock::now();
  ModelSource source{Result<onnx::Model>(model)};
  Result<DecidedModel> whole = decide_model(source, how);
  if (!whole && whole.error().code == ErrorCode::kDataDependent &&
      target::runs_on_host(how.target)) {
    return bench_stages(spec, model, how, options);
  }
  TESSERA_TRY(const DecidedModel decided, std::move(whole));
  TESSERA_TRY(const exec::CompiledModel compiled,
              compile_decided(decided, how.target, device.get()));
  bench.build_ms = milliseconds_since(build);
  describe(compiled, &result);
  result.narrow_share = narrow_share(decided.tasks);
  result.faster_floats = faster_floats(how.target, how.floats, decided.tasks);

  Computed ours{model, decided, compiled, options, how, false, {}, {}};
  const std::vector<bool> quantised = quantised_outputs(decided.graph);
  ours.quantised = std::find(quantised.begin(), quantised.end(), true) != quantised.end();
  TESSERA_TRY(ours.inputs, chosen_inputs(decided.graph, compiled, options));
  exec::ModelRunner runner(compiled, *device);
  for (std::size_t i = 0; i < ours.inputs.size(); ++i)
    TESSERA_DO(runner.set_input(i, ours.inputs[i]));
  TESSERA_DO(runner.run());
  for (std::size_t i = 0; i < compiled.output_types.size(); ++i) {
    ours.outputs.push_back(runner.output(i));
    if (is_no_number(ours.outputs[i])) result.not_numbers.push_back(compiled.output_names[i]);
  }

  runtime::InterleavedTimer timer(options.timing);
  add_runs(&timer, *device, runner);
  ModelFile file;
  TESSERA_TRY(const std::vector<std::unique_ptr<PeerProcess>> peers,
              start_peers(ours, &file, &timer, &result));
  TESSERA_TRY(const std::vector<std::unique_ptr<Beside>> beside,
              start_beside(ours, *device, &timer, &bench));
  // A peer that disagrees may itself be wrong.
  if (!bench.verified || how.floats != DType::kF32)
    TESSERA_DO(verify_alone(ours, *device, &result));
  TESSERA_DO(verify_kernels(ours, runner, &result));
  warm_up(options.warmup_s, [&] { (void)runner.run(); });
  if (options.profile) {
    std::vector<Runnable> models = {{compiled, runner, keys_of(decided.tasks.tasks)}};
    for (const std::unique_ptr<Beside>& b : beside)
      models.push_back({b->compiled, *b->runner, b->keys});
    TESSERA_TRY(result.beside_profiles, profile_in_turns(models));
    result.profile = std::move(result.beside_profiles.front());
    result.beside_profiles.erase(result.beside_profiles.begin());
  }
  const std::vector<runtime::Samples> samples = timer.run_undisturbed();
  if (samples[0].call_s.empty())
    return make_error(ErrorCode::kRunFailed, "the device failed while it was timed");
  double flops = 0, bytes = 0;
  for (const exec::CompiledModel::Step& s : compiled.steps) {
    flops += s.flops;
    bytes += s.bytes;
  }
  set_times(samples, flops, bytes, &bench);
  if (options.profile) {
    const Runnable ran{compiled, runner, {}};
    TESSERA_TRY(result.breakdown, breakdown_of(ran, decided.tasks.tasks, result.profile,
                                               device->features().in_process, options));
  }
  return result;
}

}  // namespace tessera::app
