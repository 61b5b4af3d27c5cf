#include "tessera/scheduling/space/gpu/gpu.h"

#include <algorithm>

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu_tile.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kBusyBlocks = 2;         // that keep a core busy, where little is to be done
constexpr std::int64_t kGatheredLanes = 2;      // 4 and 8 wait for more loads (H200)
constexpr std::int64_t kGatheredElements = 32;  // of a thread

std::vector<std::int64_t> up_to(std::int64_t most, std::initializer_list<std::int64_t> values) {
  std::vector<std::int64_t> out;
  for (const std::int64_t v : values) {
    if (v <= most) out.push_back(v);
  }
  return out;
}

std::int64_t block_threads(const Context& c) {
  return std::max<std::int64_t>(1, c.target.gpu.block_threads);
}

std::vector<std::size_t> all_axes(const Stage& s) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < s.rank(); ++i) out.push_back(i);
  return out;
}

// Small elements from places that are computed (windows of few channels): stored together at least.
bool gathers(const Stage& s) {
  return !s.reduces() && s.rank() > 1 && size_bytes(s.dtype()) == 2 && s.reads.size() == 1 &&
         s.reads[0].irregular[s.rank() - 1];
}

// Positions of a row whose elements one thread gathers: where they come from is told once. Fewer
// where threads would be too few; 1 where none divides the row.
std::int64_t gathered_rows(const Context& c, const Stage& s, std::int64_t lanes) {
  const std::int64_t row = s.extent(s.rank() - 2);
  const auto threads = static_cast<std::int64_t>(s.elements()) / lanes;
  const std::int64_t busy = busy_gpu_threads(c.target);
  std::int64_t out = row % 4 == 0 ? 4 : 1;
  for (std::int64_t n = 8; n * lanes <= kGatheredElements; n *= 2) {
    if (row % n == 0 && threads / n >= busy) out = n;
  }
  return out;
}

// Elements of 16 bytes, where they lie side by side wherever they are read.
std::int64_t preferred_lanes(const Stage& s) {
  if (s.reduces()) return 1;
  const std::size_t last = s.rank() - 1;
  if (gathers(s)) return s.extent(last) % kGatheredLanes == 0 ? kGatheredLanes : 1;
  const bool dense = std::all_of(s.reads.begin(), s.reads.end(), [&](const Access& r) {
    return !r.irregular[last] && (r.strides[last] == 0 || r.strides[last] == 1);
  });
  const std::int64_t lanes = 16 / size_bytes(s.dtype());
  return dense && s.extent(last) % lanes == 0 ? lanes : 1;
}

}  // namespace

bool reads_along_outputs(const Stage& s) {
  if (s.rank() == 0) return false;
  return std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& r) {
    const bool reduced = std::any_of(r.strides.begin() + static_cast<std::ptrdiff_t>(s.rank()),
                                     r.strides.end(), [](std::int64_t n) { return n != 0; });
    return r.strides[s.rank() - 1] == 1 && (reduced || !s.reduces());
  });
}

std::int64_t spread_gpu_threads(const Context& c, std::int64_t threads, std::int64_t most) {
  const std::int64_t busy = kBusyBlocks * std::max(1, c.target.cores);
  std::int64_t out = std::min(most, block_threads(c));
  while (out > c.target.gpu.warp && threads / out < busy) out /= 2;
  return out;
}

GpuLoops gpu_loops(const Stage& s, const std::vector<std::size_t>& axes) {
  GpuLoops out;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool only = i + 1 == axes.size() && out.shared.empty();
    const bool shares = s.extent(axes[i]) > 1 || only;
    (shares ? out.shared : out.units).push_back(s.axis_name(axes[i]));
  }
  return out;
}

