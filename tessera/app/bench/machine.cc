#include "tessera/app/bench/machine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>

#include "tessera/app/bench/run_together.h"
#include "tessera/backend/codegen/codegen.h"
#include "tessera/lang/ir/build.h"
#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

// Independent accumulators: enough to hide the latency of any FMA unit (5 cycles x 4 pipes) within
// 24 registers.
constexpr int kAccumulators = 20;
// About a millisecond: long beside the moment in which threads start.
constexpr std::int64_t kFmaSteps = 200000;
// A busy moment spoils some rounds; the best of all counts.
constexpr int kRounds = 5;
constexpr auto kBetweenRounds = std::chrono::milliseconds(10);
// Beyond the last cache; a share of a large server's is not worth gigabytes.
constexpr std::int64_t kMostMemoryBytes = std::int64_t{2} << 30;

// A function that one thread runs alone, with the buffers of each thread and its best time yet.
struct Probe {
  std::unique_ptr<runtime::CpuKernel> code;
  std::vector<std::vector<runtime::AlignedBuffer>> buffers;  // by worker, then parameter
  std::vector<std::vector<void*>> params;
  double work = 0;  // operations or bytes of one thread and call
  double best_s = std::numeric_limits<double>::infinity();

  double giga_per_s() const { return work * static_cast<double>(params.size()) / best_s * 1e-9; }
};

Result<Probe> build(const ir::Func& func, const target::Target& target, double work,
                    runtime::ThreadPool& pool) {
  Probe p;
  TESSERA_TRY(const codegen::Binary binary, codegen::compile_kernel(func, target));
  TESSERA_TRY(p.code, runtime::load_kernel(binary));
  p.work = work;
  p.buffers.resize(static_cast<std::size_t>(pool.threads()));
  p.params.resize(p.buffers.size());
  for (std::size_t worker = 0; worker < p.buffers.size(); ++worker) {
    for (const ir::Buffer& b : func.params) {
      p.buffers[worker].emplace_back(static_cast<std::size_t>(b.size() * size_bytes(b->dtype)));
      p.params[worker].push_back(p.buffers[worker].back().data());
    }
  }
  // Memory is near the thread that touches it first.
  run_together(pool, [&](int worker) {
    for (const runtime::AlignedBuffer& b : p.buffers[static_cast<std::size_t>(worker)]) {
      std::memset(b.data(), 0, b.bytes());
    }
  });
  return p;
}

// The probes in turns, round by round.
void measure(std::vector<Probe>& probes, runtime::ThreadPool& pool,
             const runtime::TimingOptions& timing) {
  const int samples = std::max(1, timing.samples / kRounds);
  const auto start = Clock::now();
  const double limit_s = timing.time_limit_s * static_cast<double>(probes.size());
  for (int round = 0; round < kRounds; ++round) {
    for (Probe& p : probes) {
      for (int sample = 0; sample <= samples; ++sample) {
        const double s = run_together(pool, [&](int worker) {
          alignas(64) std::byte workspace[64];  // these functions need none
          p.code->entry(p.params[static_cast<std::size_t>(worker)].data(), workspace, pool.host());
        });
        if (sample > 0) p.best_s = std::min(p.best_s, s);  // the first brings the data near
        if (seconds_since(start) > limit_s && p.best_s < 1e9) break;
      }
    }
    if (seconds_since(start) > limit_s) return;
    std::this_thread::sleep_for(kBetweenRounds);
  }
}

ir::Stmt set_all(const ir::Buffer& acc, int vectors, int lanes,
                 const std::function<ir::Expr(int)>& value) {
  std::vector<ir::Stmt> stores;
  for (int i = 0; i < vectors; ++i) {
    stores.push_back(ir::Store::make(
        acc, {ir::Ramp::make(ir::int_imm(std::int64_t{i} * lanes), 1, lanes)}, value(i)));
  }
  return ir::Block::make(std::move(stores));
}

ir::Expr part(const ir::Buffer& b, const ir::Expr& base, int lanes) {
  return ir::Load::make(b, {ir::Ramp::make(base, 1, lanes)});
}

// Steps of acc[i] = op(acc[i], x, y) on kAccumulators vectors held in registers.
struct PeakKind {
  const char* name;
  DType acc;
  DType operand;
  ir::Intrinsic fn;      // kFma, kDot4, kDot2, kMma2x8, kMma2x4
  int operands_per_acc;  // operand elements per accumulator lane
  double ops_per_acc;    // operations per accumulator lane and step
  bool target::Target::*needs;
};

