// tessera bench MODEL.
#include "tessera/driver/bench_model.h"

#include <cstdio>

#include "tessera/cli/bench_output.h"
#include "tessera/cli/command.h"
#include "tessera/driver/machine.h"
#include "tessera/support/npz.h"

namespace tessera::cli {
namespace {

nlohmann::ordered_json model_json(const driver::ModelBenchResult& r) {
  nlohmann::ordered_json j = to_json(r.bench);
  j["import_ms"] = r.import_ms;
  j["kernels"] = r.kernels;
  j["steps"] = r.steps;
  j["arena_bytes"] = r.arena_bytes;
  j["live_bytes"] = r.live_bytes;
  j["constant_bytes"] = r.constant_bytes;
  j["verified_by"] = r.verified_by;
  for (const driver::StepTime& s : r.profile) {
    j["profile"].push_back({{"name", s.name},
                            {"node", s.origin},
                            {"us", s.us},
                            {"gflops", s.gflops},
                            {"gbytes_per_s", s.gbytes_per_s}});
  }
  return j;
}

void print(const driver::ModelBenchResult& r, double peak) {
  print_row(r.bench, false);
  fmt::print(
      "    {} kernels in {} steps, {:.1f} MB of weights, {:.1f} MB of memory, checked by {}\n",
      r.kernels, r.steps, static_cast<double>(r.constant_bytes) * 1e-6,
      static_cast<double>(r.arena_bytes) * 1e-6, r.verified_by);
  if (r.profile.empty()) return;
  double total = 0;
  for (const driver::StepTime& s : r.profile) total += s.us;
  fmt::print("{:>10} {:>6} {:>9} {:>7} {:>8}  {}\n", "us", "%", "GFLOP/s", "% peak", "GB/s",
             "kernel");
  for (const driver::StepTime& s : r.profile) {
    fmt::print("{:>10.1f} {:>6.2f} {:>9.2f} {:>7.1f} {:>8.2f}  {}  [{}]\n", s.us,
               100 * s.us / total, s.gflops, peak > 0 ? 100 * s.gflops / peak : 0.0, s.gbytes_per_s,
               s.name, s.origin);
  }
}

}  // namespace

int bench_one_model(const ModelArgs& model, const ModelBenchArgs& args, int threads,
                    const std::vector<std::string>& peers, const runtime::TimingOptions& timing,
                    bool json) {
  driver::ModelBenchOptions options;
  Result<driver::LoadOptions> load = load_options(model);
  if (!load) return report(load.error());
  options.load = std::move(load).value();
  options.threads = threads;
  options.peers = peers;
  options.timing = timing;
  options.profile = args.profile;
  options.model.progress = build_progress();
  if (!args.inputs.empty()) {
    Result<NamedTensors> inputs = read_npz(args.inputs);
    if (!inputs) return report(inputs.error());
    for (NamedTensor& t : *inputs) options.inputs[t.name] = std::move(t.tensor);
  }
  Result<driver::ModelBenchResult> result =
      driver::bench_model(model.model, target::host(), options);
  if (!result) return report_model(result.error().with_context(model.model));
  const Result<double> peak = driver::measure_peak(DType::kF32, target::host(), threads, timing);
  if (!peak) return report(peak.error());
  if (*peak > 0) result->bench.fraction_of_peak = result->bench.gflops / *peak;
  if (json) {
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{{"results", nlohmann::ordered_json::array({model_json(*result)})}}
            .dump(2));
  } else {
    print(*result, *peak);
  }
  return result->bench.verified ? kOk : kWrongNumbers;
}

}  // namespace tessera::cli
