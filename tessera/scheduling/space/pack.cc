#include "tessera/scheduling/space/pack.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kTransposeSteps = 4;
constexpr std::int64_t kRowsPerGroup = 16;
constexpr std::int64_t kMaxUnrolledPanel = 16;

bool has_axis(const Index& index, const std::vector<std::size_t>& axes) {
  return std::any_of(index.terms.begin(), index.terms.end(), [&](const IndexTerm& t) {
    return std::find(axes.begin(), axes.end(), t.axis) != axes.end();
  });
}

// The dimension that runs along `axis`. Other axes may share it when they skip whole panels.
int panel_dim(const Access& access, std::size_t axis, std::int64_t width) {
  for (std::size_t d = 0; d < access.indices.size(); ++d) {
    const Index& index = access.indices[d];
    const bool along = index.irregular.empty() && has_axis(index, {axis}) &&
                       std::all_of(index.terms.begin(), index.terms.end(), [&](const IndexTerm& t) {
                         return t.axis == axis ? t.coefficient == 1 : t.coefficient % width == 0;
                       });
    if (along) return static_cast<int>(d);
  }
  return -1;
}

// Dimensions of the reduction, as its loops run; those of other axes first.
std::vector<std::size_t> loop_order(const Contraction& c, const Access& access, std::size_t dim) {
  std::vector<std::pair<std::size_t, std::size_t>> keyed;
  for (std::size_t d = 0; d < access.indices.size(); ++d) {
    if (d == dim || has_axis(access.indices[d], c.batch)) continue;
    std::size_t key = 0;
    for (const IndexTerm& t : access.indices[d].terms) {
      const auto it = std::find(c.reduce.begin(), c.reduce.end(), t.axis);
      if (it != c.reduce.end())
        key = std::max(key, static_cast<std::size_t>(it - c.reduce.begin()) + 1);
    }
    keyed.emplace_back(key, d);
  }
  std::stable_sort(keyed.begin(), keyed.end());
  std::vector<std::size_t> out;
  for (const auto& [key, d] : keyed) out.push_back(d);
  return out;
}

// The names of the loops of the stage that writes the copy, and along which dimension it reads.
struct CopyLoops {
  Loops names;
  std::vector<std::int64_t> extents;
  int contiguous = -1;
};

CopyLoops loops_of(const Context& x, const Pack& pack) {
  CopyLoops out;
  if (!pack.cached) {
    const Stage& s = x.stage(static_cast<std::size_t>(pack.producer));
    for (std::size_t d = 0; d < s.rank(); ++d) {
      out.names.push_back(s.axis_name(d));
      out.extents.push_back(s.extent(d));
      for (const Access& read : s.reads) {
        if (read.strides[d] == 1 && read.buffer.size() > 1) out.contiguous = static_cast<int>(d);
      }
    }
    return out;
  }
  for (const te::Input& in : x.analysis.inputs) {
    if (in.buffer->name + ".local" == pack.name) out.extents = in.buffer->shape;
  }
  for (const Stage& s : x.analysis.stages) {
    if (s.op.outputs[0]->name + ".local" == pack.name) out.extents = s.op.outputs[0]->shape;
  }
  for (std::size_t d = 0; d < out.extents.size(); ++d) {
    out.names.push_back(fmt::format("d{}", d));
    if (out.extents[d] > 1) out.contiguous = static_cast<int>(d);
  }
  return out;
}

}  // namespace

Pack make_pack(const Context& x, const Contraction& c, const Access& access, std::size_t axis,
               std::int64_t width, int block_axis, std::int64_t block, bool copies,
               std::int64_t group) {
  Pack pack{.name = access.buffer->name, .reads = access.buffer, .layout = {}, .copies = copies};
  pack.producer = x.analysis.producer(access.buffer);
  pack.width = width;
  const int dim = panel_dim(access, axis, width);
  if (dim < 0) return Pack{};
  pack.dim = static_cast<std::size_t>(dim);
  int block_dim = -1;
  for (std::size_t d = 0; d < access.indices.size(); ++d) {
    if (block_axis >= 0 && access.indices[d].single_axis() == block_axis)
      block_dim = static_cast<int>(d);
    if (group > 1 && access.indices[d].single_axis() == static_cast<int>(c.reduce.back())) {
      pack.group = group;
      pack.group_dim = d;
    }
    if (static_cast<int>(d) != dim && has_axis(access.indices[d], c.batch))
      pack.layout.push_back({static_cast<int>(d), 1, 0});
  }
  if (block_dim >= 0) pack.layout.push_back({block_dim, block, 0});
  pack.layout.push_back({dim, width, 0});
  for (const std::size_t d : loop_order(c, access, pack.dim)) {
    const bool grouped = pack.group > 1 && d == pack.group_dim;
    pack.layout.push_back({static_cast<int>(d), grouped ? pack.group : 1,
                           static_cast<int>(d) == block_dim ? block : 0});
  }
  if (width > 1) pack.layout.push_back({dim, 1, width});
  if (pack.group > 1) pack.layout.push_back({static_cast<int>(pack.group_dim), 1, pack.group});
  if (copies) {
    const bool own = pack.producer >= 0 &&
                     !x.stage(static_cast<std::size_t>(pack.producer)).output &&
                     !x.stage(static_cast<std::size_t>(pack.producer)).reduces() &&
                     x.stage(static_cast<std::size_t>(pack.producer)).users.size() == 1 &&
                     !x.done[static_cast<std::size_t>(pack.producer)];
    pack.cached = !own;
    if (pack.cached) {
      pack.name = x.writer.cache_read(access.buffer->name, x.stage(c.stage).op.name);
      pack.producer = -1;
    }
  }
  return pack;
}