constexpr PeakKind kPeaks[] = {
    {"f32_fma", DType::kF32, DType::kF32, ir::Intrinsic::kFma, 1, 2, nullptr},
    {"f64_fma", DType::kF64, DType::kF64, ir::Intrinsic::kFma, 1, 2, nullptr},
    {"f16_fma", DType::kF16, DType::kF16, ir::Intrinsic::kFma, 1, 2, &target::Target::has_f16},
    {"bf16_dot", DType::kF32, DType::kBF16, ir::Intrinsic::kDot2, 2, 4,
     &target::Target::has_bf16_dot},
    {"bf16_mma", DType::kF32, DType::kBF16, ir::Intrinsic::kMma2x4, 2, 8,
     &target::Target::has_bf16_mma},
    {"i8_dot", DType::kI32, DType::kI8, ir::Intrinsic::kDot4, 4, 8, &target::Target::has_i8_dot},
    {"i8_mma", DType::kI32, DType::kI8, ir::Intrinsic::kMma2x8, 4, 16, &target::Target::has_i8_mma},
};

Result<Probe> peak_probe(const PeakKind& kind, const target::Target& target,
                         runtime::ThreadPool& pool) {
  const bool matrix = kind.fn == ir::Intrinsic::kMma2x8 || kind.fn == ir::Intrinsic::kMma2x4;
  const int lanes = matrix ? 4 : target.vector_bytes / size_bytes(kind.acc);
  const int vectors = std::min(kAccumulators, target.vector_registers - 4);
  const int operand_lanes = lanes * kind.operands_per_acc;
  const ir::Buffer x = ir::Buffer::make("x", kind.operand, {2 * operand_lanes});
  const ir::Buffer out = ir::Buffer::make("out", kind.acc, {std::int64_t{vectors} * lanes});
  const ir::Buffer acc =
      ir::Buffer::make("acc", kind.acc, {std::int64_t{vectors} * lanes}, ir::Scope::kStack);
  const ir::Expr step = ir::Var::make("s");
  const auto at = [&](int i) { return ir::int_imm(std::int64_t{i} * lanes); };
  const ir::Expr a = part(x, ir::int_imm(0), operand_lanes),
                 b = part(x, ir::int_imm(operand_lanes), operand_lanes);
  const ir::Stmt body = set_all(acc, vectors, lanes, [&](int i) {
    const ir::Expr old = part(acc, at(i), lanes);
    return kind.fn == ir::Intrinsic::kFma ? ir::Call::make(kind.fn, {a, b, old})
                                          : ir::Call::make(kind.fn, {old, a, b});
  });
  std::vector<ir::Stmt> stores;
  for (int i = 0; i < vectors; ++i) {
    stores.push_back(
        ir::Store::make(out, {ir::Ramp::make(at(i), 1, lanes)}, part(acc, at(i), lanes)));
  }
  const ir::Stmt one = ir::Block::make({set_all(acc, vectors, lanes,
                                                [&](int) {
                                                  return ir::zero({kind.acc, lanes});
                                                }),
                                        ir::For::make(step, kFmaSteps, ir::LoopKind::kSerial, body),
                                        ir::Block::make(std::move(stores))});
  const ir::Func func{"peak_" + std::string(kind.name), {x, out}, 1, ir::Allocate::make(acc, one)};
  return build(func, target, kind.ops_per_acc * lanes * vectors * static_cast<double>(kFmaSteps),
               pool);
}

// Reading, writing or copying `bytes` per thread again and again.
Result<Probe> access_probe(const std::string& access, std::int64_t bytes,
                           const target::Target& target, runtime::ThreadPool& pool) {
  const int lanes = target.vector_bytes / 4;
  constexpr int kVectors = 8;
  const std::int64_t step = std::int64_t{lanes} * kVectors;
  const std::int64_t n =
      std::max<std::int64_t>(bytes / (access == "copy" ? 8 : 4) / step, 1) * step;
  const std::int64_t repeats = std::max<std::int64_t>(1, (4 << 20) / bytes);
  const ir::Buffer x = ir::Buffer::make("x", DType::kF32, {n});
  const ir::Buffer y = ir::Buffer::make("y", DType::kF32, {access == "read" ? step : n});
  const ir::Buffer acc = ir::Buffer::make("acc", DType::kF32, {step}, ir::Scope::kStack);
  const ir::Expr r = ir::Var::make("r"), i = ir::Var::make("i");
  std::vector<ir::Stmt> body, stores;
  for (int v = 0; v < kVectors; ++v) {
    const ir::Expr local = ir::int_imm(std::int64_t{v} * lanes);
    const ir::Expr at = i * step + std::int64_t{v} * lanes;
    if (access == "read") {
      body.push_back(ir::Store::make(acc, {ir::Ramp::make(local, 1, lanes)},
                                     ir::max(part(acc, local, lanes), part(x, at, lanes))));
      stores.push_back(
          ir::Store::make(y, {ir::Ramp::make(local, 1, lanes)}, part(acc, local, lanes)));
    } else {
      const ir::Expr value = access == "copy"
                                 ? part(x, at, lanes)
                                 : ir::Broadcast::make(ir::cast(DType::kF32, r), lanes);
      body.push_back(ir::Store::make(y, {ir::Ramp::make(at, 1, lanes)}, value));
    }
  }
  const ir::Stmt pass = ir::For::make(
      r, repeats, ir::LoopKind::kSerial,
      ir::For::make(i, n / step, ir::LoopKind::kSerial, ir::Block::make(std::move(body))));
  std::vector<ir::Stmt> all;
  if (access == "read")
    all.push_back(set_all(acc, kVectors, lanes, [&](int) {
      return ir::zero({DType::kF32, lanes});
    }));
  all.push_back(pass);
  all.insert(all.end(), stores.begin(), stores.end());
  const ir::Func func{access, {x, y}, 1, ir::Allocate::make(acc, ir::Block::make(std::move(all)))};
  return build(func, target,
               static_cast<double>(n) * (access == "copy" ? 8 : 4) * static_cast<double>(repeats),
               pool);
}

