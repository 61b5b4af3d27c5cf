#include "tessera/app/bench/bench_stages.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/app/bench/compare_outputs.h"
#include "tessera/app/bench/model_file.h"
#include "tessera/app/bench/peer.h"
#include "tessera/app/bench/peer_process.h"
#include "tessera/app/compile/staged_model.h"
#include "tessera/frontend/onnx/input_types.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kStagedSeed = 1;
// After so many runs on the same data everything is compiled that is worth it.
constexpr int kStagedRuns = 4;
// What is compared comes out of sums of about this length; nothing is known of the graph.
constexpr double kStagedTerms = 4096;

double worst_of_stages(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want) {
  double out = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    Roundings rounded;
    if (is_float(got[i].dtype())) rounded.add(got[i].dtype(), kStagedTerms);
    const double error =
        got[i].size() == 0 && got[i].shape() == want[i].shape() ? 0 : range_error(got[i], want[i]);
    out = std::max(out, over_tolerance(error, tolerance(rounded)));
  }
  return out;
}

Result<std::vector<HostTensor>> staged_inputs(const StagedModel& model,
                                              const std::map<std::string, HostTensor>& given) {
  const std::vector<std::string>& names = model.input_names();
  std::vector<HostTensor> inputs = random_model_inputs(names, model.input_types(), kStagedSeed);
  for (const auto& [name, tensor] : given) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) {
      return make_error(ErrorCode::kInvalidArgument, "the model has no input '{}'; it has: {}",
                        name, fmt::join(names, " "));
    }
    inputs[static_cast<std::size_t>(at - names.begin())] = tensor;
  }
  return inputs;
}

// A model that ran, and what it computed.
struct RunStages {
  const std::string& spec;
  const onnx::Model& model;
  const CompileOptions& compile;
  const ModelBenchOptions& options;
  StagedModel& staged;
  std::vector<HostTensor> inputs, outputs;
};

// Those that could be started, in turns with ours; the first that agrees verifies it.
Result<std::vector<std::unique_ptr<PeerProcess>>> start_stage_peers(
    const RunStages& ours, ModelFile* file, runtime::InterleavedTimer* timer,
    ModelBenchResult* result) {
  BenchResult& bench = result->bench;
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (const std::string& name : ours.options.peers) {
    PeerResult peer{.name = name};
    std::vector<HostTensor> theirs;
    for (const HostTensor& t : ours.outputs) theirs.emplace_back(t.dtype(), t.shape());
    TESSERA_TRY(const std::string path, file->path(ours.spec, ours.model));
    Result<std::unique_ptr<PeerProcess>> started =
        start_peer_model(name, path, ours.options.threads, ours.staged.input_names(), ours.inputs,
                         ours.staged.output_names(), std::move(theirs), {});
    if (!started) {
      peer.absent = started.error().message;
    } else {
      PeerProcess& process = **started;
      peer.version = process.version();
      peer.max_error = worst_of_stages(ours.outputs, process.outputs());
      peer.verified = peer.max_error <= 1;
      if (peer.verified && !bench.verified) result->verified_by = peer.version;
      bench.verified = bench.verified || peer.verified;
      timer->add(
          runtime::Sampler([&process](int n, bool warm) { return process.sample(n, warm); }));
      peers.push_back(std::move(*started));
    }
    bench.peers.push_back(peer);
  }
  return peers;
}

Result<void> verify_node_by_node(const RunStages& ours, ModelBenchResult* result) {
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(ours.compile.target, device);
  TESSERA_TRY(const onnx::ResolvedInputs declared,
              onnx::resolve_inputs(ours.model.graph, ours.compile.import));
  std::map<std::string, HostTensor> values;
  for (const onnx::GraphInput& input : declared.inputs) {
    if (input.value) values[input.name] = *input.value;
  }
  for (std::size_t i = 0; i < ours.inputs.size(); ++i)
    values[ours.staged.input_names()[i]] = ours.inputs[i];
  onnx::ImportOptions import = ours.compile.import;
  import.shapes.clear();
  import.symbols.clear();
  import.override_declared = true;
  import.unrolled_nodes = INT64_MAX;
  TESSERA_TRY(const std::vector<HostTensor> plain,
              run_eager(ours.model, values, evaluator, import));
  result->verified_by = "every node alone";
  result->bench.max_error = worst_of_stages(ours.outputs, plain);
  result->bench.verified = result->bench.max_error <= 1;
  return {};
}

double bytes_of(const std::vector<HostTensor>& tensors) {
  double bytes = 0;
  for (const HostTensor& t : tensors) bytes += static_cast<double>(t.bytes());
  return bytes;
}

}  // namespace

Result<ModelBenchResult> bench_stages(const std::string& spec, const onnx::Model& model,
                                      const CompileOptions& compile,
                                      const ModelBenchOptions& options) {
  if (options.profile || !options.beside.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "shapes of {} follow from data: it is timed as a whole, without a profile "
                      "and other plans",
                      spec);
  }
  ModelBenchResult result;
  result.bench.name = spec;
  result.bench.threads = options.threads;
  const auto start = Clock::now();
  TESSERA_TRY(const auto staged,
              StagedModel::make(model, compile, {.threads = options.threads, .often = true}));
  RunStages ours{spec, model, compile, options, *staged, {}, {}};
  TESSERA_TRY(ours.inputs, staged_inputs(*staged, options.inputs));
  TESSERA_DO(staged->prepare());
  for (int i = 0; i < kStagedRuns; ++i) {
    TESSERA_TRY(ours.outputs, staged->run(ours.inputs));
  }
  result.bench.build_ms = milliseconds_since(start);
  result.kernels = result.steps = staged->compiled_kernels();
  for (std::size_t i = 0; i < ours.outputs.size(); ++i) {
    if (ours.outputs[i].size() > 0 && is_no_number(ours.outputs[i]))
      result.not_numbers.push_back(staged->output_names()[i]);
  }
  runtime::InterleavedTimer timer(options.timing);
  const auto call = [&] { (void)staged->run(ours.inputs); };
  timer.add(call);
  ModelFile file;
  TESSERA_TRY(const auto peers, start_stage_peers(ours, &file, &timer, &result));
  if (!result.bench.verified) TESSERA_DO(verify_node_by_node(ours, &result));
  warm_up(options.warmup_s, call);
  set_times(timer.run_undisturbed(), 0, bytes_of(ours.inputs) + bytes_of(ours.outputs),
            &result.bench);
  return result;
}

}  // namespace tessera::app
