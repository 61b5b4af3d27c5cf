#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "tessera/app/bench/device_probes.h"
#include "tessera/app/bench/fit.h"
#include "tessera/app/bench/probes.h"
#include "tessera/backend/codegen/codegen.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/verify.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/support/clock.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

using target::Rates;

constexpr int kFitRounds = 7, kAttempts = 4;
constexpr double kLeastSeconds = 2e-3;  // of one timing: long beside the resolution of events
constexpr int kMostCalls = 256;

// A probe on the device, with its memory.
struct Loaded {
  std::unique_ptr<runtime::LoadedCode> code;
  std::vector<runtime::DeviceBuffer> buffers;
  std::vector<void*> memory;
};

class DeviceFit {
 public:
  DeviceFit(runtime::Device& device, const FitOptions& options)
      : options_(options), device_(device), row_(target::shipped_row(device.target())) {
    // Other clocks than the one that the driver names cancel out: estimates compare cycles.
    const double mhz = device.target().gpu.clock_mhz > 0 ? device.target().gpu.clock_mhz : 1000;
    write("clock_mhz", &Rates::clock_mhz, mhz, "of the driver");
    hz_ = 1e6 * mhz;
  }

  Result<target::MachineRow> run() {
    options_.progress("kernels, blocks and barriers");
    TESSERA_DO(starts());
    options_.progress("instructions");
    TESSERA_DO(instructions());
    options_.progress("shared memory, L2 and memory");
    TESSERA_DO(levels());
    return std::move(row_);
  }

 private:
  const target::Target& machine() const { return row_.target; }
  double cores() const { return machine().cores; }

  void write(const char* rate, double Rates::*value, double number, const std::string& how) {
    row_.target.rates.*value = number;
    row_.sources[rate] =
        fmt::format("tessera machine fit --target {}: {}{}", target::to_text(machine().kind), how,
                    tell_disturbed(options_, rate, disturbance(rounds_)));
  }

  Result<Loaded> load(const std::string& text) {
    TESSERA_TRY(const ir::DeviceProgram program, ir::parse_device_program(text));
    TESSERA_DO(ir::verify(program));
    TESSERA_TRY(const codegen::Binary binary, codegen::compile(program, machine()));
    Loaded out;
    TESSERA_TRY(out.code, device_.load(binary));
    for (const ir::Buffer& b : program.params) {
      const auto bytes = static_cast<std::size_t>(b.size() * size_bytes(b->dtype));
      TESSERA_TRY(runtime::DeviceBuffer buffer, runtime::DeviceBuffer::make(device_, bytes));
      TESSERA_DO(device_.fill(buffer.get(), 0, bytes));
      out.memory.push_back(buffer.get());
      out.buffers.push_back(std::move(buffer));
    }
    return out;
  }

