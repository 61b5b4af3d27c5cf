#include "tessera/machine/target/rates.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tessera/machine/target/target.h"

namespace tessera::target {
namespace {

constexpr std::array kFields = {
    RateField{"clock_mhz", "MHz", "clock of the cycles below", &Rates::clock_mhz, true, true},
    RateField{"fma_per_cycle", "per cycle", "f32 multiply-adds (CPU: of vectors)",
              &Rates::fma_per_cycle, true, true},
    RateField{"fma_latency_cycles", "cycles", "from one multiply-add to one that needs it",
              &Rates::fma_latency_cycles, true, true},
    RateField{"byte_dots_per_cycle", "vectors/cycle", "dot products of bytes",
              &Rates::byte_dots_per_cycle, true, false},
    RateField{"bf16_dots_per_cycle", "vectors/cycle", "dot products of bf16",
              &Rates::bf16_dots_per_cycle, true, false},
    RateField{"byte_matrix_per_cycle", "per cycle", "matrix instructions on bytes",
              &Rates::byte_matrix_per_cycle, true, false},
    RateField{"bf16_matrix_per_cycle", "per cycle", "matrix instructions on bf16",
              &Rates::bf16_matrix_per_cycle, true, false},
    RateField{"mma_per_cycle", "per cycle", "f16 multiply-adds by warps (mma)",
              &Rates::mma_per_cycle, false, true},
    RateField{"wgmma_per_cycle", "per cycle", "f16 multiply-adds by warp groups (wgmma)",
              &Rates::wgmma_per_cycle, false, true},
    RateField{"loads_per_cycle", "vectors/cycle", "loads from L1", &Rates::loads_per_cycle, true,
              false},
    RateField{"stores_per_cycle", "vectors/cycle", "stores to L1", &Rates::stores_per_cycle, true,
              false},
    RateField{"shared_bytes_per_cycle", "bytes/cycle", "reads of shared memory",
              &Rates::shared_bytes_per_cycle, false, true},
    RateField{"l2_bytes_per_cycle", "bytes/cycle", "reads of L2 by one core",
              &Rates::l2_bytes_per_cycle, true, true},
    RateField{"l3_bytes_per_cycle", "bytes/cycle", "reads of L3 by one core",
              &Rates::l3_bytes_per_cycle, true, false},
    RateField{"memory_bytes_per_cycle", "bytes/cycle", "reads of memory by one core",
              &Rates::memory_bytes_per_cycle, true, false},
    RateField{"store_bytes_per_cycle", "bytes/cycle", "stores by one core while all store",
              &Rates::store_bytes_per_cycle, false, true},
    RateField{"all_l3_bytes_per_cycle", "bytes/cycle", "reads of L3 by all cores",
              &Rates::all_l3_bytes_per_cycle, true, false},
    RateField{"all_memory_bytes_per_cycle", "bytes/cycle", "reads of memory by all cores",
              &Rates::all_memory_bytes_per_cycle, true, true},
    RateField{"line_latency_cycles", "cycles", "until a line of memory arrives",
              &Rates::line_latency_cycles, true, true},
    RateField{"barrier_cycles", "cycles", "all threads meet (GPU: of a block)",
              &Rates::barrier_cycles, true, true},
    RateField{"dispatch_cycles", "cycles", "start of a parallel loop (GPU: of one more kernel)",
              &Rates::dispatch_cycles, true, true},
    RateField{"block_start_cycles", "cycles", "start of a block, until it has its first operands",
              &Rates::block_start_cycles, false, true},
};

struct KnownRate {
  double Rates::*value;
  double number;
  std::string_view source;
};

// For CPUs, the row of the LLVM name, else the first of the architecture; for CUDA, the newest
// generation that is not newer.
struct KnownRates {
  Kind kind;
  Arch arch;
  std::string_view cpu;
  int capability;
  std::span<const KnownRate> rates;
};

constexpr std::string_view kArmGuide =
    "Arm Neoverse V1 Software Optimization Guide: four ASIMD pipes, three loads, FMLA in four";
constexpr std::string_view kIntelGuide =
    "Intel Optimization Reference Manual, uops.info: Haswell (FMA in five) to Sapphire Rapids";
constexpr KnownRate kNeoverseV1[] = {
    {&Rates::fma_per_cycle, 4, kArmGuide},
    {&Rates::fma_latency_cycles, 4, kArmGuide},
    {&Rates::loads_per_cycle, 3, kArmGuide},
    {&Rates::stores_per_cycle, 2, kArmGuide},
    {&Rates::memory_bytes_per_cycle, 10,
     "26 GB/s, one core of a Graviton3, measured before `tessera machine fit` existed"},
};
constexpr KnownRate kX86[] = {
    {&Rates::fma_per_cycle, 2, kIntelGuide},
    {&Rates::fma_latency_cycles, 4, kIntelGuide},
    {&Rates::loads_per_cycle, 2, kIntelGuide},
    {&Rates::stores_per_cycle, 1, kIntelGuide},
    {&Rates::memory_bytes_per_cycle, 5,
     "one core of a Sapphire Rapids, measured before `tessera machine fit` existed"},
    {&Rates::line_latency_cycles, 384,
     "not measured: chosen by timing kernels that fetch ahead on Sapphire Rapids"},
};

constexpr std::string_view kWhitepaper = "whitepaper of the architecture, f32 outputs";
constexpr std::string_view kVoltaPaper = "whitepaper of Volta";
constexpr std::string_view kFitted = "tessera machine fit --target cuda on an H200, two runs";
// Fields without a row are of the data sheet or not known. The probe of wgmma does not reach the
// rate of the hardware, which is why no row has it.
constexpr KnownRate kVolta[] = {{&Rates::mma_per_cycle, 512, kWhitepaper},
                                {&Rates::fma_latency_cycles, 4, kVoltaPaper}};
constexpr KnownRate kA100[] = {{&Rates::mma_per_cycle, 1024, kWhitepaper}};
constexpr KnownRate kGeForce[] = {{&Rates::mma_per_cycle, 256, kWhitepaper}};
constexpr KnownRate kHopper[] = {
    {&Rates::fma_latency_cycles, 4, kFitted},       {&Rates::mma_per_cycle, 1200, kFitted},
    {&Rates::shared_bytes_per_cycle, 120, kFitted}, {&Rates::l2_bytes_per_cycle, 120, kFitted},
    {&Rates::store_bytes_per_cycle, 17, kFitted},   {&Rates::line_latency_cycles, 600, kFitted},
    {&Rates::barrier_cycles, 28, kFitted},          {&Rates::dispatch_cycles, 1300, kFitted},
    {&Rates::block_start_cycles, 740, kFitted},
};

constexpr std::array kRows = {
    KnownRates{Kind::kCpu, Arch::kAArch64, "neoverse-v1", 0, kNeoverseV1},
    KnownRates{Kind::kCpu, Arch::kX86_64, "skylake-avx512", 0, kX86},
    KnownRates{Kind::kCuda, Arch::kNone, "", 70, kVolta},
    KnownRates{Kind::kCuda, Arch::kNone, "", 80, kA100},
    KnownRates{Kind::kCuda, Arch::kNone, "", 86, kGeForce},
    KnownRates{Kind::kCuda, Arch::kNone, "", 90, kHopper},
    KnownRates{Kind::kOpenCl, Arch::kNone, "", 0, {}},
};

const KnownRates& row_of(const Target& t) {
  const KnownRates* found = nullptr;
  for (const KnownRates& row : kRows) {
    if (row.kind != t.kind || row.arch != t.arch || row.capability > t.gpu.capability) continue;
    if (!found || row.cpu == t.cpu || row.capability > found->capability) found = &row;
  }
  return found ? *found : kRows[0];
}

// The data sheet of the machine itself, in cycles of its clock.
double of_sheet(const Target& t, double Rates::*value) {
  if (!t.is_gpu()) return 0;
  if (value == &Rates::clock_mhz) return t.gpu.clock_mhz;
  if (value == &Rates::fma_per_cycle) return t.gpu.core_lanes;
  if (value == &Rates::all_memory_bytes_per_cycle && t.gpu.clock_mhz > 0)
    return 1e3 * t.gpu.bandwidth_gb_s / t.gpu.clock_mhz;
  return 0;
}

const KnownRate* find_rate(const KnownRates& row, double Rates::*value) {
  const auto at = std::ranges::find(row.rates, value, &KnownRate::value);
  return at == row.rates.end() ? nullptr : &*at;
}

}  // namespace

std::span<const RateField> rate_fields() { return kFields; }

bool has_rate(const Target& target, const RateField& field) {
  return target.is_gpu() ? field.gpu : field.cpu;
}

Rates shipped_rates(const Target& target) {
  Rates out;
  const KnownRates& row = row_of(target);
  for (const RateField& field : kFields) {
    if (!has_rate(target, field)) continue;
    const KnownRate* known = find_rate(row, field.value);
    out.*field.value = known ? known->number : of_sheet(target, field.value);
  }
  return out;
}

std::string_view rate_source(const Target& target, const RateField& field) {
  if (const KnownRate* known = find_rate(row_of(target), field.value)) return known->source;
  return of_sheet(target, field.value) > 0 ? "data sheet" : "";
}

std::string to_text(const Rates& rates) {
  std::string out;
  for (const RateField& field : kFields)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", field.name, rates.*field.value);
  return out;
}

}  // namespace tessera::target
