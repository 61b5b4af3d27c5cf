// The steps of a tiling.
#include <algorithm>

#include "tessera/scheduling/space/pack.h"
#include "tessera/scheduling/space/rules/tile_part.h"
#include "tessera/scheduling/space/share.h"

namespace tessera::space {
namespace {

std::int64_t product_from(const Lengths& lengths, std::size_t from) {
  std::int64_t out = 1;
  for (std::size_t i = from; i < lengths.size(); ++i) out *= lengths[i];
  return out;
}

void append(Loops* out, const Loops& more) { out->insert(out->end(), more.begin(), more.end()); }

}  // namespace

std::int64_t TilePart::reduce_length(Choice choice, std::size_t i) const {
  return reduce_groups_ > 1 ? value(choice, reduce_[i].decision) : reduce_[i].extent;
}

bool TilePart::exact(Choice choice, std::size_t i) const {
  return axes_[i].extent % product_from(tile(choice, i), 0) == 0;
}

// Whole innermost tiles need no copies: the loops outside end earlier.
schedule::Tail TilePart::tail_of(Choice choice, std::size_t i) const {
  const bool bounds =
      value(choice, tail_) == 1 && !exact(choice, i) && axes_[i].extent % inner(choice, i) == 0;
  return bounds ? schedule::Tail::kGuard : schedule::Tail::kPeel;
}

std::vector<std::size_t> TilePart::spatial_order(Choice choice, bool innermost) const {
  std::vector<std::size_t> out;
  const bool first = !innermost && value(choice, order_) == 1;
  if (first) out.push_back(vector_);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (i != vector_ || !(first || innermost)) out.push_back(i);
  }
  if (innermost) out.push_back(vector_);
  return out;
}

std::vector<std::size_t> TilePart::reduce_order(Choice choice) const {
  std::vector<std::size_t> out = memory_order_;
  if (value(choice, reduce_order_) == 1) std::sort(out.begin(), out.end());
  return out;
}

Result<std::vector<std::int64_t>> TilePart::unrolled(Choice choice) const {
  std::vector<std::int64_t> out(reduce_.size(), 1);
  std::int64_t budget = value(choice, unroll_);
  const std::vector<std::size_t> order = reduce_order(choice);
  for (std::size_t n = order.size(); n-- > 0 && budget > 1;) {
    const std::size_t i = order[n];
    const std::int64_t extent = reduce_[i].extent, length = reduce_length(choice, i);
    const bool whole = length <= budget;
    const std::int64_t steps = whole ? length : budget;
    if (length < extent && (extent % length != 0 || length % steps != 0)) {
      return make_error(ErrorCode::kIllegalSchedule, "{} steps cannot be unrolled in blocks of {}",
                        steps, length);
    }
    out[i] = steps;
    budget /= steps;
    if (!whole) break;
  }
  return out;
}

std::vector<TileLoop> TilePart::loop_list(Choice choice) const {
  std::vector<TileLoop> out;
  std::size_t s = 0, r = 0;
  const auto last = static_cast<std::size_t>(spatial_groups_) - 1;
  for (const char letter : tiling_.structure) {
    if (letter == 'S') {
      for (const std::size_t i : spatial_order(choice, s == last)) {
        const Lengths& lengths = tile(choice, i);
        out.push_back({axes_[i].axis, product_from(lengths, s), s == 0 ? 0 : lengths[s - 1]});
      }
      ++s;
      continue;
    }
    for (const std::size_t i : reduce_order(choice)) {
      const std::int64_t length = reduce_length(choice, i);
      const bool blocked = length < reduce_[i].extent;
      const bool inside = static_cast<int>(r) + 1 == reduce_groups_;
      if (inside) out.push_back({reduce_[i].axis, 1, blocked ? length : 0});
      if (!inside && blocked) out.push_back({reduce_[i].axis, length, 0});
    }
    ++r;
  }
  return out;
}

void TilePart::write_operands(Choice choice, Writer& w) const {
  if (operands_.empty()) return;
  const std::vector<TileLoop> loops = loop_list(choice);
  for (const TileOperand& operand : operands_) {
    if (value(choice, operand.decision) == 0) continue;
    const schedule::Layout layout = follow_loops(operand.access, loops);
    if (operand.constant) {
      w.layout(operand.access.buffer->name, layout);
      continue;
    }
    const std::string copy = w.cache_read(operand.access.buffer->name, name_);
    w.layout(copy, layout);
    write_copy(choice, operand, copy, w);
  }
}

void TilePart::write_copy(Choice choice, const TileOperand& operand, const std::string& copy,
                          Writer& w) const {
  const std::vector<std::int64_t>& shape = operand.access.buffer->shape;
  Panels panels{.name = copy, .loops = {}, .extents = shape};
  std::size_t contiguous = 0;
  double elements = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    panels.loops.push_back("d" + std::to_string(d));
    if (operand.access.indices[d].single_axis() == operand.panel_axis) panels.dim = d;
    if (shape[d] > 1) contiguous = d;
    elements *= static_cast<double>(shape[d]);
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (static_cast<int>(axes_[i].axis) == operand.panel_axis) panels.width = inner(choice, i);
  }
  panels.transposes = contiguous != panels.dim;
  if (panels.transposes) panels.step_dim = static_cast<int>(contiguous);
  const std::vector<OuterLoop> outer = write_panels(w, panels);
  if (target_.code_threads() > 1 && worth_threads(8 * elements))
    share_loops(w, copy, {outer[0].name}, 1);
}