  // Seconds of one call among many in a row, the best of some rounds.
  Result<double> seconds(Loaded& probe) {
    TESSERA_TRY(double first, device_.time(*probe.code, probe.memory, 1));
    rounds_ = {first};
    if (first > options_.seconds_per_rate) return first;  // a slow device: long enough to count
    TESSERA_TRY(first, device_.time(*probe.code, probe.memory, 2));
    const double each = std::max(first / 2, 1e-7);
    const int calls = static_cast<int>(std::clamp(kLeastSeconds / each, 1.0, double{kMostCalls}));
    rounds_.clear();
    const Clock::time_point start = Clock::now();
    for (int round = 0; round < kFitRounds; ++round) {
      TESSERA_TRY(const double s, device_.time(*probe.code, probe.memory, calls));
      rounds_.push_back(s / calls);
      if (seconds_since(start) > options_.seconds_per_rate) break;
    }
    return *std::ranges::min_element(rounds_);
  }
  Result<double> seconds(const std::string& text) {
    TESSERA_TRY(Loaded probe, load(text));
    return seconds(probe);
  }
  // Cycles of one step: what a long loop takes more than a short one.
  Result<double> step_cycles(const std::function<std::string(std::int64_t)>& program,
                             std::int64_t few, std::int64_t many) {
    // What others need many steps for, a slow device shows in a few.
    constexpr std::int64_t kFewer = 16;
    const std::int64_t least = std::max<std::int64_t>(1, few / kFewer);
    TESSERA_TRY(double shorter, seconds(program(least)));
    if (shorter > options_.seconds_per_rate) {
      few = least;
      many = 2 * least;
    } else {
      TESSERA_TRY(shorter, seconds(program(few)));
    }
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      TESSERA_TRY(const double longer, seconds(program(many)));
      if (longer > shorter) return (longer - shorter) * hz_ / static_cast<double>(many - few);
      TESSERA_TRY(const double again, seconds(program(few)));  // other work was in its way
      shorter = std::min(shorter, again);
    }
    return make_error(ErrorCode::kRunFailed, "a longer loop takes no longer: the device is busy");
  }

  Result<void> starts() {
    if (options_.wants("dispatch_cycles")) {
      TESSERA_TRY(const double s, seconds(tiny_kernel()));
      write("dispatch_cycles", &Rates::dispatch_cycles, rounded_rate(s * hz_),
            "a kernel of one warp, in a row of them");
    }
    if (options_.wants("block_start_cycles")) {
      const std::int64_t cores = machine().cores;
      TESSERA_TRY(
          const double cycles,
          step_cycles([&](std::int64_t waves) { return waves_of_blocks(machine(), waves * cores); },
                      2, 18));
      write("block_start_cycles", &Rates::block_start_cycles, rounded_rate(cycles),
            "one more block for each multiprocessor, which holds one at a time");
    }
    if (options_.wants("barrier_cycles")) {
      TESSERA_TRY(const double cycles,
                  step_cycles([&](std::int64_t n) { return barriers(machine(), n); }, 256, 2304));
      write("barrier_cycles", &Rates::barrier_cycles, rounded_rate(cycles),
            "one more barrier of 256 threads");
    }
    if (options_.wants("line_latency_cycles")) TESSERA_DO(latency());
    return {};
  }

  Result<void> latency() {
    constexpr std::int64_t kLine = 64, kLoads = 4096;  // elements, loads of a call
    const std::int64_t lines =
        std::clamp<std::int64_t>(4 * machine().l2_bytes, 1 << 20, 1 << 28) / (4 * kLine);
    TESSERA_TRY(Loaded probe, load(chase(lines * kLine, kLoads)));
    std::vector<std::int32_t> order(static_cast<std::size_t>(lines)),
        next(static_cast<std::size_t>(lines * kLine));
    std::iota(order.begin(), order.end(), 0);
    Rng rng(1);
    for (std::size_t i = order.size() - 1; i > 0; --i)
      std::swap(order[i],
                order[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i + 1)))]);
    for (std::size_t i = 0; i < order.size(); ++i)
      next[static_cast<std::size_t>(order[i] * kLine)] =
          static_cast<std::int32_t>(order[(i + 1) % order.size()] * kLine);
    TESSERA_DO(device_.upload(probe.memory[0], next.data(), next.size() * sizeof(next[0])));
    TESSERA_TRY(const double s, seconds(probe));
    write("line_latency_cycles", &Rates::line_latency_cycles, rounded_rate(s * hz_ / kLoads),
          "loads that each need the one before");
    return {};
  }

  // `steps` of a loop, each `work` of every multiprocessor.
  Result<void> rate(const char* name, double Rates::*value,
                    const std::function<std::string(std::int64_t)>& program, std::int64_t steps,
                    double work, const char* how) {
    if (!options_.wants(name)) return {};
    Result<double> cycles = step_cycles(program, steps / 4, steps);
    if (!cycles.ok()) return cycles.error().with_context(name);
    write(name, value, rounded_rate(work / *cycles), how);
    return {};
  }

  Result<void> instructions() {
    const target::Target& t = machine();
    TESSERA_DO(rate(
        "fma_per_cycle", &Rates::fma_per_cycle,
        [&](std::int64_t n) { return multiply_adds(t, kBusyWarps, kSums, n); }, 1024,
        32.0 * kBusyWarps * kSums * kUnrolledSums,
        "32 warps of 16 accumulators for each multiprocessor"));
    if (options_.wants("fma_latency_cycles")) {
      TESSERA_TRY(
          const double cycles,
          step_cycles([&](std::int64_t n) { return multiply_adds(t, 1, 1, n); }, 1024, 5120));
      write("fma_latency_cycles", &Rates::fma_latency_cycles, rounded_rate(cycles / kUnrolledSums),
            "one accumulator of one warp");
    }
    const auto has = [&](target::Operands operands) {
      return target::find_matrix(t, operands, DType::kF16, DType::kF16) != nullptr;
    };
    if (has(target::Operands::kFragments)) {
      TESSERA_DO(rate(
          "mma_per_cycle", &Rates::mma_per_cycle,
          [&](std::int64_t n) { return warp_products(t, n); }, 2048, kWarpProducts,
          "eight warps of eight tiles for each multiprocessor, f16"));
    }
    if (has(target::Operands::kTiles)) {
      TESSERA_DO(rate(
          "wgmma_per_cycle", &Rates::wgmma_per_cycle,
          [&](std::int64_t n) { return group_products(t, n); }, 1024, kGroupProducts,
          "two warp groups of 64 x 256 outputs for each multiprocessor, f16"));
    }
    return {};
  }

  Result<void> levels() {
    const target::Target& t = machine();
    TESSERA_DO(rate(
        "shared_bytes_per_cycle", &Rates::shared_bytes_per_cycle,
        [&](std::int64_t n) { return shared_reads(t, n); }, 1024, kSharedBytes,
        "vectors of 16 bytes read by 32 warps"));
    constexpr std::int64_t kMost = std::int64_t{1} << 29;
    const std::int64_t cached = t.l2_bytes / 4, uncached = std::min(8 * t.l2_bytes, kMost);
    TESSERA_DO(rate(
        "l2_bytes_per_cycle", &Rates::l2_bytes_per_cycle,
        [&](std::int64_t n) { return reads(t, Walkers::kOne, cached, n); }, 32,
        walked_bytes(t, Walkers::kOne, cached),
        "one multiprocessor reads a quarter of the L2 again and again"));
    TESSERA_DO(rate(
        "store_bytes_per_cycle", &Rates::store_bytes_per_cycle,
        [&](std::int64_t n) { return writes(t, cached, n); }, 32,
        walked_bytes(t, Walkers::kAll, cached) / cores(),
        "all multiprocessors write a quarter of the L2 again and again"));
    TESSERA_DO(rate(
        "all_memory_bytes_per_cycle", &Rates::all_memory_bytes_per_cycle,
        [&](std::int64_t n) { return reads(t, Walkers::kAll, uncached, n); }, 4,
        walked_bytes(t, Walkers::kAll, uncached),
        "all multiprocessors read what the L2 does not hold"));
    return {};
  }

  const FitOptions& options_;
  runtime::Device& device_;
  target::MachineRow row_;
  double hz_ = 1e9;
  std::vector<double> rounds_;  // seconds of the last probe
};

}  // namespace

Result<target::MachineRow> fit_device(target::Kind kind, const FitOptions& options) {
  TESSERA_TRY(const std::unique_ptr<runtime::Device> device, runtime::open_device(kind));
  return DeviceFit(*device, options).run();
}

}  // namespace tessera::app
