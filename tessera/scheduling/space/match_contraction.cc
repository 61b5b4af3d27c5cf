#include <algorithm>
#include <cstdlib>

#include "tessera/scheduling/space/contraction.h"

namespace tessera::space {
namespace {

// Long rows make good tiles; the innermost of them walks through memory.
int choose_row(const Stage& s, const std::vector<std::size_t>& candidates) {
  int best = -1;
  for (const std::size_t i : candidates) {
    const bool longer =
        best < 0 || s.extent(i) >= 4 || s.extent(i) > s.extent(static_cast<std::size_t>(best));
    if (longer) best = static_cast<int>(i);
  }
  return best;
}

void assign_roles(const Stage& s, Contraction* c) {
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (i == c->vector) continue;
    const bool in_a = c->a.uses(i), in_b = c->b.uses(i);
    if (s.extent(i) == 1 || (!in_a && !in_b)) {
      c->units.push_back(i);
    } else if (in_a && in_b) {
      c->batch.push_back(i);
    } else {
      (in_a ? c->rows : c->columns).push_back(i);
    }
  }
  c->row = choose_row(s, c->rows);
  if (c->row < 0) return;
  c->rows.erase(std::find(c->rows.begin(), c->rows.end(), static_cast<std::size_t>(c->row)));
}

// An axis of extent 1 that is not used yet, for a dimension that is read at index 0; -1: none.
int unit_axis(const Stage& nest, const std::vector<bool>& used) {
  for (std::size_t i = 0; i < nest.rank(); ++i) {
    if (!used[i] && nest.extent(i) == 1) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

std::optional<Nest> find_nest(const Analysis& analysis, std::size_t stage, bool spreads) {
  constexpr std::int64_t kMostSpread = 4;
  const Stage& s = analysis.stages[stage];
  if (s.output || s.users.size() != 1 || s.op.outputs.size() != 1) return std::nullopt;
  Nest nest{.stage = s.users[0], .axis = {}};
  const Stage& h = analysis.stages[nest.stage];
  if (h.reduces()) return std::nullopt;
  for (const Access& read : h.reads) {
    if (read.buffer != s.op.outputs[0]) continue;
    std::vector<std::size_t> axis;
    std::vector<bool> used(h.rank(), false);
    for (std::size_t d = 0; d < s.rank(); ++d) {
      int a = read.indices[d].single_axis();
      if (a < 0 && s.extent(d) == 1) a = unit_axis(h, used);
      if (a < 0 || used[static_cast<std::size_t>(a)]) return std::nullopt;
      if (h.extent(static_cast<std::size_t>(a)) != s.extent(d)) return std::nullopt;
      used[static_cast<std::size_t>(a)] = true;
      axis.push_back(static_cast<std::size_t>(a));
    }
    for (std::size_t i = 0; i < h.rank(); ++i) {
      if (used[i] || h.extent(i) == 1) continue;
      if (!spreads || i > 0 || h.extent(i) > kMostSpread) return std::nullopt;
      nest.spread = {i};
    }
    if (!nest.axis.empty() && nest.axis != axis) return std::nullopt;
    nest.axis = std::move(axis);
  }
  return nest.axis.empty() ? std::nullopt : std::optional<Nest>(std::move(nest));
}

namespace {

// Windows as wide as this leave enough registers to their sums.
constexpr std::int64_t kFewShared = 3;

// The next row reads what a later step along the reduce axis reads of this one, of many.
bool shared_by_rows(const Stage& s, const Contraction& c, const Access& given, std::size_t axis) {
  if (c.row < 0) return false;
  const std::int64_t row = given.strides[static_cast<std::size_t>(c.row)];
  const std::int64_t step = given.strides[axis];
  return row > 0 && step > 0 && row % step == 0 && row / step < s.extent(axis) &&
         s.extent(axis) > kFewShared;
}

}  // namespace

std::optional<Contraction> match_contraction(const Analysis& analysis, std::size_t stage,
                                             std::size_t vector) {
  const Stage& s = analysis.stages[stage];
  Product product;
  if (!match_product(s.op, analysis.inputs, &product) || s.rank() == 0 ||
      s.op.reduce_axes.empty() || s.reads.size() != product.left.reads + product.right.reads) {
    return std::nullopt;
  }
  const std::size_t left = product.left.at, right = product.left.reads + product.right.at;
  Contraction c{.stage = stage, .a = s.reads[left], .b = s.reads[right], .vector = vector};
  if (c.a.uses(vector) == c.b.uses(vector)) return std::nullopt;
  for (std::size_t i = 0; i < s.reads.size(); ++i) {
    const bool known = std::any_of(c.scales.begin(), c.scales.end(), [&](const Access& scale) {
      return scale.buffer == s.reads[i].buffer;
    });
    if (i != left && i != right && !known) c.scales.push_back(s.reads[i]);
  }
  if (c.a.uses(vector)) std::swap(c.a, c.b);
  assign_roles(s, &c);
  for (std::size_t i = s.rank(); i < s.axis_count(); ++i) c.reduce.push_back(i);
  // The innermost reduce loop walks through memory where the order of storage is given.
  const Access& given = analysis.constant(c.a.buffer) ? c.b : c.a;
  const std::vector<std::size_t> declared = c.reduce;
  std::stable_sort(c.reduce.begin(), c.reduce.end(), [&](std::size_t x, std::size_t y) {
    return std::abs(given.strides[x]) > std::abs(given.strides[y]);
  });
  // Steps that share elements with neighbouring rows would keep them all in registers when they are
  // unrolled: of an image whose channels come first, the window innermost.
  if (shared_by_rows(s, c, given, c.reduce.back()) &&
      !shared_by_rows(s, c, given, declared.back()) && s.extent(declared.back()) > 1)
    c.reduce = declared;
  return c;
}

}  // namespace tessera::space
