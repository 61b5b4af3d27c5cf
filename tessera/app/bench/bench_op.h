// Times one operation in turns with its peers in one interleaved run, after checking the result.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/bench/compare_outputs.h"
#include "tessera/backend/kernel/compile_op.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/timing.h"

namespace tessera::app {

struct BenchOptions {
  int threads = 1;
  std::vector<std::string> peers;
  // Nothing: chosen without measuring, as that of a kernel of a model is.
  std::optional<std::string> schedule_text;
  runtime::TimingOptions timing;
  double warmup_s = 0;     // of calls of ours before the first that is timed
  double peak_gflops = 0;  // of all threads; 0: fraction_of_peak is not known
};

struct PeerResult {
  std::string name;
  std::string version;
  std::string absent;  // reason; empty when it was measured
  double median_us = 0, p10_us = 0, p90_us = 0;
  double ratio = 0;        // peer time / our time: above 1, ours is faster
  double max_error = 0;    // as of BenchResult, from our outputs
  double range_error = 0;  // largest difference from our outputs, relative to their range
  bool verified = false;
  bool trusted = false;                      // as BenchResult's, of its own process
  std::optional<OutputAgreement> agreement;  // with it, of quantised models
};

struct BenchResult {
  std::string name;  // canonical spec
  int threads = 1;
  double median_us = 0, p10_us = 0, p90_us = 0, p99_us = 0;
  std::int64_t batch = 1;  // results of one call, for the throughput
  double gflops = 0;
  double fraction_of_peak = 0;
  double gbytes_per_s = 0;  // inputs + outputs once
  double build_ms = 0;
  bool compared = true;  // there was something to compare the result with
  bool verified = false;
  bool trusted = false;  // enough samples that did not wait for a core
  double max_error = 0;  // worst difference from the reference, relative to its tolerance
  std::vector<PeerResult> peers;
  std::vector<lower::PassTime> times;
};

// Calls `call` for so long, not at all for 0.
void warm_up(double seconds, const std::function<void()>& call);

// Results a second by the median.
double throughput(const BenchResult& result);

// The fastest of those that were measured and computed the same; null: none.
const PeerResult* best_peer(const BenchResult& result);

// Times and rates from an interleaved run: `samples` are ours, then those of the peers that are not
// absent. A peer without any ended on the way.
void set_times(const std::vector<runtime::Samples>& samples, double flops, double bytes,
               BenchResult* result);

// Samples by a device's own clock: `time` gives the seconds of so many calls.
runtime::Sampler on_device_clock(std::function<Result<double>(int calls)> time);

// Runs of a kernel or a model: by the clock of the device, or, in this process, by that of the
// timer, which sees when threads wait for a core.
template <class Runner>
void add_runs(runtime::InterleavedTimer* timer, const runtime::Device& device, Runner& runner) {
  if (device.features().in_process) {
    timer->add([&runner] { (void)runner.run(); });
  } else {
    timer->add(on_device_clock([&runner](int runs) { return runner.time(runs); }));
  }
}

Result<BenchResult> bench_op(const te::OpSpec& spec, const target::Target& target,
                             const BenchOptions& options);

}  // namespace tessera::app
