#include "tessera/app/bench/probes.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include <time.h>

#include "tessera/app/bench/run_together.h"
#include "tessera/backend/codegen/codegen.h"
#include "tessera/lang/ir/build.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

// About a millisecond: long beside the moment in which threads start.
constexpr std::int64_t kFmaSteps = 200000;
constexpr int kRounds = 5;
constexpr auto kBetweenRounds = std::chrono::milliseconds(10);
// Beyond the last cache; a share of a large server's is not worth gigabytes.
constexpr std::int64_t kMostMemoryBytes = std::int64_t{1} << 29;

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

}  // namespace

std::span<const PeakKind> peak_kinds() { return kPeaks; }

int peak_lanes(const PeakKind& kind, const target::Target& target) {
  const bool matrix = kind.fn == ir::Intrinsic::kMma2x8 || kind.fn == ir::Intrinsic::kMma2x4;
  return matrix ? 4 : target.vector_bytes / size_bytes(kind.acc);
}

Result<Probe> peak_probe(const PeakKind& kind, const target::Target& target,
                         runtime::ThreadPool& pool, int accumulators) {
  const int lanes = peak_lanes(kind, target);
  const int vectors = std::min(accumulators, target.vector_registers - 4);
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
                                     part(acc, local, lanes) + part(x, at, lanes)));
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

Result<Probe> clock_probe(const target::Target& target, runtime::ThreadPool& pool) {
  // Short, so that some call is undisturbed on a busy machine: all rates are in cycles of it.
  constexpr std::int64_t kPairs = 16, kSteps = 20000;
  const ir::Buffer x = ir::Buffer::make("x", DType::kI64, {2});
  const ir::Buffer out = ir::Buffer::make("out", DType::kI64, {1});
  const ir::Buffer acc = ir::Buffer::make("acc", DType::kI64, {1}, ir::Scope::kStack);
  const auto at = [](const ir::Buffer& b, std::int64_t i) {
    return ir::Load::make(b, {ir::int_imm(i)});
  };
  std::vector<ir::Stmt> body;
  for (std::int64_t i = 0; i < kPairs; ++i) {
    const ir::Expr sum = at(acc, 0) + at(x, 0);
    body.push_back(ir::Store::make(acc, {ir::int_imm(0)},
                                   ir::Binary::make(ir::BinaryOp::kXor, sum, at(x, 1))));
  }
  const ir::Stmt all =
      ir::Block::make({ir::Store::make(acc, {ir::int_imm(0)}, at(x, 0)),
                       ir::For::make(ir::Var::make("s"), kSteps, ir::LoopKind::kSerial,
                                     ir::Block::make(std::move(body))),
                       ir::Store::make(out, {ir::int_imm(0)}, at(acc, 0))});
  const ir::Func func{"clock", {x, out}, 1, ir::Allocate::make(acc, all)};
  TESSERA_TRY(Probe probe, build(func, target, 2.0 * kPairs * kSteps, pool));
  for (const std::vector<void*>& params : probe.params) {
    auto* values = static_cast<std::int64_t*>(params[0]);
    values[0] = 0x1234567;
    values[1] = 0x7654321;
  }
  return probe;
}

