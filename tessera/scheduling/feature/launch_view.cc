#include "tessera/scheduling/feature/launch_view.h"

#include <algorithm>
#include <cmath>

namespace tessera::feature {
namespace {

using schedule::Annotation;

constexpr double kSectorBytes = 32, kBanks = 32, kBankBytes = 4;
// Addresses, indices and the operands of one statement.
constexpr double kOtherRegisters = 24;

// The stage that a launch is made for: the one around all others.
int root_of(const Statement& s) { return s.loops.empty() ? s.stage_index : s.loops[0].stage; }

double bound(const Statement& s, Annotation annotation) {
  double length = 1;
  for (const Loop& l : s.loops) length *= l.annotation == annotation ? l.extent : 1;
  return length;
}

bool is_shared(const Statement& s) { return s.stage->scope == "shared"; }

double result_bytes(const Statement& s) {
  for (const Access& a : s.accesses) {
    if (a.write) return a.element_bytes;
  }
  return 0;
}

// Whether a tensor lies in the memory of the device.
bool is_global(const Program& program, const Access& a) {
  for (const Statement& s : program.statements) {
    for (const Access& made : s.accesses) {
      if (made.write && made.buffer == a.buffer && s.allocated > 0 && s.own > 0) return false;
    }
  }
  return true;
}

const Loop* loop_of(const Statement& s, Annotation annotation, std::size_t* index) {
  for (std::size_t l = 0; l < s.loops.size(); ++l) {
    if (s.loops[l].annotation != annotation) continue;
    *index = l;
    return &s.loops[l];
  }
  return nullptr;
}

double vector_length(const Statement& s, const Access& a) {
  if (s.loops.empty() || s.loops.back().annotation != Annotation::kVectorize) return 1;
  return std::abs(a.stride.back()) == 1 ? s.loops.back().extent : 1;
}

// Bytes from the element of one thread to that of its neighbour; negative: all read the same.
double thread_step(const Statement& s, const Access& a) {
  std::size_t at = 0;
  if (loop_of(s, Annotation::kThreadX, &at) == nullptr) return -1;
  const double step = std::abs(a.stride[at]) * a.element_bytes;
  return step > 0 ? step : -1;
}

// Sectors that a warp touches with one access.
double sectors(const Statement& s, const Access& a, double warp) {
  const double bytes = vector_length(s, a) * a.element_bytes, step = thread_step(s, a);
  if (step < 0) return std::max(1.0, bytes / kSectorBytes);
  std::size_t at = 0;
  const double lanes = std::min(warp, loop_of(s, Annotation::kThreadX, &at)->extent);
  const double apart = std::max(1.0, bytes / kSectorBytes);  // of threads that share no sector
  const double dense = std::max(1.0, lanes * std::max(step, bytes) / kSectorBytes);
  return step >= kSectorBytes ? lanes * apart : dense;
}

// Threads of a warp whose elements of shared memory are in one bank.
double conflicts(const Statement& s, const Access& a, double warp) {
  const double step = thread_step(s, a);
  if (step < 0) return 1;
  const double words = std::max(1.0, step / kBankBytes);
  double common = 1;  // greatest power of two in the step
  while (common < kBanks && std::fmod(words, 2 * common) == 0) common *= 2;
  std::size_t at = 0;
  const double lanes = std::min(warp, loop_of(s, Annotation::kThreadX, &at)->extent);
  return std::min(lanes, common);
}

// Accesses to memory of all threads together, those of registers that stay left out.
double traffic(const Program& program, const Statement& s) {
  double bytes = 0;
  for (const Access& a : s.accesses) {
    if (!is_global(program, a)) continue;
    double visits = s.points;
    // The same element in the loops inside is loaded once.
    for (std::size_t l = s.loops.size(); l-- > 0 && !a.uses(l);) visits /= s.loops[l].extent;
    bytes += visits * a.element_bytes;
  }
  return bytes;
}

void add_launch(const Program& program, int root, LaunchView* v) {
  double length[3] = {1, 1, 1};
  double locals = 0;
  for (const Statement& s : program.statements) {
    if (root_of(s) != root) continue;
    length[0] = std::max(length[0], bound(s, Annotation::kThreadX));
    length[1] = std::max(length[1], bound(s, Annotation::kThreadY));
    length[2] = std::max(length[2], bound(s, Annotation::kThreadZ));
    v->blocks = std::max(v->blocks, bound(s, Annotation::kBlockX) * bound(s, Annotation::kBlockY) *
                                        bound(s, Annotation::kBlockZ));
    const double bytes = s.allocated * result_bytes(s);
    if (is_shared(s)) {
      v->shared_bytes += bytes;
      double visits = 1;
      for (std::size_t l = 0; l < s.own; ++l) {
        if (!schedule::is_block(s.loops[l].annotation)) visits *= s.loops[l].extent;
      }
      v->barriers = std::max(v->barriers, visits);
    } else if (s.own > 0) {
      locals += bytes / 4;
    }
    v->work += s.work * s.points;
    v->global_bytes += traffic(program, s);
  }
  v->threads = length[0] * length[1] * length[2];
  v->registers = kOtherRegisters + locals;
}

void add_occupancy(const target::Target& target, LaunchView* v) {
  const target::GpuLimits& gpu = target.gpu;
  const auto limit = [](double have, double needed) {
    return have > 0 && needed > 0 ? std::floor(have / needed) : 1e9;
  };
  v->warps = std::ceil(v->threads / std::max(1, gpu.warp));
  const double per_thread =
      std::min(v->registers, static_cast<double>(std::max(1, target.vector_registers)));
  v->resident = std::min({limit(gpu.core_threads, v->threads), limit(gpu.core_blocks, 1),
                          limit(static_cast<double>(gpu.core_shared_bytes), v->shared_bytes),
                          limit(gpu.core_registers, v->threads * per_thread)});
  if (v->resident >= 1e9) v->resident = 1;
  v->occupancy = gpu.core_threads > 0 ? v->resident * v->threads / gpu.core_threads : 0;
  const double room = std::max(1.0, v->resident) * std::max(1, target.cores);
  v->waves = v->blocks / room;
  v->tail = std::ceil(v->waves) / v->waves;
}

}  // namespace

LaunchView view_launch(const Program& program, std::size_t index, const StatementView& statement,
                       const target::Target& target) {
  const Statement& s = *statement.statement;
  LaunchView v;
  v.launches = 0;
  for (std::size_t i = 0; i < program.statements.size(); ++i)
    v.launches += root_of(program.statements[i]) == program.statements[i].stage_index ? 1 : 0;
  add_launch(program, root_of(program.statements[index]), &v);
  add_occupancy(target, &v);
  v.is_shared = is_shared(s);
  v.is_local = !v.is_shared && s.own > 0;
  v.thread_work = s.work * s.points / std::max(1.0, v.blocks * v.threads);
  const double warp = std::max(1, target.gpu.warp);
  for (const Access& a : s.accesses) {
    const bool global = is_global(program, a);
    if (global && a.read && !a.write)
      v.read_sectors = std::max(v.read_sectors, sectors(s, a, warp));
    if (global && a.write) v.write_sectors = std::max(v.write_sectors, sectors(s, a, warp));
    if (global) v.vector_bytes = std::max(v.vector_bytes, vector_length(s, a) * a.element_bytes);
    if (!global) v.bank_conflicts = std::max(v.bank_conflicts, conflicts(s, a, warp));
  }
  return v;
}

}  // namespace tessera::feature
