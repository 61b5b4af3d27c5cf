#include "tessera/app/bench/bench_op.h"

#include <cmath>
#include <memory>

#include "tessera/app/bench/peer_process.h"
#include "tessera/app/bench/peer_program.h"
#include "tessera/backend/kernel/check_output.h"
#include "tessera/lang/te/ops/columns.h"
#include "tessera/lang/te/ops/float_parts.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kOpSeed = 1;
constexpr std::int64_t kOpSamples = 200;

// What the peer computes: the same operation stated without our choice of algorithm.
te::OpSpec plain_spec(const te::OpSpec& spec) {
  te::OpSpec plain = spec;
  if (plain.words.count("algo")) plain.words["algo"] = "direct";
  return plain;
}

struct Prepared {
  te::Dag plain;                   // of plain_spec: the reference and the peers
  std::vector<HostTensor> inputs;  // of plain
  std::vector<HostTensor> ours;    // of the Dag that is compiled
};

Result<Prepared> prepare(const te::OpSpec& spec) {
  Prepared p;
  TESSERA_TRY(p.plain, te::make_dag(plain_spec(spec)));
  p.inputs = kernel::random_inputs(p.plain, kOpSeed);
  p.ours = p.inputs;
  const auto found = spec.words.find("algo");
  const std::string algo = found == spec.words.end() ? "" : found->second;
  if (te::winograd_tile(spec) > 0) {
    TESSERA_TRY(p.ours[1], te::winograd_weights(p.inputs[1], spec));
  } else if (algo == te::kColumnsAlgorithm && spec.op == "conv2d") {
    p.ours[1] = te::column_weights(p.inputs[1]);
  } else if (algo == te::kPartsAlgorithm && spec.op == "dense") {
    p.ours[1] = te::float_parts(p.inputs[1]);
  }
  return p;
}

}  // namespace

// Nothing else runs there: no sample is disturbed.
runtime::Sampler on_device_clock(std::function<Result<double>(int)> time) {
  return [time = std::move(time)](int calls, bool warm) -> std::optional<runtime::TakenSample> {
    if (warm && !time(1).ok()) return std::nullopt;
    const Result<double> seconds = time(calls);
    if (!seconds.ok()) return std::nullopt;
    return runtime::TakenSample{{.total_s = *seconds}};
  };
}

void warm_up(double seconds, const std::function<void()>& call) {
  const auto start = Clock::now();
  while (seconds_since(start) < seconds) call();
}

double throughput(const BenchResult& result) {
  return result.median_us > 0 ? static_cast<double>(result.batch) * 1e6 / result.median_us : 0;
}

const PeerResult* best_peer(const BenchResult& result) {
  const PeerResult* best = nullptr;
  for (const PeerResult& p : result.peers) {
    const bool counts = p.absent.empty() && p.verified;
    if (counts && (best == nullptr || p.median_us < best->median_us)) best = &p;
  }
  return best;
}

void set_times(const std::vector<runtime::Samples>& samples, double flops, double bytes,
               BenchResult* result) {
  const double seconds = samples[0].median_s();
  result->median_us = seconds * 1e6;
  result->p10_us = samples[0].p10_s() * 1e6;
  result->p90_us = samples[0].p90_s() * 1e6;
  result->p99_us = samples[0].percentile(0.99) * 1e6;
  result->trusted = samples[0].trusted;
  result->gflops = flops / seconds * 1e-9;
  result->gbytes_per_s = bytes / seconds * 1e-9;
  std::size_t measured = 0;
  for (PeerResult& peer : result->peers) {
    if (!peer.absent.empty()) continue;
    if (samples[++measured].call_s.empty()) {
      peer.absent = "its process ended";
      continue;
    }
    const double peer_s = samples[measured].median_s();
    peer.median_us = peer_s * 1e6;
    peer.p10_us = samples[measured].p10_s() * 1e6;
    peer.p90_us = samples[measured].p90_s() * 1e6;
    peer.ratio = peer_s / seconds;
    peer.trusted = samples[measured].trusted;
  }
}

