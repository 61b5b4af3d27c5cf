#include "tessera/space/transform.h"

#include <algorithm>
#include <map>

#include "tessera/arith/linear.h"
#include "tessera/ir/visitor.h"
#include "tessera/space/tile.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kMaxUnrolled = 8;

// The axis an expression stands for: the axis itself, or the axis modulo a constant.
struct Selector {
  std::size_t axis = 0;
  std::int64_t modulus = 0;  // 0: the axis itself
};

bool find_axis(const Stage& s, const ir::Expr& e, Selector* out) {
  ir::Expr value = e;
  out->modulus = 0;
  if (const auto mod = arith::match_const_op(e, ir::BinaryOp::kFloorMod)) {
    value = *mod->value;
    out->modulus = mod->divisor;
  }
  const arith::Linear sum = arith::to_linear(value);
  if (sum.terms.size() != 1 || sum.terms[0].coefficient != 1) return false;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (!s.op.axes[i].var.same_as(sum.terms[0].atom)) continue;
    out->axis = i;
    const std::int64_t count = out->modulus != 0 ? out->modulus : s.extent(i);
    return count <= kMaxUnrolled;
  }
  return false;
}

// Axis -> modulus (0: whole) of everything that selects or is taken modulo a small constant.
std::map<std::size_t, std::int64_t> selectors(const Stage& s, bool* selects) {
  std::map<std::size_t, std::int64_t> out;
  *selects = false;
  for (const ir::Expr& v : s.op.values) {
    ir::for_each_expr(v, [&](const ir::Expr& e) {
      const auto* b = e.as<ir::Binary>();
      if (!b) return;
      Selector found;
      if (b->op == ir::BinaryOp::kEq && ir::as_const_int(b->b) && find_axis(s, b->a, &found)) {
        out[found.axis] = found.modulus;
        *selects = true;
      } else if (b->op == ir::BinaryOp::kFloorMod && find_axis(s, e, &found)) {
        out[found.axis] = found.modulus;
      }
    });
  }
  return out;
}

}  // namespace

bool is_transform(const Stage& s) {
  if (s.reduces() || s.rank() < 2) return false;
  bool selects = false;
  const auto found = selectors(s, &selects);
  return selects && found.count(s.rank() - 1) == 0;
}

void schedule_transform(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  Writer& w = c.writer;
  const std::string& name = s.op.name;
  bool selects = false;
  const auto unrolled = selectors(s, &selects);
  std::vector<OuterLoop> outer;
  Loops inner;
  for (std::size_t i = 0; i + 1 < s.rank(); ++i) {
    const auto it = unrolled.find(i);
    const std::string& loop = s.axis_name(i);
    if (it == unrolled.end()) {
      outer.push_back({loop, s.extent(i), false});
    } else if (it->second == 0) {
      inner.push_back(loop);
    } else {
      const Loops parts = w.split(name, loop, {at_most(it->second, s.extent(i))});
      outer.push_back(
          {parts[0], (s.extent(i) + it->second - 1) / it->second, s.extent(i) % it->second != 0});
      inner.push_back(parts[1]);
    }
  }
  const std::size_t last = s.rank() - 1;
  const std::int64_t lanes = at_most(c.lanes(s.dtype()), s.extent(last));
  const Loops vector = w.split(name, s.axis_name(last), {lanes});
  const std::size_t limit = std::max<std::size_t>(1, outer.size());
  outer.push_back({vector[0], (s.extent(last) + lanes - 1) / lanes, s.extent(last) % lanes != 0});
  Loops order = names_of(outer);
  order.insert(order.end(), inner.begin(), inner.end());
  order.push_back(vector[1]);
  w.reorder(name, order);
  for (const std::string& loop : inner) w.unroll(name, loop);
  w.vectorize(name, vector[1]);
  outer =
      make_parallel(c, name, choose_sharing(c, name, s.elements() * (4 + s.cost)), outer, limit);
  c.done[stage] = true;
  for (std::size_t i = stage; i-- > 0;) {
    const Stage& p = c.stage(i);
    if (c.done[i] || p.output || p.users.size() != 1 || p.users[0] != stage || !is_transform(p))
      continue;
    w.compute_at(p.op.name, name, outer.back().name);
    for (std::size_t d = 0; d + 1 < p.rank(); ++d) w.unroll(p.op.name, p.axis_name(d));
    w.vectorize(p.op.name, p.axis_name(p.rank() - 1));
    c.done[i] = true;
  }
}

}  // namespace tessera::space
