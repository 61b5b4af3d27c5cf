#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/app/bench/fit.h"
#include "tessera/app/bench/pool_bench.h"
#include "tessera/app/bench/probes.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"

namespace tessera::app {
namespace {

using target::Rates;

constexpr int kPoolRounds = 3;

// What a probe of so many cores says: its work in a cycle, or the cycles of its work.
struct Measured {
  const char* rate;
  double Rates::*value;
  Probe probe;
  double unit = 1;       // of the work that the rate counts
  bool latency = false;  // cycles of a unit, not units of a cycle
  bool ports = false;    // instructions that a core starts
};

class HostFit {
 public:
  explicit HostFit(const FitOptions& options)
      : options_(options), target_(target::host()), row_(target::shipped_row(target_)) {}

  Result<target::MachineRow> run() {
    runtime::ThreadPool one(probe_pool(1)), all(probe_pool(target_.cores));
    options_.progress("clock and instructions");
    TESSERA_DO(find_clock(one));
    TESSERA_DO(instructions(one));
    options_.progress("caches and memory, one core");
    TESSERA_DO(levels(one, false));
    options_.progress(fmt::format("caches and memory, {} cores", all.threads()));
    TESSERA_DO(levels(all, true));
    if (options_.wants("barrier_cycles") || options_.wants("dispatch_cycles")) pool(all.threads());
    return std::move(row_);
  }

 private:
  runtime::TimingOptions timing() const {
    return {.samples = 10, .time_limit_s = options_.seconds_per_rate};
  }
  void write(const char* rate, double Rates::*value, double number, int cores, double disturbed) {
    row_.target.rates.*value = number;
    row_.sources[rate] =
        fmt::format("tessera machine fit --target host, {} {}{}", cores,
                    cores == 1 ? "core" : "cores", tell_disturbed(options_, rate, disturbed));
  }

  Result<void> find_clock(runtime::ThreadPool& pool) {
    std::vector<Probe> clock(1);
    TESSERA_TRY(clock[0], clock_probe(target_, pool));
    measure(clock, pool, timing());
    hz_ = 1e9 * clock[0].giga_per_s();
    write("clock_mhz", &Rates::clock_mhz, std::round(hz_ * 1e-6), 1, clock[0].disturbed());
    return {};
  }

  Result<void> add_peak(std::vector<Measured>& list, const char* rate, double Rates::*value,
                        std::string_view kind, runtime::ThreadPool& pool, int accumulators) {
    const auto at = std::ranges::find(peak_kinds(), kind, &PeakKind::name);
    if (!options_.wants(rate)) return {};
    if (at->needs && !(target_.*at->needs)) {
      row_.target.rates.*value = 0;
      row_.sources.erase(rate);
      return {};
    }
    TESSERA_TRY(Probe probe, peak_probe(*at, target_, pool, accumulators));
    const bool latency = accumulators == 1;
    list.push_back(
        {rate, value, std::move(probe), at->ops_per_acc * peak_lanes(*at, target_), latency, true});
    return {};
  }

  Result<void> instructions(runtime::ThreadPool& pool) {
    std::vector<Measured> list;
    TESSERA_DO(
        add_peak(list, "fma_per_cycle", &Rates::fma_per_cycle, "f32_fma", pool, kAccumulators));
    TESSERA_DO(
        add_peak(list, "fma_latency_cycles", &Rates::fma_latency_cycles, "f32_fma", pool, 1));
    TESSERA_DO(add_peak(list, "byte_dots_per_cycle", &Rates::byte_dots_per_cycle, "i8_dot", pool,
                        kAccumulators));
    TESSERA_DO(add_peak(list, "bf16_dots_per_cycle", &Rates::bf16_dots_per_cycle, "bf16_dot", pool,
                        kAccumulators));
    TESSERA_DO(add_peak(list, "byte_matrix_per_cycle", &Rates::byte_matrix_per_cycle, "i8_mma",
                        pool, kAccumulators));
    TESSERA_DO(add_peak(list, "bf16_matrix_per_cycle", &Rates::bf16_matrix_per_cycle, "bf16_mma",
                        pool, kAccumulators));
    take(list, pool);
    return {};
  }

