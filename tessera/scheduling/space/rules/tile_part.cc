#include "tessera/scheduling/space/rules/tile_part.h"

#include <algorithm>
#include <cstdlib>

#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

std::int64_t product(const Lengths& lengths, std::size_t from = 0) {
  std::int64_t out = 1;
  for (std::size_t i = from; i < lengths.size(); ++i) out *= lengths[i];
  return out;
}

// One or two lengths: the tile in registers and, outside of it, few blocks.
std::vector<Lengths> small_tiles(std::int64_t extent, int count,
                                 const std::vector<std::int64_t>& inner) {
  std::vector<Lengths> out;
  for (const std::int64_t n : inner) {
    if (count == 1) out.push_back({n});
    for (const std::int64_t blocks : {1, 4, 16}) {
      if (count == 2 && (blocks == 1 || blocks * n < 2 * extent)) out.push_back({blocks, n});
    }
  }
  return out;
}

}  // namespace

int vector_axis(const Analysis& analysis, std::size_t stage, const std::optional<Nest>& nest) {
  const Stage& s = analysis.stages[stage];
  int best = -1;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (s.extent(i) <= 1) continue;
    const bool later =
        best < 0 || !nest || nest->axis[i] > nest->axis[static_cast<std::size_t>(best)];
    if (later) best = static_cast<int>(i);
  }
  return best;
}

TilePart::TilePart(std::shared_ptr<const Analysis> analysis, const target::Target& target,
                   std::size_t stage, std::optional<Nest> nest, Tiling tiling)
    : analysis_(std::move(analysis)), target_(target), stage_(stage), tiling_(std::move(tiling)) {
  for (const char c : tiling_.structure) ++(c == 'S' ? spatial_groups_ : reduce_groups_);
  const Stage& s = this->stage();
  name_ = s.op.name;
  if (tiling_.cache_write) {
    name_ += ".local";
    nest.reset();
  }
  if (nest && fused()) {
    nest_ = *nest;
  } else {
    nest_.stage = stage_;
    for (std::size_t i = 0; i < s.rank(); ++i) nest_.axis.push_back(i);
  }
  lanes_ = std::max(1, target_.vector_bytes / size_bytes(s.dtype()));
  add_axes();
  add_reduce_axes();
  add_operands();
  add_rest();
  add_facts();
  mend_preferred();
}

void TilePart::mend_preferred() {
  std::vector<std::int32_t> choice = preferred();
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (i != vector_) order.push_back(axes_[i].decision);
  }
  order.push_back(axes_[vector_].decision);
  // Values before the preferred one have shorter innermost tiles, or fewer blocks.
  for (const std::size_t d : order) {
    while (choice[d] > 0 && !legal(choice)) --choice[d];
    points_[d].preferred = choice[d];
  }
}

const std::string& TilePart::outer_name() const { return fused() ? nest().op.name : name_; }

std::size_t TilePart::depth_of(std::size_t stage) const {
  if (stage == stage_) return anchor_names_.size();
  return static_cast<std::size_t>(tiling_.fused);
}

std::vector<std::int64_t> TilePart::inner_lengths(std::size_t axis) const {
  const Stage& s = stage();
  const std::int64_t extent = s.extent(axis);
  if (axis == axes_[vector_].axis) {
    // Beyond four vectors nothing but registers is used up.
    const std::int64_t most = tiling_.small ? 4 * lanes_ : std::max(64, 4 * lanes_);
    return vector_lengths(extent, lanes_, most);
  }
  // Rows pay where an operand does not have them.
  const bool reused =
      std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& r) { return !r.uses(axis); });
  if (!reused) return {1};
  if (!tiling_.small) return row_lengths(extent);
  std::vector<std::int64_t> out;
  for (const std::int64_t n : {1, 2, 4, 6, 7, 8, 12, 14}) {
    if (n <= extent) out.push_back(n);
  }
  return out;
}

void TilePart::add_axes() {
  const Stage& s = stage();
  std::vector<bool> mapped(nest().rank(), false);
  for (std::size_t i = 0; i < s.rank(); ++i) {
    const std::string& nest_name = nest().axis_name(nest_.axis[i]);
    mapped[nest_.axis[i]] = true;
    if (s.extent(i) == 1) {
      units_.push_back(s.axis_name(i));
      nest_units_.push_back(nest_name);
    } else {
      axes_.push_back({s.axis_name(i), nest_name, i, s.extent(i)});
    }
  }
  for (std::size_t i = 0; i < nest().rank(); ++i) {
    if (!mapped[i]) nest_units_.push_back(nest().axis_name(i));
  }
  const int vector =
      vector_axis(*analysis_, stage_, fused() ? std::optional<Nest>(nest_) : std::nullopt);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (static_cast<int>(axes_[i].axis) == vector) vector_ = i;
  }
  // The rows of the preferred tile come from the axis before the vectors.
  const std::size_t row = vector_ > 0 ? vector_ - 1 : axes_.size() - 1;
  std::int64_t depth = 1;
  for (const te::Axis& a : s.op.reduce_axes) depth *= std::max<std::int64_t>(1, a.extent);
  const bool has_row = row != vector_ && inner_lengths(axes_[row].axis).size() > 1;
  const RegisterTile best = choose_tile({.rows = has_row ? axes_[row].extent : 1,
                                         .columns = axes_[vector_].extent,
                                         .depth = depth,
                                         .lanes = lanes_,
                                         .packed = false},
                                        target_);
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    TileAxis& a = axes_[i];
    const std::vector<std::int64_t> inner = inner_lengths(a.axis);
    Point d{.name = s.op.name + "." + a.name, .kind = PointKind::kTile, .values = {}, .labels = {}};
    d.values = tiling_.small ? small_tiles(a.extent, spatial_groups_ - 1, inner)
                             : tile_values(a.extent, spatial_groups_ - 1, inner);
    const std::int64_t wanted = i == vector_          ? best.vectors * lanes_
                                : i == row && has_row ? best.rows
                                                      : 1;
    for (std::size_t v = 0; v < d.values.size(); ++v) {
      const bool simple = product(d.values[v]) == d.values[v].back();
      if (simple && d.values[v].back() <= wanted) d.preferred = static_cast<std::int32_t>(v);
    }
    a.decision = add(std::move(d));
  }
}

