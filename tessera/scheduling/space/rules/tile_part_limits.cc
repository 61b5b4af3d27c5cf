// What a tiling may be.
#include <algorithm>

#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/rules/tile_part.h"

namespace tessera::space {
namespace {

std::int64_t product_from(const Lengths& lengths, std::size_t from) {
  std::int64_t out = 1;
  for (std::size_t i = from; i < lengths.size(); ++i) out *= lengths[i];
  return out;
}

// Full vectors, then one for each power of two of the rest.
std::int64_t vectors_of(std::int64_t length, int lanes) {
  std::int64_t out = length / lanes;
  for (std::int64_t rest = length % lanes; rest > 0; rest &= rest - 1) ++out;
  return out;
}

// Copies of the innermost body when every level of a split is peeled.
std::int64_t peeled_copies(std::int64_t extent, const Lengths& lengths, std::size_t from) {
  if (extent == 0) return 0;
  if (from == lengths.size()) return 1;
  const std::int64_t part = product_from(lengths, from);
  return (extent >= part ? 1 : 0) + peeled_copies(extent % part, lengths, from + 1);
}

}  // namespace

void TilePart::add_facts() {
  facts_.assign(axes_.size(), {});
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const std::int64_t extent = axes_[i].extent;
    for (const Lengths& lengths : points_[axes_[i].decision].values) {
      const std::int64_t inner = lengths.back();
      const bool exact = extent % product_from(lengths, 0) == 0;
      const std::size_t local =
          fused() ? static_cast<std::size_t>(tiling_.fused) - 1 : lengths.size();
      facts_[i].push_back({.inner = i == vector_ ? vectors_of(inner, lanes_) : inner,
                           .local = product_from(lengths, local),
                           .copies = exact ? 1 : peeled_copies(extent, lengths, 0),
                           .exact = exact,
                           .whole = extent % inner == 0});
    }
  }
  const auto& tails = points_[tail_].values;
  may_bound_ = std::any_of(tails.begin(), tails.end(), [](const auto& v) { return v[0] == 1; });
  least_vectors_.clear();
  const auto below = [](const Extent& a, const Extent& b) {
    return a.vectors <= b.vectors && a.local <= b.local && a.copies <= b.copies;
  };
  for (const TileFacts& f : facts_[vector_]) {
    const Extent tile = with({}, vector_, f);
    if (std::any_of(least_vectors_.begin(), least_vectors_.end(),
                    [&](const Extent& least) { return below(least, tile); }))
      continue;
    std::erase_if(least_vectors_, [&](const Extent& least) { return below(tile, least); });
    least_vectors_.push_back(tile);
  }
}

TilePart::Extent TilePart::with(const Extent& tile, std::size_t axis, const TileFacts& f) const {
  Extent out = tile;
  (axis == vector_ ? out.vectors : out.rows) *= f.inner;
  out.local *= f.local;
  out.copies *= best_copies(f);
  return out;
}

const char* TilePart::refuse_tile(const Extent& tile) const {
  if (tile.local * size_bytes(stage().dtype()) > limits::kLocalBytes)
    return "the local result takes more than 4 MiB";
  if (!limits::fits_registers(target_, tile.rows, tile.vectors))
    return "the tile exceeds the registers";
  const std::int64_t body = tile.rows * tile.vectors * limits::length_of(stage().nodes);
  const bool fits = body <= limits::kTileBody &&
                    (body + limits::kTileLoops) * with_conditions(tile.copies) <= limits::kTileCode;
  return fits ? nullptr : "too much code";
}

// Of rows not decided yet, one each is the least in every respect: tiles of one element have no
// tail. Of vectors there may be several such values.
const char* TilePart::refuse_axis(Choice choice, std::size_t axis, std::int32_t value) const {
  Extent tile;
  for (std::size_t i = 0; i < axis; ++i) tile = with(tile, i, facts(choice, i));
  tile = with(tile, axis, facts_[axis][static_cast<std::size_t>(value)]);
  if (axis >= vector_) return refuse_tile(tile);
  const char* reason = nullptr;
  for (const Extent& least : least_vectors_) {
    reason = refuse_tile({.rows = tile.rows,
                          .vectors = least.vectors,
                          .local = tile.local * least.local,
                          .copies = tile.copies * least.copies});
    if (!reason) return nullptr;
  }
  return reason;
}

