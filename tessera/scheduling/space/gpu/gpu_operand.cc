#include "tessera/scheduling/space/gpu/gpu_operand.h"

#include <algorithm>

#include "tessera/scheduling/space/limits.h"

namespace tessera::space {
namespace {

// Every axis moves it step by step, but for reduce axes that look up the plane, its first
// dimension.
bool steps_or_looks_up(const Stage& s, const Access& a, std::size_t cut) {
  for (std::size_t i = 0; i < a.irregular.size(); ++i) {
    if (a.irregular[i] && (i < s.rank() || i == cut || a.strides[i] != 0)) return false;
  }
  for (std::size_t d = 0; d < a.indices.size(); ++d) {
    const Index& index = a.indices[d];
    if (!index.irregular.empty() && (d > 0 || !index.terms.empty())) return false;
  }
  return true;
}

bool lies_along(const Access& a, std::size_t outer, std::size_t cut) {
  if (a.indices.empty() || a.indices.back().terms.size() != 1) return false;
  if (!is_last_axis(a, cut) && !is_last_axis(a, outer)) return false;
  // Nothing else moves with the axis that lies side by side.
  const std::size_t along = is_last_axis(a, cut) ? cut : outer;
  int uses = 0;
  for (const Index& index : a.indices) {
    for (const IndexTerm& t : index.terms) uses += t.axis == along ? 1 : 0;
  }
  return uses == 1;
}

}  // namespace

schedule::Layout GpuOperand::layout() const {
  schedule::Layout out;
  for (const std::size_t d : order) out.push_back({.dim = static_cast<int>(d)});
  return out;
}

bool is_last_axis(const Access& a, std::size_t axis) {
  const auto& terms = a.indices.back().terms;
  return std::any_of(terms.begin(), terms.end(),
                     [&](const IndexTerm& t) { return t.axis == axis && t.coefficient == 1; });
}

std::optional<std::size_t> find_gpu_cut(const Context& x, const Contraction& c,
                                        std::int64_t depth) {
  const Stage& s = x.stage(c.stage);
  for (const Access* a : {&c.a, &c.b}) {
    for (const std::size_t r : c.reduce) {
      if (is_last_axis(*a, r) && s.extent(r) >= depth) return r;
    }
  }
  std::optional<std::size_t> out;
  for (const std::size_t r : c.reduce) {
    if (!out || s.extent(r) > s.extent(*out)) out = r;
  }
  return out;
}

std::optional<GpuOperand> make_gpu_operand(const Context& x, const Contraction& c, const Access& a,
                                           std::size_t outer, std::size_t cut, bool along_cut) {
  const Stage& s = x.stage(c.stage);
  if (!steps_or_looks_up(s, a, cut)) return std::nullopt;
  GpuOperand o{.access = &a};
  for (std::size_t d = 0; d < a.indices.size(); ++d) o.order.push_back(d);
  const bool constant = x.analysis.constant(a.buffer);
  const std::int64_t vector = kGpuCopyBytes / size_bytes(a.buffer->dtype);
  const bool whole = a.buffer->shape.back() % vector == 0;
  const bool cut_is_whole = s.extent(cut) % vector == 0;
  // Elements of other than two bytes must lie along the sums.
  const bool apart = size_bytes(a.buffer->dtype) != 2 && !is_last_axis(a, cut);
  const bool transposed = along_cut && cut_is_whole && !is_last_axis(a, cut);
  const bool better = constant && (apart || transposed || (!whole && cut_is_whole));
  std::optional<GpuOperand> as_is;
  if (lies_along(a, outer, cut)) as_is = o;
  // Single elements of four bytes can be copied to another place.
  const bool turns = as_is && apart && !constant && size_bytes(a.buffer->dtype) == 4;
  if (as_is && !better && !turns) return o;
  const auto at = [&](std::size_t axis) {
    return std::find_if(o.order.begin(), o.order.end(), [&](std::size_t d) {
      const auto& terms = a.indices[d].terms;
      return terms.size() == 1 && terms[0].axis == axis && terms[0].coefficient == 1;
    });
  };
  if (!constant && !turns) return std::nullopt;
  for (const std::size_t axis : {outer, cut}) {  // to the end, one after the other
    const auto found = at(axis);
    if (found == o.order.end()) return as_is;
    const std::size_t d = *found;
    o.order.erase(found);
    o.order.push_back(d);
  }
  o.moved = constant;
  o.transposed = !constant;
  return o;
}

std::int64_t gpu_planes(const Access& a) {
  return a.indices.empty() || a.indices[0].irregular.empty() ? 1 : a.buffer->shape[0];
}

void begin_gpu_copy(Context& x, const GpuOperand& o, const std::string& reader) {
  Writer& w = x.writer;
  const Access& a = *o.access;
  if (o.moved) w.layout(a.buffer->name, o.layout());
  w.cache_read(a.buffer->name, reader, "shared");
  const int producer = x.analysis.producer(a.buffer);
  if (producer < 0) return;
  const auto p = static_cast<std::size_t>(producer);
  const Stage& made = x.stage(p);
  if (x.done[p] || made.output || made.reduces() || made.users.size() != 1 ||
      made.op.outputs.size() != 1)
    return;
  // Elements from places that are computed would be fetched one by one, while products wait.
  const bool gathered = std::any_of(made.reads.begin(), made.reads.end(), [&](const Access& r) {
    return made.rank() > 0 && r.irregular[made.rank() - 1];
  });
  if (!x.chooser.flag(made.op.name, "in_copy", PointKind::kLocation,
                      made.cost <= kGpuCheapCopy && !gathered))
    return;
  w.compute_inline(made.op.name);
  x.done[p] = true;
}

std::int64_t gpu_copy_lanes(const GpuOperand& o, std::int64_t span) {
  const ir::Buffer& buffer = o.access->buffer;
  if (o.transposed) return 1;
  std::int64_t lanes = kGpuCopyBytes / size_bytes(buffer->dtype);
  while (lanes > 1 && (buffer->shape[o.order.back()] % lanes != 0 || span % lanes != 0)) lanes /= 2;
  return lanes;
}

void share_gpu_copy(Writer& w, const std::string& stage, const Loops& dims, std::int64_t elements,
                    std::int64_t lanes, std::int64_t groups, std::int64_t threads) {
  std::vector<std::int64_t> lengths = {groups, threads};
  if (lanes > 1) lengths.push_back(lanes);
  const Loops parts =
      w.split(stage, w.fuse(stage, dims), std::move(lengths), schedule::Tail::kGuard);
  if (elements <= limits::kGpuCopyRounds * groups * threads * lanes) w.unroll(stage, parts[0]);
  w.annotate(stage, parts[1], schedule::Annotation::kThreadY);
  w.annotate(stage, parts[2], schedule::Annotation::kThreadX);
  if (lanes > 1) w.vectorize(stage, parts[3]);
}

}  // namespace tessera::space