void TilePart::split_reduce(Choice choice, Writer& w, TileLoops* loops) const {
  loops->reduce.assign(static_cast<std::size_t>(reduce_groups_), {});
  const std::vector<std::int64_t> steps = *unrolled(choice);
  for (const std::size_t i : reduce_order(choice)) {
    const TileAxis& a = reduce_[i];
    const std::int64_t length = reduce_length(choice, i);
    std::string loop = a.name;
    const bool whole = steps[i] == length;
    if (steps[i] > 1 && !whole) {
      const Loops parts = w.split(name_, loop, {steps[i]});
      loop = parts[0];
      loops->unrolled.push_back(parts[1]);
    }
    if (length < a.extent) {
      const std::int64_t block = whole ? length : length / steps[i];
      const Loops parts = w.split(name_, loop, {block}, schedule::Tail::kGuard);
      loops->reduce.front().push_back(parts[0]);
      loop = parts[1];
    }
    if (whole && steps[i] > 1) {
      loops->unrolled.push_back(loop);
    } else {
      loops->reduce.back().push_back(loop);
    }
  }
}

void TilePart::split_stage(Choice choice, Writer& w, TileLoops* loops) const {
  const auto groups = static_cast<std::size_t>(spatial_groups_);
  const auto outside = static_cast<std::size_t>(tiling_.fused);
  std::vector<Loops> parts(axes_.size());
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Lengths& all = tile(choice, i);
    const Lengths lengths(all.begin() + static_cast<std::ptrdiff_t>(outside), all.end());
    parts[i] = lengths.empty() ? Loops{axes_[i].name}
                               : w.split(name_, axes_[i].name, lengths, tail_of(choice, i));
  }
  loops->spatial.assign(groups, {});
  for (std::size_t g = outside; g < groups; ++g) {
    for (const std::size_t i : spatial_order(choice, g + 1 == groups))
      loops->spatial[g].push_back(parts[i][g - outside]);
  }
}

void TilePart::split_nest(Choice choice, Writer& w, std::vector<Loops>* groups) const {
  const auto outside = static_cast<std::size_t>(tiling_.fused);
  std::vector<Loops> parts(axes_.size());
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const Lengths& all = tile(choice, i);
    Lengths lengths(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(outside) - 1);
    const std::int64_t rest = product_from(all, outside - 1);
    if (i == vector_ && !in_registers()) {
      lengths.insert(lengths.end(), {rest / all.back(), all.back()});
    } else {
      lengths.push_back(rest);
    }
    parts[i] = w.split(outer_name(), axes_[i].nest_name, lengths, tail_of(choice, i));
  }
  groups->assign(outside + 1, {});
  for (std::size_t g = 0; g <= outside; ++g) {
    for (const std::size_t i : spatial_order(choice, g == outside)) {
      for (std::size_t p = g; p < parts[i].size() && (p == g || g == outside); ++p)
        (*groups)[g].push_back(parts[i][p]);
    }
  }
}

Loops TilePart::write_nest(Choice choice, Writer& w) const {
  std::vector<Loops> groups;
  split_nest(choice, w, &groups);
  Loops order = nest_units_;
  for (const Loops& g : groups) append(&order, g);
  w.reorder(outer_name(), order);
  const Loops& tile_loops = groups.back();
  if (in_registers()) {
    for (std::size_t i = 0; i + 1 < tile_loops.size(); ++i) w.unroll(outer_name(), tile_loops[i]);
  }
  w.vectorize(outer_name(), tile_loops.back());
  Loops ends = {share(choice, groups[0], w)};
  for (std::size_t g = 1; g + 1 < groups.size(); ++g) ends.push_back(groups[g].back());
  w.compute_at(name_, outer_name(), ends.back());
  return ends;
}

void TilePart::order_stage(Choice choice, const TileLoops& loops, Writer& w) const {
  static_cast<void>(choice);
  Loops order = units_;
  std::size_t s = 0, r = 0;
  for (const char letter : tiling_.structure) {
    if (letter == 'S') {
      append(&order, loops.spatial[s++]);
      continue;
    }
    append(&order, loops.reduce[r++]);
    if (r == loops.reduce.size()) append(&order, loops.unrolled);
  }
  w.reorder(name_, order);
  for (const std::string& loop : loops.unrolled) w.unroll(name_, loop);
  const Loops& tile_loops = loops.spatial.back();
  for (std::size_t i = 0; i + 1 < tile_loops.size(); ++i) w.unroll(name_, tile_loops[i]);
  w.vectorize(name_, tile_loops.back());
}

std::string TilePart::share(Choice choice, const Loops& group, Writer& w) const {
  return share_loops(w, outer_name(), group, static_cast<std::size_t>(value(choice, parallel_)))
      .back();
}

std::vector<Anchor> TilePart::write(Choice choice, const Anchor*, Writer& w) const {
  write_operands(choice, w);
  TileLoops loops;
  std::vector<Anchor> anchors;
  if (fused()) {
    for (const std::string& loop : write_nest(choice, w)) anchors.push_back({outer_name(), loop});
  }
  split_stage(choice, w, &loops);
  split_reduce(choice, w, &loops);
  order_stage(choice, loops, w);
  if (!fused()) {
    anchors.push_back({name_, share(choice, loops.spatial[0], w)});
    if (spatial_groups_ > 2) anchors.push_back({name_, loops.spatial[1].back()});
  }
  if (reduce_groups_ > 1) {
    const Loops& blocks = loops.reduce.front();
    anchors.push_back(blocks.empty() ? anchors.back() : Anchor{name_, blocks.back()});
  }
  return anchors;
}

}  // namespace tessera::space