// The kind whose rate "% of peak" of results of this type means. Integer results come from 8-bit
// operands.
const PeakKind& kind_of(DType dtype) {
  for (const PeakKind& kind : kPeaks) {
    if (kind.acc == dtype && kind.fn == ir::Intrinsic::kFma) return kind;
  }
  return *std::ranges::find(kPeaks, ir::Intrinsic::kDot4, &PeakKind::fn);
}

runtime::PoolOptions pool_options(int threads) { return {.threads = threads, .pin = threads > 1}; }

}  // namespace

Result<double> measure_peak(DType dtype, const target::Target& target, int threads,
                            const runtime::TimingOptions& timing) {
  runtime::ThreadPool pool(pool_options(threads));
  std::vector<Probe> probe(1);
  TESSERA_TRY(probe[0], peak_probe(kind_of(dtype), target, pool));
  measure(probe, pool, timing);
  return probe[0].giga_per_s();
}

Result<double> PeakOf::fraction(DType dtype, double gflops, bool saves) {
  constexpr int kMostAgain = 2;
  double& peak = peaks_[dtype];
  if (const auto sheet = target::datasheet_gflops(target_)) {
    peak = *sheet;
    return peak > 0 ? gflops / peak : 0;
  }
  for (int again = 0; peak == 0 || (peak < gflops && again < kMostAgain); ++again) {
    TESSERA_TRY(const double measured, measure_peak(dtype, target_, threads_, timing_));
    peak = std::max(peak, measured);
  }
  if (!saves) peak = std::max(peak, gflops);
  return peak > 0 ? gflops / peak : 0;
}

double PeakOf::gops(DType dtype) const {
  const auto at = peaks_.find(dtype);
  return at == peaks_.end() ? 0 : at->second;
}

Result<MachineReport> measure_machine(const target::Target& target, int threads,
                                      const runtime::TimingOptions& timing) {
  runtime::ThreadPool pool(pool_options(threads));
  MachineReport report{.threads = pool.threads()};
  std::vector<Probe> probes;
  for (const PeakKind& kind : kPeaks) {
    if (kind.needs && !(target.*kind.needs)) continue;
    TESSERA_TRY(Probe probe, peak_probe(kind, target, pool));
    probes.push_back(std::move(probe));
    report.peaks.push_back({kind.name, 0});
  }
  measure(probes, pool, timing);
  for (std::size_t i = 0; i < probes.size(); ++i) report.peaks[i].gops = probes[i].giga_per_s();
  const std::int64_t l3 = std::max<std::int64_t>(target.l3_bytes, 4 * target.l2_bytes);
  const std::pair<const char*, std::int64_t> levels[] = {
      {"L1", target.l1_bytes / 2},
      {"L2", target.l2_bytes / 2},
      {"L3", l3 / 4 / report.threads},
      {"memory", std::clamp<std::int64_t>(4 * l3, 64 << 20, kMostMemoryBytes) / report.threads}};
  for (const auto& [level, bytes] : levels) {
    std::vector<Probe> of_level;
    for (const char* access : {"read", "write", "copy"}) {
      TESSERA_TRY(Probe probe, access_probe(access, bytes, target, pool));
      of_level.push_back(std::move(probe));
      report.bandwidths.push_back({level, access, bytes, 0});
    }
    measure(of_level, pool, timing);
    for (std::size_t i = 0; i < of_level.size(); ++i) {
      report.bandwidths[report.bandwidths.size() - of_level.size() + i].gbytes_per_s =
          of_level[i].giga_per_s();
    }
  }
  return report;
}

}  // namespace tessera::app