namespace {

Result<std::string> choose_schedule(const te::Dag& dag, const target::Target& target,
                                    const BenchOptions& options) {
  if (options.schedule_text) return *options.schedule_text;
  TESSERA_TRY(const schedule::Schedule steps, space::default_schedule(dag, target));
  return schedule::to_text(steps);
}

// Runs it once. What the outputs should be, for the peers.
Result<std::vector<kernel::Reference>> verify(kernel::OpRunner& runner, const Prepared& data,
                                              const target::Target& target, BenchResult* result) {
  for (std::size_t i = 0; i < data.ours.size(); ++i) TESSERA_DO(runner.set_input(i, data.ours[i]));
  TESSERA_DO(runner.run());
  std::vector<kernel::Reference> wanted;
  for (std::size_t o = 0; o < data.plain.outputs.size(); ++o) {
    TESSERA_TRY(const kernel::Reference want,
                kernel::reference(data.plain, data.inputs, o, kOpSamples, kOpSeed));
    TESSERA_TRY(const HostTensor got, runner.output(o));
    result->max_error =
        std::max(result->max_error,
                 kernel::worst_error(
                     want, got, kernel::tolerance(data.plain, o, target::products_of(target))));
    wanted.push_back(want);
  }
  result->verified = result->max_error <= 1;
  return wanted;
}

// Those that compute what is wanted are timed, and must live as long as the timer.
std::vector<std::unique_ptr<PeerProcess>> start_peers(
    const te::OpSpec& spec, const runtime::Device& device, const BenchOptions& options,
    const Prepared& data, const kernel::Reference& want, runtime::InterleavedTimer& timer,
    BenchResult* result) {
  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (const std::string& name : options.peers) {
    PeerResult& peer = result->peers.emplace_back(PeerResult{.name = name});
    const auto start = device.features().in_process ? start_peer_op : start_peer_program;
    Result<std::unique_ptr<PeerProcess>> started =
        start(name, te::to_text(plain_spec(spec)), options.threads, data.inputs,
              data.plain.outputs[0]->shape);
    if (!started.ok()) {
      peer.absent = started.error().message;
      continue;
    }
    PeerProcess& process = **started;
    peer.version = process.version();
    peer.verified =
        kernel::worst_error(want, process.outputs()[0], kernel::tolerance(data.plain, 0)) <= 1;
    if (!peer.verified) {
      peer.absent = "its result is wrong";
      continue;
    }
    timer.add(runtime::Sampler([&process](int n, bool warm) { return process.sample(n, warm); }));
    peers.push_back(std::move(*started));
  }
  return peers;
}

}  // namespace

Result<BenchResult> bench_op(const te::OpSpec& spec, const target::Target& machine,
                             const BenchOptions& options) {
  const target::Target target = target::code_target(machine, options.threads);
  BenchResult result;
  result.name = te::to_text(spec);
  result.threads = options.threads;
  TESSERA_TRY(const te::Dag dag, te::make_dag(spec));
  TESSERA_TRY(const std::string schedule, choose_schedule(dag, target, options));
  // Not pinned: the peers would inherit the one core of this thread.
  TESSERA_TRY(const std::unique_ptr<runtime::Device> device,
              runtime::open_device(target.kind, {.threads = options.threads}));
  Result<kernel::CompiledOp> compiled =
      kernel::compile_op(dag, schedule, target, {.device = device.get()});
  if (!compiled.ok()) return compiled.error().with_context("schedule");
  const kernel::CompiledOp op = std::move(compiled).value();
  result.build_ms = op.total_ms;
  result.times = op.times;

  kernel::OpRunner runner(op, *device);
  TESSERA_TRY(const Prepared data, prepare(spec));
  TESSERA_TRY(const std::vector<kernel::Reference> wanted, verify(runner, data, target, &result));
  runtime::InterleavedTimer timer(options.timing);
  add_runs(&timer, *device, runner);
  const std::vector<std::unique_ptr<PeerProcess>> peers =
      start_peers(spec, *device, options, data, wanted[0], timer, &result);
  warm_up(options.warmup_s, [&] { (void)runner.run(); });
  const std::vector<runtime::Samples> samples = timer.run_undisturbed();
  TESSERA_TRY(const te::OpWork work, te::op_work(spec));
  if (samples[0].call_s.empty())
    return make_error(ErrorCode::kRunFailed, "the device failed while it was timed");
  set_times(samples, work.flops, work.bytes, &result);
  if (options.peak_gflops > 0) result.fraction_of_peak = result.gflops / options.peak_gflops;
  return result;
}

}  // namespace tessera::app
