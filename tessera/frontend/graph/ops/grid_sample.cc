// grid_sample {mode, padding, align_corners, pixels} x[N, C, D1..Dr], grid[N, O1..Or, r]: reads x
// at points in [-1, 1] per axis, or at pixels; the grid lists the last axis of x first. Modes
// nearest, linear, cubic; padding zeros, border, reflection.
#include <algorithm>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> grid_ops();

namespace {

using Buffers = std::vector<ir::Buffer>;

constexpr double kCubicA = -0.75;

bool is_one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return word == w; });
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const Shape &x = node.shape(0), &grid = node.shape(1);
  const std::size_t rank = x.size() < 3 ? 0 : x.size() - 2;
  const bool fits = rank > 0 && grid.size() == rank + 2 && grid[0] == x[0] &&
                    grid.back() == static_cast<std::int64_t>(rank) && is_float(node.dtype(0)) &&
                    is_float(node.dtype(1));
  if (!fits) {
    return bad_operand("grid {} for {}", to_text(*node.types[1]), to_text(*node.types[0]));
  }
  if (!is_one_of(node.attrs.word("mode"), {"nearest", "linear", "cubic"}))
    return bad_operand("mode '{}' is not nearest, linear or cubic", node.attrs.word("mode"));
  if (!is_one_of(node.attrs.word("padding"), {"zeros", "border", "reflection"}))
    return bad_operand("padding '{}' is not zeros, border or reflection",
                       node.attrs.word("padding"));
  Shape shape = {x[0], x[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  if (elements(shape) != 0 && elements(x) == 0) return bad_operand("samples of an empty image");
  return single_type(node.dtype(0), std::move(shape));
}

struct Sampler {
  std::string mode, padding;
  bool align, pixels;
  DType t;     // of coordinates, weights and sums
  Shape size;  // spatial

  ir::Expr number(double v) const { return ir::imm(t, v); }

  // Coordinate in pixels of grid value v along axis d, brought inside as the padding says.
  ir::Expr coordinate(const ir::Expr& v, std::size_t d) const {
    const double n = static_cast<double>(size[d]);
    const double lo = align ? 0 : -0.5, hi = align ? n - 1 : n - 0.5;
    ir::Expr x = pixels  ? v
                 : align ? (v + number(1)) * number((n - 1) / 2)
                         : (v + number(1)) * number(n / 2) - number(0.5);
    if (mode == "nearest") x = ir::call(ir::Intrinsic::kRound, {x});
    // Of a point beyond the border each cubic tap is brought inside by itself, not the point; from
    // three pixels on all taps are the same, and integers hold the number.
    if (mode == "cubic" && padding != "reflection")
      return ir::min(ir::max(x, number(-3)), number(n + 2));
    const ir::Expr outside = ir::logical_or(ir::lt(x, number(lo)), ir::lt(number(hi), x));
    if (padding == "border")
      return ir::select(outside, ir::min(ir::max(x, number(0)), number(n - 1)), x);
    if (padding == "reflection") {
      if (hi == lo) return number(0);
      const double period = 2 * (hi - lo);
      const ir::Expr u = x - number(lo);
      const ir::Expr turns =
          ir::call(ir::Intrinsic::kFloor, {ir::div(u, number(period))}) * number(period);
      const ir::Expr r = u - turns;
      return ir::select(outside, ir::min(r, number(period) - r) + number(lo), x);
    }
    return x;
  }

  // Pixel of integer position p along axis d, which may lie outside: -1 where zeros are there.
  ir::Expr pixel(const ir::Expr& p, std::size_t d) const {
    const std::int64_t n = size[d];
    const ir::Expr zero = ir::int_imm(0), last = ir::int_imm(n - 1);
    if (padding == "zeros") {
      const ir::Expr here = ir::logical_and(ir::le(zero, p), ir::le(p, last));
      return ir::select(here, p, ir::int_imm(-1));
    }
    if (padding == "reflection" && n > 1) {
      const std::int64_t period = align ? 2 * (n - 1) : 2 * n;
      const ir::Expr q = ir::floor_mod(p, ir::int_imm(period));
      return ir::min(q, ir::int_imm(align ? period : period - 1) - q);
    }
    return ir::min(ir::max(p, zero), last);
  }

  // Weight of tap number k (an i64 expression) at fraction f.
  ir::Expr weight(const ir::Expr& f, const ir::Expr& k) const {
    const ir::Expr one = number(1);
    if (mode == "linear") return ir::select(ir::eq(k, ir::int_imm(0)), one - f, f);
    // |f - (k - 1)| lies in [0, 1] for the middle taps and in [1, 2] for the outer ones.
    const ir::Expr s = ir::call(ir::Intrinsic::kAbs, {f - (ir::cast(t, k) - one)});
    const ir::Expr a = number(kCubicA);
    const ir::Expr near = ((a + number(2)) * s - (a + number(3))) * s * s + one;
    const ir::Expr far =
        ((a * s - number(5 * kCubicA)) * s + number(8 * kCubicA)) * s - number(4 * kCubicA);
    return ir::select(ir::le(s, one), near, far);
  }

  std::int64_t taps() const { return mode == "nearest" ? 1 : mode == "linear" ? 2 : 4; }
};

// What all channels have in common, for one axis of x: pixels and weights [taps, N, O...].
struct Taps {
  ir::Buffer pixel, weight;
};

Taps taps_along(te::DagBuilder& b, const std::string& name, const Sampler& s,
                const ir::Buffer& grid, std::size_t d) {
  const std::size_t rank = s.size.size();
  const Shape points(grid->shape.begin(), grid->shape.end() - 1);
  const ir::Buffer at =
      b.compute(fmt::format("{}.at{}", name, d), axes_over(points), [&](const te::Indices& i) {
        te::Indices from = i;
        from.push_back(ir::int_imm(static_cast<std::int64_t>(rank - 1 - d)));
        const ir::Expr v = te::at(grid, from);
        return s.coordinate(v.dtype() == s.t ? v : ir::cast(s.t, v), d);
      });
  Shape all = points;
  all.insert(all.begin(), s.taps());
  const auto low = [&](const te::Indices& i) {
    return ir::call(ir::Intrinsic::kFloor, {te::at(at, {i.begin() + 1, i.end()})});
  };
  Taps out;
  out.pixel =
      b.compute(fmt::format("{}.pixel{}", name, d), axes_over(all), [&](const te::Indices& i) {
        const ir::Expr p = ir::cast(DType::kI64, low(i));
        return s.pixel(s.taps() > 1 ? p + i[0] - (s.taps() / 2 - 1) : p, d);
      });
  if (s.taps() == 1) return out;
  out.weight =
      b.compute(fmt::format("{}.weight{}", name, d), axes_over(all), [&](const te::Indices& i) {
        return s.weight(te::at(at, {i.begin() + 1, i.end()}) - low(i), i[0]);
      });
  return out;
}

// One tap of one element; `k` has one index per axis.
ir::Expr tap(const Sampler& s, const ir::Buffer& x, const std::vector<Taps>& taps,
             const te::Indices& i, const te::Indices& k) {
  te::Indices from = {i[0], i[1]};
  ir::Expr inside, weight;
  for (std::size_t d = 0; d < taps.size(); ++d) {
    te::Indices where = {k.empty() ? ir::int_imm(0) : k[d], i[0]};
    where.insert(where.end(), i.begin() + 2, i.end());
    ir::Expr pixel = te::at(taps[d].pixel, where);
    if (s.padding == "zeros") {
      const ir::Expr here = ir::le(ir::int_imm(0), pixel);
      inside = inside ? ir::logical_and(inside, here) : here;
      // No place outside of x: nothing has to wait for the condition.
      pixel = ir::min(ir::max(pixel, ir::int_imm(0)), ir::int_imm(s.size[d] - 1));
    }
    from.push_back(pixel);
    if (!taps[d].weight) continue;
    const ir::Expr w = te::at(taps[d].weight, where);
    weight = weight ? weight * w : w;
  }
  ir::Expr value = te::at(x, from);
  if (value.dtype() != s.t) value = ir::cast(s.t, value);
  if (weight) value = value * weight;
  return inside ? ir::select(inside, value, s.number(0)) : value;
}

Result<Buffers> define(te::DagBuilder& b, const std::string& name, const NodeView& node,
                       const Buffers& in) {
  const Shape& x = node.shape(0);
  const DType t = node.dtype(0);
  const Sampler s{node.attrs.word("mode"),
                  node.attrs.word("padding"),
                  node.attrs.integer("align_corners") != 0,
                  node.attrs.integer("pixels", 0) != 0,
                  compute_type(t),
                  Shape(x.begin() + 2, x.end())};
  TESSERA_TRY(const std::vector<TensorType> types, infer(node));
  std::vector<Taps> taps;
  te::NamedAxes tap_axes;
  for (std::size_t d = 0; d < s.size.size(); ++d) {
    taps.push_back(taps_along(b, name, s, in[1], d));
    tap_axes.emplace_back(fmt::format("k{}", d), s.taps());
  }
  const auto term = [&](const te::Indices& i, const te::Indices& k) {
    return tap(s, in[0], taps, i, k);
  };
  const te::NamedAxes axes = axes_over(types[0].shape);
  const bool cast = s.t != t;
  const ir::Buffer sum =
      s.taps() == 1
          ? b.compute(cast ? name + ".sum" : name, axes,
                      [&](const te::Indices& i) { return term(i, {}); })
          : b.reduce(cast ? name + ".sum" : name, te::Reducer::kSum, axes, tap_axes, term);
  if (!cast) return Buffers{sum};
  return Buffers{
      b.compute(name, axes, [&](const te::Indices& i) { return ir::cast(t, te::at(sum, i)); })};
}

}  // namespace

std::vector<OpDef> grid_ops() { return {{"grid_sample", Fusion::kWindow, infer, define}}; }

}  // namespace tessera::graph