void TilePart::add_reduce_axes() {
  const Stage& s = stage();
  for (std::size_t i = s.rank(); i < s.axis_count(); ++i) {
    TileAxis a{s.axis_name(i), "", i, s.extent(i)};
    if (a.extent == 1) {
      units_.push_back(a.name);
      continue;
    }
    if (reduce_groups_ > 1) {
      // A block of all iterations leaves nothing outside. Small windows stay whole.
      std::vector<std::int64_t> lengths = block_lengths(a.extent);
      if (a.extent > 7) std::erase_if(lengths, [](std::int64_t n) { return n < 4; });
      if (tiling_.small) {
        std::erase_if(lengths, [&](std::int64_t n) {
          return n != a.extent && n != 64 && n != 128 && n != 256;
        });
      }
      a.decision =
          add(number_decision(s.op.name + "." + a.name, PointKind::kTile, lengths, a.extent));
    }
    reduce_.push_back(a);
  }
  for (std::size_t i = 0; i < reduce_.size(); ++i) memory_order_.push_back(i);
  // The operand whose storage is given decides.
  const Access* given = nullptr;
  for (const Access& r : s.reads) {
    if (!given || analysis_->constant(given->buffer)) given = &r;
  }
  if (!given) return;
  std::stable_sort(memory_order_.begin(), memory_order_.end(), [&](std::size_t x, std::size_t y) {
    return std::abs(given->strides[reduce_[x].axis]) > std::abs(given->strides[reduce_[y].axis]);
  });
}

void TilePart::add_operands() {
  const Stage& s = stage();
  for (const Access& read : s.reads) {
    const auto same = std::count_if(s.reads.begin(), s.reads.end(),
                                    [&](const Access& r) { return r.buffer == read.buffer; });
    if (same == 1 && can_follow_loops(read)) add_operand(read);
  }
}

void TilePart::add_operand(const Access& access) {
  const std::size_t along = axes_[vector_].axis;
  const bool constant = analysis_->constant(access.buffer);
  TileOperand operand{.access = access, .constant = constant};
  // Vectors are read from neighbouring elements or not at all.
  const bool scattered = access.uses(along) && access.strides[along] != 1;
  for (const TileAxis& a : axes_) {
    if (access.uses(a.axis) && operand.panel_axis != static_cast<int>(along))
      operand.panel_axis = static_cast<int>(a.axis);
  }
  double reuse = 1;
  for (const TileAxis& a : axes_) {
    if (!access.uses(a.axis)) reuse *= static_cast<double>(a.extent);
  }
  if (!constant && (operand.panel_axis < 0 || (reuse < 4 && !scattered))) return;
  if (!constant && analysis_->producer(access.buffer) >= 0 && !scattered) return;
  std::vector<std::string> words = {constant ? "given" : "none", constant ? "tiles" : "copy"};
  if (scattered) words.erase(words.begin());
  const bool pack = scattered || constant || access.uses(along);
  Point d = word_decision(stage().op.name + "." + access.buffer->name,
                          constant ? PointKind::kLayout : PointKind::kCache, words);
  if (scattered) d.values = {{1}};
  d.preferred = pack && !scattered ? 1 : 0;
  operand.decision = add(std::move(d));
  operands_.push_back(std::move(operand));
}

void TilePart::add_rest() {
  const std::string& name = stage().op.name;
  std::vector<std::string> orders = {"written"};
  if (axes_.size() > 1) orders.push_back("vectors_first");
  order_ = add(word_decision(name + ".order", PointKind::kOrder, orders));
  std::vector<std::string> reduce_orders = {"memory"};
  if (!std::is_sorted(memory_order_.begin(), memory_order_.end()))
    reduce_orders.push_back("written");
  reduce_order_ = add(word_decision(name + ".reduce_order", PointKind::kOrder, reduce_orders));
  std::vector<std::int64_t> steps = {1, 2, 4, 8};
  std::int64_t window = 1;
  for (const TileAxis& a : reduce_) {
    if (a.extent <= 8 && window * a.extent <= 64) window *= a.extent;
  }
  if (window > 1) steps.push_back(window);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  unroll_ = add(number_decision(name + ".unroll", PointKind::kUnroll, steps, 1));
  std::vector<std::int64_t> depths;
  for (std::size_t i = 0; i <= axes_.size(); ++i) depths.push_back(static_cast<std::int64_t>(i));
  if (target_.code_threads() == 1) depths.resize(1);
  const bool worth = worth_threads(2 * stage().iterations());
  parallel_ = add(number_decision(name + ".parallel", PointKind::kParallel, depths, worth ? 1 : 0));
  const bool odd =
      std::any_of(axes_.begin(), axes_.end(), [](const TileAxis& a) { return a.extent > 3; });
  std::vector<std::string> tails = {"copies"};
  if (odd) tails.push_back("bounds");
  tail_ = add(word_decision(name + ".tail", PointKind::kTail, tails));
  anchor_names_ = {"outer"};
  const int levels = fused() ? tiling_.fused : spatial_groups_ - 1;
  if (levels > 1) anchor_names_.push_back("middle");
  if (reduce_groups_ > 1) anchor_names_.push_back("reduce");
}

}  // namespace tessera::space
