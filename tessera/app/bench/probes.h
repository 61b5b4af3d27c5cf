// Code that Tessera generates to measure a CPU by: functions that each thread runs alone, with its
// own memory.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/lang/ir/stmt.h"
#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/machine/runtime/timing.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

// A function with the buffers of each thread, and its best time yet.
struct Probe {
  std::unique_ptr<runtime::CpuKernel> code;
  std::vector<std::vector<runtime::AlignedBuffer>> buffers;  // by worker, then parameter
  std::vector<std::vector<void*>> params;
  double work = 0;  // operations or bytes of one thread and call
  double best_s = std::numeric_limits<double>::infinity();
  std::vector<double> round_s;        // the best of each round
  double run_s = 0, processor_s = 0;  // of all threads and calls: by the clock, by processors

  double disturbed() const;  // disturbance() of its rounds
  double giga_per_s() const { return work * static_cast<double>(params.size()) / best_s * 1e-9; }
};

// Steps of acc[i] = op(acc[i], x, y) on vectors held in registers.
struct PeakKind {
  const char* name;  // "f32_fma"
  DType acc;
  DType operand;
  ir::Intrinsic fn;      // kFma, kDot4, kDot2, kMma2x8, kMma2x4
  int operands_per_acc;  // operand elements per accumulator lane
  double ops_per_acc;    // operations per accumulator lane and step
  bool target::Target::*needs;
};
std::span<const PeakKind> peak_kinds();
int peak_lanes(const PeakKind& kind, const target::Target& target);  // of a vector

// Independent accumulators: enough to hide the latency of any FMA unit (5 cycles x 4 pipes) within
// 24 registers.
inline constexpr int kAccumulators = 20;

Result<Probe> peak_probe(const PeakKind& kind, const target::Target& target,
                         runtime::ThreadPool& pool, int accumulators = kAccumulators);
// Reading, writing or copying `bytes` per thread again and again.
Result<Probe> access_probe(const std::string& access, std::int64_t bytes,
                           const target::Target& target, runtime::ThreadPool& pool);
// Integer operations that each take a cycle and need the one before; its work is cycles.
Result<Probe> clock_probe(const target::Target& target, runtime::ThreadPool& pool);
// Loads that need the one before, from lines all over `bytes`; its work is loads.
Result<Probe> chase_probe(std::int64_t bytes, const target::Target& target,
                          runtime::ThreadPool& pool);

// How much other work disturbed a measurement: by which part the usual round takes longer than the
// best one, or by which part all of them take longer than their processors worked. Above kSteady
// the best is perhaps not what the machine can do.
inline constexpr double kSteady = 0.1;
double disturbance(const std::vector<double>& round_s, double run_s = 0, double processor_s = 0);
double processor_seconds();  // of this process until now

// The probes in turns, round by round: a busy moment spoils some rounds, the best of all counts.
void measure(std::vector<Probe>& probes, runtime::ThreadPool& pool,
             const runtime::TimingOptions& timing);

runtime::PoolOptions probe_pool(int threads);

// Of each thread, so that what is read or written comes from the level and no nearer one.
struct ProbedLevel {
  const char* name;  // "L1", "L2", "L3", "memory"
  std::int64_t bytes;
};
std::vector<ProbedLevel> probed_levels(const target::Target& target, int threads);

}  // namespace tessera::app
