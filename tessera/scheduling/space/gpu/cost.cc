#include "tessera/scheduling/space/gpu/cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::space {
namespace {

// What disturbs work that should overlap, cycles of addresses and branches, and the share of a wait
// that nothing hides. With them and the rates of an H200, nine in ten of 1152 products get the
// tiles that earlier estimates chose, which were fitted to the times of 130 tiles (`bench --op SPEC
// --schedule FILE --target cuda`).
constexpr double kMixed = 0.05, kStepIssue = 85, kExposed = 0.4;

double cores_of(const target::Target& t) { return std::max(1, t.cores); }

}  // namespace

GpuWaves gpu_waves(const target::Target& target, double blocks, double resident) {
  const double cores = cores_of(target);
  return {.at_once = std::min(resident, std::ceil(blocks / cores)),
          .waves = std::ceil(blocks / (cores * resident))};
}

double pipeline_step_cycles(const target::Target& target, std::initializer_list<double> work,
                            std::int64_t under_way) {
  const target::Rates& r = target.rates;
  const double all = std::accumulate(work.begin(), work.end(), 0.0);
  const double wait =
      r.line_latency_cycles / static_cast<double>(std::max<std::int64_t>(1, under_way));
  return std::max(work) + kMixed * all + r.barrier_cycles + kStepIssue + kExposed * wait;
}

double split_k_cycles(const target::Target& target, double outputs, double parts) {
  const target::Rates& r = target.rates;
  const double sums = 4 * outputs * parts,
               cache = kThreadCopies * r.l2_bytes_per_cycle * cores_of(target);
  // Where the sums do not stay in the L2, they are written to memory and read again.
  const bool stay = sums <= static_cast<double>(target.l2_bytes) / 2;
  const double bytes = (stay ? 1 : 2) * sums + 4 * outputs;
  const double rate = stay ? cache : std::min(cache, r.all_memory_bytes_per_cycle);
  return r.dispatch_cycles + r.block_start_cycles + bytes / rate;
}

std::int64_t busy_gpu_threads(const target::Target& target, std::int64_t bytes) {
  const target::Rates& r = target.rates;
  const double under_way = r.all_memory_bytes_per_cycle / cores_of(target) * r.line_latency_cycles;
  const double power = std::round(std::log2(std::max(1.0, under_way / static_cast<double>(bytes))));
  return std::int64_t{1} << static_cast<int>(std::clamp(power, 5.0, 11.0));
}

}  // namespace tessera::space