GpuElements bind_gpu_elements(Context& c, std::size_t stage, std::int64_t threads,
                              std::int64_t lanes, const Loops& reduce, const Loops& inside) {
  const Stage& s = c.stage(stage);
  Writer& w = c.writer;
  const std::string& name = s.op.name;
  const auto [shared, units] = gpu_loops(s, all_axes(s));
  Loops outer = shared, inner = units;
  inner.insert(inner.end(), reduce.begin(), reduce.end());
  for (const std::string& loop : inside) {
    outer.erase(std::remove(outer.begin(), outer.end(), loop), outer.end());
    inner.push_back(loop);
    w.unroll(name, loop);
  }
  for (std::size_t i = s.rank(); i < s.axis_count() && reduce.empty(); ++i)
    inner.push_back(s.axis_name(i));
  if (s.extent(s.rank() - 1) % lanes != 0) lanes = 1;
  // What tells where the elements of a vector come from serves several of them.
  const std::int64_t gathered =
      lanes > 1 && gathers(s) && units.empty() ? gathered_rows(c, s, lanes) : 1;
  if (gathered > 1) {
    std::string& rows = outer[outer.size() - 2];
    const Loops split = w.split(name, rows, {gathered}, schedule::Tail::kGuard);
    rows = split[0];
    inner.push_back(split[1]);
    w.unroll(name, split[1]);
  }
  if (lanes > 1) {
    const Loops last = w.split(name, outer.back(), {lanes}, schedule::Tail::kGuard);
    outer.back() = last[0];
    inner.push_back(last[1]);
    if (gathers(s)) {
      w.unroll(name, last[1]);
    } else {
      w.vectorize(name, last[1]);
    }
  }
  if (!inner.empty()) {
    Loops order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    w.reorder(name, order);
  }
  const Loops parts = w.split(name, w.fuse(name, outer), {threads}, schedule::Tail::kGuard);
  w.annotate(name, parts[0], schedule::Annotation::kBlockX);
  w.annotate(name, parts[1], schedule::Annotation::kThreadX);
  return {parts[1], lanes};
}

void schedule_gpu_elements(Context& c, std::size_t stage, bool simple) {
  const Stage& s = c.stage(stage);
  c.done[stage] = true;
  if (s.rank() == 0) return;
  const std::string& name = s.op.name;
  std::int64_t threads = std::min(kGpuThreads, block_threads(c));
  if (simple) {
    bind_gpu_elements(c, stage, threads, 1, {});
    return;
  }
  threads = c.chooser.number(name, "threads", PointKind::kThread, threads, [&] {
    return up_to(block_threads(c), {32, 64, 128, 256, 512, 1024});
  });
  const std::int64_t lanes =
      c.chooser.number(name, "lanes", PointKind::kVector, preferred_lanes(s), [&] {
        return up_to(s.extent(s.rank() - 1), {1, 2, 4, 8});
      });
  bind_gpu_elements(c, stage, threads, lanes, {});
}

namespace {

// A reduction with its epilogue: the threads of a row, of columns, or one for each output.
void schedule_reduction(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  static constexpr const char* kWords[] = {"columns", "rows"};
  const bool several = s.op.reduce_axes.size() > 0 && s.rank() > 0;
  if (several) {
    const std::size_t last = s.axis_count() - 1;
    const bool along = std::any_of(s.reads.begin(), s.reads.end(),
                                   [&](const Access& r) { return r.strides[last] == 1; });
    const bool rows = along && !reads_along_outputs(s) && s.extent(last) >= c.target.gpu.warp / 2;
    const int word =
        c.chooser.word(s.op.name, "threads_of", PointKind::kThread, rows ? 1 : 0, kWords);
    if (word == 1 ? schedule_gpu_row_sums(c, stage) : schedule_gpu_columns(c, stage)) return;
  }
  schedule_gpu_elements(c, stage, false);
}

// What a stage that is computed element by element uses of reductions is computed with it.
bool schedule_reductions_of(Context& c, std::size_t nest) {
  if (schedule_gpu_rows(c, nest)) return true;
  for (std::size_t p = nest; p-- > 0;) {
    const Stage& s = c.stage(p);
    if (c.done[p] || !s.reduces() || s.users.size() != 1 || s.users[0] != nest) continue;
    const auto found = find_nest(c.analysis, p);
    if (!found) continue;
    schedule_reduction(c, p);
    if (c.done[nest]) return true;
  }
  return false;
}

}  // namespace

void write_gpu_stages(Context& c, bool simple) {
  const std::size_t count = c.analysis.stages.size();
  for (std::size_t i = 0; i < count && !simple; ++i) {
    if (c.chooser.stopped()) return;
    if (!c.done[i]) schedule_gpu_attention(c, i);
  }
  for (std::size_t i = 0; i < count && !simple; ++i) {
    if (c.chooser.stopped()) return;
    if (!c.done[i] && is_contraction(c.stage(i))) schedule_gpu_contraction(c, i);
  }
  for (std::size_t i = count; i-- > 0 && !simple;) {
    if (!c.done[i]) schedule_gpu_transform(c, i);
  }
  for (std::size_t i = count; i-- > 0;) {
    if (c.chooser.stopped()) return;
    if (c.done[i]) continue;
    if (simple) {
      schedule_gpu_elements(c, i, true);
    } else if (c.stage(i).reduces()) {
      schedule_reduction(c, i);
    } else if (!schedule_reductions_of(c, i) && !schedule_gpu_transpose(c, i)) {
      schedule_gpu_elements(c, i, false);
    }
  }
}

}  // namespace tessera::space
