#include "tessera/space/gpu/gpu.h"

#include <algorithm>

#include "tessera/space/inlining.h"
#include "tessera/space/tile.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kThreads = 256;

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

Loops output_loops(const Stage& s) {
  Loops out;
  for (std::size_t i = 0; i < s.rank(); ++i) out.push_back(s.axis_name(i));
  return out;
}

Loops reduce_loops(const Stage& s) {
  Loops out;
  for (std::size_t i = s.rank(); i < s.axis_count(); ++i) out.push_back(s.axis_name(i));
  return out;
}

// Elements side by side in memory are read by neighbouring threads.
bool reads_along_outputs(const Stage& s) {
  if (s.rank() == 0) return false;
  const std::size_t last = s.rank() - 1;
  return std::any_of(s.reads.begin(), s.reads.end(),
                     [&](const Access& r) { return r.strides[last] == 1; });
}

// Elements of 16 bytes, where they lie side by side wherever they are read.
std::int64_t preferred_lanes(const Stage& s) {
  if (s.reduces()) return 1;
  const std::size_t last = s.rank() - 1;
  const bool dense = std::all_of(s.reads.begin(), s.reads.end(), [&](const Access& r) {
    return !r.irregular[last] && (r.strides[last] == 0 || r.strides[last] == 1);
  });
  const std::int64_t lanes = 16 / size_bytes(s.dtype());
  return dense && s.extent(last) % lanes == 0 ? lanes : 1;
}

}  // namespace

GpuElements bind_gpu_elements(Context& c, std::size_t stage, std::int64_t threads,
                              std::int64_t lanes, const Loops& reduce) {
  const Stage& s = c.stage(stage);
  Writer& w = c.writer;
  const std::string& name = s.op.name;
  Loops outer = output_loops(s), inner = reduce;
  if (s.extent(s.rank() - 1) % lanes != 0) lanes = 1;
  if (lanes > 1) {
    const Loops last = w.split(name, outer.back(), {lanes}, schedule::Tail::kGuard);
    outer.back() = last[0];
    inner.push_back(last[1]);
    w.vectorize(name, last[1]);
  }
  if (!reduce.empty()) {
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
  std::int64_t threads = std::min(kThreads, block_threads(c));
  if (simple) {
    bind_gpu_elements(c, stage, threads, 1, {});
    return;
  }
  threads = c.chooser.number(name, "threads", DecisionKind::kThread, threads, [&] {
    return up_to(block_threads(c), {32, 64, 128, 256, 512, 1024});
  });
  const std::int64_t lanes =
      c.chooser.number(name, "lanes", DecisionKind::kVector, preferred_lanes(s), [&] {
        return up_to(s.extent(s.rank() - 1), {1, 2, 4, 8});
      });
  bind_gpu_elements(c, stage, threads, lanes, {});
}

void schedule_gpu_reduction(Context& c, std::size_t stage, bool simple) {
  const Stage& s = c.stage(stage);
  const std::string& name = s.op.name;
  std::int64_t length = 1;
  for (const te::Axis& a : s.op.reduce_axes) length *= std::max<std::int64_t>(1, a.extent);
  const std::int64_t warp = c.target.gpu.warp;
  const bool rows = !simple && !s.op.reduce_axes.empty() && s.rank() > 0 && length >= 2;
  static constexpr const char* kWords[] = {"outputs", "rows"};
  const bool wants_rows = !reads_along_outputs(s) && length >= warp;
  if (!rows ||
      c.chooser.word(name, "threads_of", DecisionKind::kThread, wants_rows ? 1 : 0, kWords) == 0)
    return schedule_gpu_elements(c, stage, simple);
  c.done[stage] = true;
  Writer& w = c.writer;
  const std::int64_t most = block_threads(c);
  const std::int64_t preferred = length >= 8 * warp && s.elements() < 64.0 * c.target.cores
                                     ? std::min<std::int64_t>(8 * warp, most)
                                     : std::min(warp, most);
  const std::int64_t threads =
      c.chooser.number(name, "row_threads", DecisionKind::kThread, preferred, [&] {
        return up_to(most, {warp / 4, warp / 2, warp, 2 * warp, 4 * warp, 8 * warp, 16 * warp});
      });
  const std::int64_t side = c.chooser.number(
      name, "block_rows", DecisionKind::kThread, std::max<std::int64_t>(1, 4 * warp / threads),
      [&] {
        return up_to(most, {1, 2, 4, 8});
      },
      [&](std::int64_t n) {
        return n * threads > most ? "more threads than a block has" : nullptr;
      });
  const Loops out = w.split(name, w.fuse(name, output_loops(s)), {side}, schedule::Tail::kGuard);
  const Loops reduce = reduce_loops(s);
  const Loops steps = w.split(name, w.fuse(name, reduce), {threads}, schedule::Tail::kGuard);
  w.annotate(name, out[0], schedule::Annotation::kBlockX);
  w.annotate(name, out[1], schedule::Annotation::kThreadY);
  w.annotate(name, steps[1], schedule::Annotation::kThreadX);
}

void write_gpu_stages(Context& c, bool simple) {
  const std::size_t count = c.analysis.stages.size();
  for (std::size_t i = 0; i < count && !simple; ++i) {
    if (c.chooser.stopped()) return;
    if (!c.done[i] && is_contraction(c.stage(i))) schedule_gpu_contraction(c, i);
  }
  for (std::size_t i = count; i-- > 0;) {
    if (c.chooser.stopped()) return;
    if (c.done[i]) continue;
    if (c.stage(i).reduces()) {
      schedule_gpu_reduction(c, i, simple);
    } else {
      schedule_gpu_elements(c, i, simple);
    }
  }
}

}  // namespace tessera::space