  Result<void> levels(runtime::ThreadPool& pool, bool all) {
    std::vector<Measured> list;
    const auto add = [&](const char* rate, double Rates::*value, const char* access,
                         std::int64_t bytes, double unit) -> Result<void> {
      if (!options_.wants(rate)) return {};
      TESSERA_TRY(Probe probe, access_probe(access, bytes, target_, pool));
      list.push_back({rate, value, std::move(probe), unit, false, unit > 1});
      return {};
    };
    const std::vector<ProbedLevel> levels = probed_levels(target_, pool.threads());
    const double vector = target_.vector_bytes;
    if (all) {
      TESSERA_DO(add("all_l3_bytes_per_cycle", &Rates::all_l3_bytes_per_cycle, "read",
                     levels[2].bytes, 1));
      TESSERA_DO(add("all_memory_bytes_per_cycle", &Rates::all_memory_bytes_per_cycle, "read",
                     levels[3].bytes, 1));
    } else {
      TESSERA_DO(add("loads_per_cycle", &Rates::loads_per_cycle, "read", levels[0].bytes, vector));
      TESSERA_DO(
          add("stores_per_cycle", &Rates::stores_per_cycle, "write", levels[0].bytes, vector));
      TESSERA_DO(add("l2_bytes_per_cycle", &Rates::l2_bytes_per_cycle, "read", levels[1].bytes, 1));
      TESSERA_DO(add("l3_bytes_per_cycle", &Rates::l3_bytes_per_cycle, "read", levels[2].bytes, 1));
      TESSERA_DO(add("memory_bytes_per_cycle", &Rates::memory_bytes_per_cycle, "read",
                     levels[3].bytes, 1));
      if (options_.wants("line_latency_cycles")) {
        TESSERA_TRY(Probe chase, chase_probe(levels[3].bytes, target_, pool));
        list.push_back(
            {"line_latency_cycles", &Rates::line_latency_cycles, std::move(chase), 1, true, false});
      }
    }
    take(list, pool);
    return {};
  }

  // One after the other: the next one's memory would not stay in the caches of this one.
  void take(std::vector<Measured>& list, runtime::ThreadPool& pool) {
    for (Measured& m : list) {
      std::vector<Probe> probe;
      probe.push_back(std::move(m.probe));
      measure(probe, pool, timing());
      const double per_cycle = 1e9 * probe[0].giga_per_s() / m.unit / hz_;
      const double number = m.latency ? 1 / per_cycle : per_cycle;
      const double ports = m.latency ? std::max(1.0, std::round(number)) : rounded_ports(number);
      write(m.rate, m.value, m.ports ? ports : rounded_rate(number), pool.threads(),
            probe[0].disturbed());
    }
  }

  void pool(int threads) {
    options_.progress("the thread pool");
    std::vector<double> loops, meetings;
    const double before_s = processor_seconds();
    const Clock::time_point start = Clock::now();
    for (int round = 0; round < kPoolRounds; ++round) {
      const PoolReport report = measure_pool(threads, /*parked=*/false);
      loops.push_back(1e-6 * report.awake_us);
      meetings.push_back(1e-6 * report.awake_all_us);
    }
    const double run_s = threads * seconds_since(start);
    const double processor_s = processor_seconds() - before_s;
    write("barrier_cycles", &Rates::barrier_cycles, rounded_rate(median(meetings) * hz_), threads,
          disturbance(meetings, run_s, processor_s));
    write("dispatch_cycles", &Rates::dispatch_cycles, rounded_rate(median(loops) * hz_), threads,
          disturbance(loops, run_s, processor_s));
  }

  const FitOptions& options_;
  const target::Target& target_;
  target::MachineRow row_;
  double hz_ = 1e9;
};

}  // namespace

bool FitOptions::wants(std::string_view rate) const {
  return rates.empty() || std::ranges::find(rates, rate) != rates.end();
}

std::string tell_disturbed(const FitOptions& options, std::string_view rate, double part) {
  if (part <= kSteady) return "";
  options.disturbed(rate, part);
  return fmt::format(", disturbed by {:.0f} %", 100 * part);
}

double rounded_rate(double value) {
  if (!(value > 0) || !std::isfinite(value)) return 0;
  const double step = std::pow(10, std::floor(std::log10(value)) - 1);  // two digits
  return std::round(value / step) * step;
}

// Ports are whole, and a probe never reaches all that they can do. Instructions that keep one for
// several cycles count in quarters.
double rounded_ports(double value) {
  return value < 0.75 ? std::max(0.25, std::round(4 * value) / 4) : std::floor(value + 0.6);
}

Result<target::MachineRow> fit_host(const FitOptions& options) { return HostFit(options).run(); }

}  // namespace tessera::app
