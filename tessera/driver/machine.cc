#include "tessera/driver/machine.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "tessera/codegen/codegen.h"
#include "tessera/ir/build.h"
#include "tessera/runtime/aligned_buffer.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera::driver {
namespace {

// Independent accumulators: enough to hide the latency of any FMA unit (5 cycles x 4 pipes) within
// 24 registers.
constexpr int kAccumulators = 20;
constexpr std::int64_t kFmaSteps = 20000;

struct Kernel {
  std::unique_ptr<codegen::Kernel> code;
  std::vector<runtime::AlignedBuffer> buffers;
  std::vector<void*> params;
};

Result<Kernel> build(const ir::Func& func, const target::Target& target) {
  Kernel k;
  TESSERA_TRY(k.code, codegen::jit(func, target));
  for (const ir::Buffer& b : func.params) {
    const std::size_t bytes = static_cast<std::size_t>(b.size() * size_bytes(b->dtype));
    k.buffers.emplace_back(bytes);
    std::memset(k.buffers.back().data(), 0, bytes);
    k.params.push_back(k.buffers.back().data());
  }
  return k;
}

double median_seconds(const Kernel& k, int threads, const runtime::TimingOptions& timing) {
  runtime::ThreadPool pool({.threads = threads, .pin = threads > 1});
  const codegen::KernelInfo& info = k.code->info;
  runtime::AlignedBuffer workspace(
      static_cast<std::size_t>(info.shared_bytes + info.worker_bytes * threads + 64));
  return runtime::time_calls([&] { k.code->entry(k.params.data(), workspace.data(), pool.host()); },
                             timing)
      .median_s();
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

// Each thread runs steps of acc[i] = op(acc[i], x, y) on kAccumulators vectors held in registers.
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

Result<double> measure_kind(const PeakKind& kind, const target::Target& target, int threads,
                            const runtime::TimingOptions& timing) {
  const bool matrix = kind.fn == ir::Intrinsic::kMma2x8 || kind.fn == ir::Intrinsic::kMma2x4;
  const int lanes = matrix ? 4 : target.vector_bytes / size_bytes(kind.acc);
  const int vectors = std::min(kAccumulators, target.vector_registers - 4);
  const int operand_lanes = lanes * kind.operands_per_acc;
  const ir::Buffer x = ir::Buffer::make("x", kind.operand, {2 * operand_lanes});
  const ir::Buffer out =
      ir::Buffer::make("out", kind.acc, {std::int64_t{threads} * vectors * lanes});
  const ir::Buffer acc =
      ir::Buffer::make("acc", kind.acc, {std::int64_t{vectors} * lanes}, ir::Scope::kStack);
  const ir::Expr worker = ir::Var::make("t"), step = ir::Var::make("s");
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
    const ir::Expr base = worker * (std::int64_t{vectors} * lanes) + std::int64_t{i} * lanes;
    stores.push_back(
        ir::Store::make(out, {ir::Ramp::make(base, 1, lanes)}, part(acc, at(i), lanes)));
  }
  const ir::Stmt one = ir::Block::make({set_all(acc, vectors, lanes,
                                                [&](int) {
                                                  return ir::zero({kind.acc, lanes});
                                                }),
                                        ir::For::make(step, kFmaSteps, ir::LoopKind::kSerial, body),
                                        ir::Block::make(std::move(stores))});
  const ir::Func func{
      "peak_" + std::string(kind.name),
      {x, out},
      1,
      ir::For::make(worker, threads, ir::LoopKind::kParallel, ir::Allocate::make(acc, one))};
  TESSERA_TRY(const Kernel k, build(func, target));
  const double ops = kind.ops_per_acc * lanes * vectors * static_cast<double>(kFmaSteps) * threads;
  return ops / median_seconds(k, threads, timing) * 1e-9;
}

// Bytes per second of reading, writing or copying `bytes` per thread again and again.
Result<double> measure_access(const std::string& access, std::int64_t bytes,
                              const target::Target& target, int threads,
                              const runtime::TimingOptions& timing) {
  const int lanes = target.vector_bytes / 4;
  constexpr int kVectors = 8;
  const std::int64_t step = std::int64_t{lanes} * kVectors;
  const std::int64_t n =
      std::max<std::int64_t>(bytes / (access == "copy" ? 8 : 4) / step, 1) * step;
  const std::int64_t repeats = std::max<std::int64_t>(1, (4 << 20) / bytes);
  const ir::Buffer x = ir::Buffer::make("x", DType::kF32, {n * threads});
  const ir::Buffer y =
      ir::Buffer::make("y", DType::kF32, {access == "read" ? step * threads : n * threads});
  const ir::Buffer acc = ir::Buffer::make("acc", DType::kF32, {step}, ir::Scope::kStack);
  const ir::Expr t = ir::Var::make("t"), r = ir::Var::make("r"), i = ir::Var::make("i");
  std::vector<ir::Stmt> body, stores;
  for (int v = 0; v < kVectors; ++v) {
    const ir::Expr local = ir::int_imm(std::int64_t{v} * lanes);
    const ir::Expr at = t * n + i * step + std::int64_t{v} * lanes;
    if (access == "read") {
      body.push_back(ir::Store::make(acc, {ir::Ramp::make(local, 1, lanes)},
                                     ir::max(part(acc, local, lanes), part(x, at, lanes))));
      stores.push_back(
          ir::Store::make(y, {ir::Ramp::make(t * step + std::int64_t{v} * lanes, 1, lanes)},
                          part(acc, local, lanes)));
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
  const ir::Func func{access,
                      {x, y},
                      1,
                      ir::For::make(t, threads, ir::LoopKind::kParallel,
                                    ir::Allocate::make(acc, ir::Block::make(std::move(all))))};
  TESSERA_TRY(const Kernel k, build(func, target));
  const double moved =
      static_cast<double>(n) * (access == "copy" ? 8 : 4) * static_cast<double>(repeats) * threads;
  return moved / median_seconds(k, threads, timing) * 1e-9;
}

}  // namespace

Result<double> measure_peak(DType dtype, const target::Target& target, int threads,
                            const runtime::TimingOptions& timing) {
  for (const PeakKind& kind : kPeaks) {
    if (kind.acc == dtype && kind.fn == ir::Intrinsic::kFma)
      return measure_kind(kind, target, threads, timing);
  }
  // Integer results come from 8-bit operands.
  const PeakKind& dot = kPeaks[5];
  return measure_kind(dot, target, threads, timing);
}

Result<MachineReport> measure_machine(const target::Target& target, int threads,
                                      const runtime::TimingOptions& timing) {
  MachineReport report{.threads = threads};
  for (const PeakKind& kind : kPeaks) {
    if (kind.needs && !(target.*kind.needs)) continue;
    TESSERA_TRY(const double gops, measure_kind(kind, target, threads, timing));
    report.peaks.push_back({kind.name, gops});
  }
  const std::int64_t l3 = std::max<std::int64_t>(target.l3_bytes, 4 * target.l2_bytes);
  const std::pair<const char*, std::int64_t> levels[] = {
      {"L1", target.l1_bytes / 2},
      {"L2", target.l2_bytes / 2},
      {"L3", l3 / 4 / threads},
      {"memory", std::max<std::int64_t>(8 * l3, 64 << 20) / threads}};
  for (const auto& [level, bytes] : levels) {
    for (const char* access : {"read", "write", "copy"}) {
      TESSERA_TRY(const double rate, measure_access(access, bytes, target, threads, timing));
      report.bandwidths.push_back({level, access, bytes, rate});
    }
  }
  return report;
}

}  // namespace tessera::driver