Result<Probe> chase_probe(std::int64_t bytes, const target::Target& target,
                          runtime::ThreadPool& pool) {
  // Within so many pages at a time: what is measured are lines, not the tables of pages.
  constexpr std::int64_t kNear = 64 << 10;
  const std::int64_t line = target.line_bytes / 4, lines_near = kNear / target.line_bytes;
  const std::int64_t lines = std::max<std::int64_t>(2, bytes / kNear) * lines_near;
  const std::int64_t loads = std::min<std::int64_t>(lines, 1 << 17);
  const ir::Buffer next = ir::Buffer::make("next", DType::kI32, {lines * line});
  const ir::Buffer out = ir::Buffer::make("out", DType::kI64, {1});
  const ir::Buffer acc = ir::Buffer::make("acc", DType::kI64, {1}, ir::Scope::kStack);
  const ir::Expr at = ir::Load::make(acc, {ir::int_imm(0)});
  // Goes on where the last call ended: what that one read is near by now.
  const ir::Stmt all = ir::Block::make(
      {ir::Store::make(acc, {ir::int_imm(0)}, ir::Load::make(out, {ir::int_imm(0)})),
       ir::For::make(ir::Var::make("s"), loads, ir::LoopKind::kSerial,
                     ir::Store::make(acc, {ir::int_imm(0)},
                                     ir::cast(DType::kI64, ir::Load::make(next, {at})))),
       ir::Store::make(out, {ir::int_imm(0)}, at)});
  const ir::Func func{"chase", {next, out}, 1, ir::Allocate::make(acc, all)};
  TESSERA_TRY(Probe probe, build(func, target, static_cast<double>(loads), pool));
  Rng rng(1);
  std::vector<std::int64_t> order(static_cast<std::size_t>(lines));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t first = 0; first < lines; first += lines_near) {
    for (std::int64_t i = lines_near - 1; i > 0; --i)
      std::swap(order[static_cast<std::size_t>(first + i)],
                order[static_cast<std::size_t>(first + rng.below(i + 1))]);
  }
  for (const std::vector<void*>& params : probe.params) {
    auto* values = static_cast<std::int32_t*>(params[0]);
    for (std::size_t i = 0; i < order.size(); ++i)
      values[order[i] * line] = static_cast<std::int32_t>(order[(i + 1) % order.size()] * line);
  }
  return probe;
}

double disturbance(const std::vector<double>& round_s, double run_s, double processor_s) {
  if (round_s.empty()) return 0;
  const double spread = median(round_s) / *std::ranges::min_element(round_s) - 1;
  return std::max(spread, processor_s > 0 ? run_s / processor_s - 1 : 0);
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double Probe::disturbed() const { return disturbance(round_s, run_s, processor_s); }

void measure(std::vector<Probe>& probes, runtime::ThreadPool& pool,
             const runtime::TimingOptions& timing) {
  const int samples = std::max(1, timing.samples / kRounds);
  const auto start = Clock::now();
  const double limit_s = timing.time_limit_s * static_cast<double>(probes.size());
  for (int round = 0; round < kRounds; ++round) {
    for (Probe& p : probes) {
      double best = std::numeric_limits<double>::infinity();
      for (int sample = 0; sample <= samples; ++sample) {
        const double before_s = processor_seconds();
        const double s = run_together(pool, [&](int worker) {
          alignas(64) std::byte workspace[64];  // these functions need none
          p.code->entry(p.params[static_cast<std::size_t>(worker)].data(), workspace, pool.host());
        });
        p.processor_s += processor_seconds() - before_s;
        p.run_s += s * pool.threads();
        if (sample > 0) best = std::min(best, s);  // the first brings the data near
        if (seconds_since(start) > limit_s && std::min(best, p.best_s) < 1e9) break;
      }
      if (!std::isfinite(best)) continue;
      p.round_s.push_back(best);
      p.best_s = std::min(p.best_s, best);
    }
    if (seconds_since(start) > limit_s) return;
    std::this_thread::sleep_for(kBetweenRounds);
  }
}

runtime::PoolOptions probe_pool(int threads) { return {.threads = threads, .pin = threads > 1}; }

std::vector<ProbedLevel> probed_levels(const target::Target& target, int threads) {
  const std::int64_t l3 = std::max<std::int64_t>(target.l3_bytes, 4 * target.l2_bytes);
  return {{"L1", target.l1_bytes / 2},
          {"L2", target.l2_bytes / 2},
          {"L3", l3 / 4 / threads},
          {"memory", std::clamp<std::int64_t>(2 * l3, 64 << 20, kMostMemoryBytes) / threads}};
}

}  // namespace tessera::app