namespace {

// Rows are copied as they lie.
void write_rows(Context& x, const Pack& pack, const CopyLoops& loops) {
  constexpr std::int64_t kVectors = 4;
  const auto row = static_cast<std::size_t>(loops.contiguous);
  const DType dtype = pack.reads->dtype;
  const Loops l = x.writer.split(pack.name, loops.names[row],
                                 {at_most(kVectors * x.lanes(dtype), loops.extents[row])});
  x.writer.vectorize(pack.name, l[1]);
}

// Groups are copied whole, one after the other.
void write_groups(Context& x, const Pack& pack, const CopyLoops& loops, bool attached) {
  Writer& w = x.writer;
  const Loops panel = w.split(pack.name, loops.names[pack.dim], {pack.width});
  const Loops steps = w.split(pack.name, loops.names[pack.group_dim], {pack.group});
  Loops order;
  for (std::size_t d = 0; d < loops.names.size(); ++d) {
    if (d != pack.dim && d != pack.group_dim) order.push_back(loops.names[d]);
  }
  order.insert(order.end(), {panel[0], steps[0], panel[1], steps[1]});
  w.reorder(pack.name, order);
  if (pack.width <= kMaxUnrolledPanel) w.unroll(pack.name, panel[1]);
  w.vectorize(pack.name, steps[1]);
  double elements = 1;
  for (const std::int64_t e : loops.extents) elements *= static_cast<double>(e);
  if (!attached && worth_threads(8 * elements)) share_loops(w, pack.name, {panel[0]}, 1);
}

}  // namespace

std::vector<OuterLoop> write_panels(Writer& w, const Panels& p) {
  const Loops panel = w.split(p.name, p.loops[p.dim], {p.width});
  std::vector<OuterLoop> outer;
  Loops steps;
  std::int64_t step_count = 1;
  for (std::size_t d = 0; d < p.loops.size(); ++d) {
    if (d == p.dim) continue;
    if (static_cast<int>(d) != p.step_dim) {
      outer.push_back({p.loops[d], p.extents[d]});
      continue;
    }
    const std::int64_t length =
        at_most(p.transposes ? kTransposeSteps : kRowsPerGroup, p.extents[d]);
    steps = w.split(p.name, p.loops[d], {length});
    step_count = parts_of(p.extents[d], length);
    if (p.transposes) w.unroll(p.name, steps[1]);
  }
  const OuterLoop panels{panel[0], parts_of(p.extents[p.dim], p.width)};
  if (!p.transposes && !steps.empty()) outer.push_back({steps[0], step_count});
  outer.push_back(panels);
  if (p.transposes && !steps.empty()) outer.push_back({steps[0], step_count});
  Loops order = names_of(outer);
  if (!steps.empty()) order.push_back(steps[1]);
  order.push_back(panel[1]);
  w.reorder(p.name, order);
  w.vectorize(p.name, panel[1]);
  return outer;
}

void write_pack(Context& x, Pack* pack, bool attached) {
  if (pack->name.empty()) return;
  Writer& w = x.writer;
  w.layout(pack->name, pack->layout);
  if (!pack->copies) return;
  if (pack->producer >= 0) x.done[static_cast<std::size_t>(pack->producer)] = true;
  const CopyLoops loops = loops_of(x, *pack);
  if (pack->width == 1) return write_rows(x, *pack, loops);
  if (pack->group > 1) return write_groups(x, *pack, loops, attached);
  Panels panels{.name = pack->name,
                .loops = loops.names,
                .extents = loops.extents,
                .dim = pack->dim,
                .width = pack->width};
  panels.transposes = loops.contiguous >= 0 && loops.contiguous != static_cast<int>(pack->dim);
  panels.step_dim = panels.transposes ? loops.contiguous : -1;
  for (std::size_t d = 0; !panels.transposes && d < loops.names.size(); ++d) {
    if (d != pack->dim && loops.extents[d] > kRowsPerGroup) panels.step_dim = static_cast<int>(d);
  }
  const std::vector<OuterLoop> outer = write_panels(w, panels);
  double elements = 1;
  for (const std::int64_t e : loops.extents) elements *= static_cast<double>(e);
  const Sharing sharing{.parallel = !attached && worth_threads(8 * elements)};
  share_out(x, pack->name, sharing, outer, outer.size());
}

}  // namespace tessera::space