const char* TilePart::refuse_unroll(Choice choice) const {
  if (!unrolled(choice).ok())
    return "this many steps cannot be unrolled in blocks of the reduction";
  std::int64_t copies = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) copies *= best_copies(facts(choice, i));
  return refuse_code(choice, with_conditions(copies));
}

const char* TilePart::refuse_code(Choice choice, std::int64_t copies) const {
  const bool fits = body(choice) <= limits::kTileBody && code(choice, copies) <= limits::kTileCode;
  return fits ? nullptr : "too much code";
}

const char* TilePart::refuse_parallel(Choice choice, bool bounds) const {
  const auto depth = static_cast<std::size_t>(value(choice, parallel_));
  if (depth < 2) return nullptr;
  const std::vector<std::size_t> order = spatial_order(choice, false);
  const bool fuses = std::all_of(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(depth),
                                 [&](std::size_t i) {
                                   const TileFacts& f = facts(choice, i);
                                   return f.exact || (bounds && f.whole);
                                 });
  return fuses ? nullptr : "a loop with a shorter last iteration cannot be fused";
}

void TilePart::walk(std::span<std::int32_t> choice, const Place&, Asker& asker) const {
  const auto ask = [&](std::size_t d, const auto& refusal) { choice[d] = asker.ask(d, refusal); };
  const auto ask_with = [&](std::size_t d, const auto& refusal) {
    const std::int32_t before = choice[d];
    const auto tried = [&](std::int32_t value) -> const char* {
      choice[d] = value;
      const char* reason = refusal(Choice(choice));
      choice[d] = before;
      return reason;
    };
    ask(d, tried);
  };
  const auto free = [](std::int32_t) -> const char* { return nullptr; };
  for (std::size_t i = 0; i < axes_.size(); ++i)
    ask(axes_[i].decision, [&](std::int32_t v) { return refuse_axis(choice, i, v); });
  // One step of the reduction at a time is legal whatever its blocks.
  for (const TileAxis& a : reduce_) {
    if (reduce_groups_ > 1) ask(a.decision, free);
  }
  for (const TileOperand& operand : operands_) ask(operand.decision, free);
  ask(order_, free);
  ask(reduce_order_, free);
  ask_with(unroll_, [&](Choice c) { return refuse_unroll(c); });
  ask_with(parallel_, [&](Choice c) { return refuse_parallel(c, may_bound_); });
  bool bounded = false;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    bounded = bounded || (!facts(choice, i).exact && facts(choice, i).whole);
  if (!bounded) return;
  ask_with(tail_, [&](Choice c) {
    const char* reason = refuse_parallel(c, value(c, tail_) == 1);
    return reason ? reason : refuse_code(c, copies(c));
  });
}

std::int64_t TilePart::copies_of(Choice choice, std::size_t i) const {
  const TileFacts& f = facts(choice, i);
  return value(choice, tail_) == 1 && f.whole ? 1 : f.copies;
}

std::int64_t TilePart::body(Choice choice) const {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) out *= facts(choice, i).inner;
  const auto steps = unrolled(choice);
  for (std::size_t i = 0; steps.ok() && i < steps->size(); ++i) out *= (*steps)[i];
  return out * limits::length_of(stage().nodes);
}

std::int64_t TilePart::code(Choice choice, std::int64_t copies) const {
  std::int64_t out = (body(choice) + limits::kTileLoops) * copies;
  const auto steps = unrolled(choice);
  for (std::size_t i = 0; steps.ok() && i < steps->size(); ++i) {
    if (reduce_length(choice, i) % (*steps)[i] != 0) out *= 2;
  }
  return out;
}

std::int64_t TilePart::code(Choice choice) const { return code(choice, copies(choice)); }

std::int64_t TilePart::copies(Choice choice) const {
  std::int64_t out = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i) out *= copies_of(choice, i);
  return with_conditions(out);
}

std::int64_t TilePart::with_conditions(std::int64_t copies) const {
  const auto& reads = stage().reads;
  const bool conditional =
      std::any_of(reads.begin(), reads.end(), [](const Access& r) { return r.conditional; });
  return conditional ? copies * padding_copies(static_cast<std::size_t>(spatial_groups_) - 1)
                     : copies;
}

}  // namespace tessera::space
