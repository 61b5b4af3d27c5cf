// Elements that are read across memory: a tile of them goes through shared memory, so that both
// sides are accessed along their rows.
#include <algorithm>

#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kTile = 32;      // elements of a side, and threads of a row of them
constexpr std::int64_t kShortest = 16;  // sides that are worth it

struct Crossed {
  const Access* read = nullptr;
  std::size_t axis = 0;  // along which it lies in memory
};

// The last axis of more than one element.
std::size_t last_axis(const Stage& s) {
  std::size_t last = s.rank() - 1;
  while (last > 0 && s.extent(last) == 1) --last;
  return last;
}

// The only read that lies along another axis than the last one.
Crossed find_crossed(const Context& c, const Stage& s) {
  Crossed out;
  const std::size_t last = last_axis(s);
  for (const Access& r : s.reads) {
    if (!r.irregular[last] && r.strides[last] <= 1) continue;
    int along = -1;
    for (std::size_t d = 0; d < r.indices.size(); ++d) {
      const int axis = r.indices[d].single_axis();
      if (axis >= 0 && r.strides[static_cast<std::size_t>(axis)] == 1 &&
          s.extent(static_cast<std::size_t>(axis)) > 1)
        along = axis;
    }
    if (out.read || along < 0 || !r.regular() || r.conditional || c.analysis.constant(r.buffer))
      return {};
    out = {&r, static_cast<std::size_t>(along)};
  }
  const bool worth =
      out.read && out.axis < last && s.extent(last) >= kShortest && s.extent(out.axis) >= kShortest;
  return worth ? out : Crossed{};
}

}  // namespace

bool schedule_gpu_transpose(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  if (s.rank() < 2 || s.reduces() || c.target.gpu.block_threads < kTile) return false;
  const Crossed crossed = find_crossed(c, s);
  if (!crossed.read) return false;
  const std::string& name = s.op.name;
  if (!c.chooser.flag(name, "through_tile", PointKind::kCache, true)) return false;
  const std::int64_t most = c.target.gpu.block_threads / kTile;
  const std::int64_t rows = c.chooser.number(
      name, "tile_rows", PointKind::kThread, std::min<std::int64_t>(8, most),
      [] {
        return std::vector<std::int64_t>{1, 2, 4, 8, 16};
      },
      [&](std::int64_t n) {
        return n > 1 && n > most ? "more threads than a block has" : nullptr;
      });
  Writer& w = c.writer;
  const std::string copy = w.cache_read(crossed.read->buffer->name, name, "shared");
  Loops blocks;
  const std::size_t last = last_axis(s);
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (i != crossed.axis && i != last) blocks.push_back(s.axis_name(i));
  }
  const Loops across =
      w.split(name, s.axis_name(crossed.axis), {kTile / rows, rows}, schedule::Tail::kGuard);
  const Loops along = w.split(name, s.axis_name(last), {kTile}, schedule::Tail::kGuard);
  blocks.push_back(across[0]);
  blocks.push_back(along[0]);
  Loops order = blocks;
  order.insert(order.end(), {across[1], across[2], along[1]});
  w.reorder(name, order);
  const std::string block = w.fuse(name, blocks);
  w.annotate(name, block, schedule::Annotation::kBlockX);
  w.unroll(name, across[1]);
  w.annotate(name, w.fuse(name, {across[2], along[1]}), schedule::Annotation::kThreadX);
  w.compute_at(copy, name, block);
  const std::size_t dims = crossed.read->indices.size();
  // The rows of the tile begin in different banks.
  int row = -1;
  for (std::size_t d = 0; d < dims; ++d) {
    if (crossed.read->indices[d].single_axis() == static_cast<int>(last)) row = static_cast<int>(d);
  }
  if (row >= 0 && row + 1 < static_cast<int>(dims)) w.storage_align(copy, row, kGpuBanks, 1);
  Loops all;
  for (std::size_t d = 0; d < dims; ++d) all.push_back("d" + std::to_string(d));
  const Loops parts = w.split(copy, w.fuse(copy, all), {kTile * rows}, schedule::Tail::kGuard);
  w.unroll(copy, parts[0]);
  w.annotate(copy, parts[1], schedule::Annotation::kThreadX);
  c.done[stage] = true;
  return true;
}

}  // namespace tessera::space
