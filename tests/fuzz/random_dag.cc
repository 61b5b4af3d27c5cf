#include "random_dag.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/lang/te/builder.h"
#include "tests/testing/testing.h"

namespace tessera::fuzz {
namespace {

using ir::Expr;

constexpr std::int64_t kMaxPoints = 3000;  // iterations of one operation
constexpr double kMaxMagnitude = 100;      // of float values; f16 sums of them stay finite

struct Tensor {
  ir::Buffer buffer;
  bool exact = true;       // an input or computed in integers: no rounding yet
  double magnitude = 1;    // bound of |value| for floats
  std::int64_t limit = 0;  // index inputs: values are in 0..limit-1
};

struct Value {
  Expr expr;
  bool exact = true;
  double magnitude = 1;
};

struct Axis {
  Expr var;
  std::int64_t extent;
};

class DagDrawer {
 public:
  explicit DagDrawer(Rng& rng) : rng_(rng), builder_("fuzz") {
    constexpr std::int64_t kExtents[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17};
    for (int i = 0; i < 4; ++i) pool_.push_back(kExtents[rng_.below(std::size(kExtents))]);
    float_type_ =
        pick({DType::kF32, DType::kF32, DType::kF32, DType::kF64, DType::kF16, DType::kBF16});
    int_type_ = pick({DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kI32,
                      DType::kU32, DType::kI64, DType::kU64});
    float_share_ = pick({0.0, 0.5, 1.0});
  }

  RandomDag run() {
    const std::int64_t n = rng_.between(1, 4);
    for (std::int64_t i = 0; i < n; ++i) draw_op(fmt::format("s{}", i));
    RandomDag out;
    out.dag = builder_.build(outputs());
    for (const te::Input& in : out.dag.inputs) out.inputs.push_back(input_values(in.buffer));
    for (const te::Op& op : out.dag.ops) {
      for (const ir::Buffer& b : op.outputs) {
        double length = 4;
        for (const te::Axis& a : op.reduce_axes) length *= static_cast<double>(a.extent);
        const double one = testing::tolerance(b->dtype, static_cast<std::int64_t>(length));
        out.tolerance = out.tolerance * 4 + one * std::sqrt(length) * kMaxMagnitude / 4;
      }
    }
    return out;
  }

 private:
  template <class T>
  T pick(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(choices.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return pick(std::vector<T>(choices));
  }

  DType draw_type() {
    if (rng_.chance(float_share_)) return rng_.chance(0.85) ? float_type_ : DType::kF32;
    if (rng_.chance(0.08)) return DType::kBool;
    return rng_.chance(0.8) ? int_type_ : pick({DType::kI8, DType::kU8, DType::kI32, DType::kI64});
  }

  // Outputs are the last tensors, whatever nobody reads, and some others.
  std::vector<ir::Buffer> outputs() {
    std::vector<ir::Buffer> out;
    for (const Tensor& t : computed_) {
      if (!reads_.count(t.buffer) || rng_.chance(0.15)) out.push_back(t.buffer);
    }
    return out;
  }

  HostTensor input_values(const ir::Buffer& b) {
    const auto index = limits_.find(b);
    HostTensor out = random_tensor(b->dtype, b->shape, rng_);
    for (std::int64_t i = 0; index != limits_.end() && i < out.size(); ++i)
      out.set_int(i, rng_.below(index->second));
    return out;
  }

  te::NamedAxes draw_axes(const std::vector<std::string>& names, std::int64_t budget) {
    te::NamedAxes axes;
    for (const std::string& name : names) {
      std::int64_t extent = pick(pool_);
      if (extent > budget) extent = 1;
      budget /= extent;
      axes.emplace_back(name, extent);
    }
    return axes;
  }

  void use_axes(const te::NamedAxes& named, const te::Indices& vars) {
    for (std::size_t i = 0; i < named.size(); ++i) axes_.push_back({vars[i], named[i].second});
  }

  static std::int64_t points(const te::NamedAxes& axes) {
    std::int64_t n = 1;
    for (const auto& [name, extent] : axes) n *= extent;
    return n;
  }

  void draw_op(const std::string& name) {
    const std::vector<std::string> spatial = {"i", "j", "k", "l"};
    const std::vector<std::string> reduced = {"r", "q", "p"};
    const std::int64_t rank =
        rng_.chance(0.08) ? 0 : rng_.between(1, 3) + (rng_.chance(0.1) ? 1 : 0);
    const auto axes = draw_axes({spatial.begin(), spatial.begin() + rank}, kMaxPoints);
    te::NamedAxes reduce_axes;
    te::Reducer reducer = te::Reducer::kNone;
    if (rng_.chance(0.5)) {
      const std::int64_t count = rng_.chance(0.05) ? 0 : rng_.between(1, 3);
      reduce_axes = draw_axes({reduced.begin(), reduced.begin() + count},
                              std::max<std::int64_t>(1, kMaxPoints / points(axes)));
      reducer = pick({te::Reducer::kSum, te::Reducer::kSum, te::Reducer::kMax, te::Reducer::kMin,
                      te::Reducer::kProd, te::Reducer::kArgMax, te::Reducer::kArgMin});
    }
    axes_.clear();
    if (reducer == te::Reducer::kArgMax || reducer == te::Reducer::kArgMin) {
      draw_arg_reduction(name, reducer, axes, reduce_axes);
    } else {
      draw_plain(name, reducer, axes, reduce_axes);
    }
    previous_ = computed_.size();
  }

  void draw_plain(const std::string& name, te::Reducer reducer, const te::NamedAxes& axes,
                  const te::NamedAxes& reduce_axes) {
    const DType type = draw_type();
    if (type == DType::kBool && (reducer == te::Reducer::kSum || reducer == te::Reducer::kProd))
      reducer = te::Reducer::kMax;
    const std::int64_t length = points(reduce_axes);
    Value value;
    const ir::Buffer out = builder_.reduce(
        name, reducer, axes, reduce_axes, [&](const te::Indices& i, const te::Indices& r) {
          use_axes(axes, i);
          use_axes(reduce_axes, r);
          value = reducer == te::Reducer::kSum && type != DType::kBool && rng_.chance(0.6)
                      ? draw_product(type)
                      : draw_value(type, 3);
          if (is_float(type)) {
            const double bound = reducer == te::Reducer::kSum
                                     ? kMaxMagnitude / static_cast<double>(length)
                                 : reducer == te::Reducer::kProd ? 1
                                                                 : kMaxMagnitude;
            value = scaled(value, type, bound);
          }
          return value.expr;
        });
    if (reducer == te::Reducer::kSum) value.magnitude *= static_cast<double>(length);
    const bool exact =
        value.exact && (!is_float(type) || reducer == te::Reducer::kMax ||
                        reducer == te::Reducer::kMin || reducer == te::Reducer::kNone);
    computed_.push_back({out, exact, value.magnitude});
  }

  Value scaled(Value v, DType type, double bound) {
    if (v.magnitude <= bound) return v;
    return {ir::mul(v.expr, ir::imm(type, bound / v.magnitude)), false, bound};
  }

  void draw_arg_reduction(const std::string& name, te::Reducer reducer, const te::NamedAxes& axes,
                          const te::NamedAxes& reduce_axes) {
    const DType type = draw_type() == DType::kBool ? DType::kI32 : draw_type();
    const DType index_type = pick({DType::kI64, DType::kI32});
    Value value;
    const auto out = builder_.arg_reduce(
        name, reducer, axes, reduce_axes, [&](const te::Indices& i, const te::Indices& r) {
          use_axes(axes, i);
          use_axes(reduce_axes, r);
          // Rounded floats could tie or not depending on the order of evaluation.
          for (int tries = 0; tries < 20; ++tries) {
            value = is_float(type) || tries > 10 ? draw_load(type) : draw_value(type, 2);
            if (value.exact) break;
          }
          if (!value.exact) value = {ir::imm(type, 1), true, 1};
          Expr index = ir::int_imm(0);
          for (std::size_t a = 0; a < r.size(); ++a) index = index * reduce_axes[a].second + r[a];
          return std::make_pair(value.expr, ir::cast(index_type, index));
        });
    computed_.push_back({out.first, value.exact, value.magnitude});
    computed_.push_back({out.second, true, 1});
  }

  // A product of two loads, as in matrix products and convolutions.
  Value draw_product(DType type) {
    Value a = draw_load(type), b = draw_load(type);
    return {ir::mul(a.expr, b.expr), (a.exact && b.exact && !is_float(type)),
            a.magnitude * b.magnitude};
  }

  Value draw_value(DType type, int depth) {
    if (depth == 0 || rng_.chance(0.2)) return draw_leaf(type);
    if (rng_.chance(0.12)) {
      Value t = draw_value(type, depth - 1), f = draw_value(type, depth - 1);
      return {ir::select(draw_condition(depth - 1), t.expr, f.expr), t.exact && f.exact,
              std::max(t.magnitude, f.magnitude)};
    }
    if (type == DType::kBool) return {draw_condition(depth), true, 1};
    return is_float(type) ? draw_float(type, depth) : draw_int(type, depth);
  }

  Expr draw_condition(int depth) {
    switch (rng_.below(depth > 0 ? 5 : 2)) {
      case 0:
        if (!axes_.empty()) return ir::lt(pick(axes_).var, ir::int_imm(rng_.below(9)));
        return ir::bool_imm(rng_.chance(0.5));
      case 1:
        if (!axes_.empty())
          return ir::eq(ir::floor_mod(pick(axes_).var, ir::int_imm(2)), ir::int_imm(0));
        return ir::bool_imm(rng_.chance(0.5));
      case 2: {
        const Expr a = draw_condition(depth - 1), b = draw_condition(depth - 1);
        return rng_.chance(0.5) ? ir::logical_and(a, b) : ir::logical_or(a, b);
      }
      case 3:
        return ir::logical_not(draw_condition(depth - 1));
      default: {
        const DType t = int_type_;
        const Expr a = draw_value(t, depth - 1).expr, b = draw_value(t, depth - 1).expr;
        return rng_.chance(0.5) ? ir::le(a, b) : ir::ne(a, b);
      }
    }
  }

  Value draw_int(DType type, int depth) {
    const Expr a = draw_value(type, depth - 1).expr;
    if (rng_.chance(0.2)) {
      const Expr c = ir::imm(type, static_cast<double>(rng_.between(1, 7)));
      using Fn = Expr (*)(Expr, Expr);
      return {pick<Fn>({ir::floor_div, ir::floor_mod, ir::div, ir::mod})(a, c), true, 1};
    }
    const Expr b = draw_value(type, depth - 1).expr;
    using ir::BinaryOp;
    return {ir::Binary::make(pick({BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kMin,
                                   BinaryOp::kMax, BinaryOp::kXor, BinaryOp::kAnd, BinaryOp::kOr}),
                             a, b),
            true, 1};
  }

  Value draw_float(DType type, int depth) {
    const Value a = draw_value(type, depth - 1);
    if (rng_.chance(0.15)) {
      if (rng_.chance(0.5)) return {ir::call(ir::Intrinsic::kTanh, {a.expr}), false, 1};
      return {ir::call(ir::Intrinsic::kAbs, {a.expr}), a.exact, a.magnitude};
    }
    const Value b = draw_value(type, depth - 1);
    const double sum = a.magnitude + b.magnitude;
    switch (rng_.below(5)) {
      case 0:
        return scaled({ir::add(a.expr, b.expr), false, sum}, type, kMaxMagnitude);
      case 1:
        return scaled({ir::sub(a.expr, b.expr), false, sum}, type, kMaxMagnitude);
      case 2:
        return scaled({ir::mul(a.expr, b.expr), false, a.magnitude * b.magnitude}, type,
                      kMaxMagnitude);
      case 3:
        return {ir::min(a.expr, b.expr), a.exact && b.exact, std::max(a.magnitude, b.magnitude)};
      default:
        return {ir::max(a.expr, b.expr), a.exact && b.exact, std::max(a.magnitude, b.magnitude)};
    }
  }

  Value draw_leaf(DType type) {
    if (type != DType::kBool && rng_.chance(0.1))
      return {ir::imm(type, static_cast<double>(rng_.between(0, 3))), true, 3};
    if (type != DType::kBool && !axes_.empty() && rng_.chance(0.08))
      return {ir::cast(type, pick(axes_).var), true, 17};
    return draw_load(type);
  }

  Tensor choose_tensor(DType type) {
    if (!computed_.empty() && rng_.chance(0.6)) {
      const Tensor& t = rng_.chance(0.6) ? computed_.back() : pick(computed_);
      // Truncating a rounded float is not a function of its exact value.
      if (!is_float(t.buffer->dtype) || is_float(type) || t.exact) return t;
    }
    if (!inputs_.empty() && rng_.chance(0.4)) return pick(inputs_);
    return new_input(type);
  }

  Tensor new_input(DType type) {
    Shape shape;
    std::vector<Axis> axes = axes_;
    const std::int64_t rank =
        std::min<std::int64_t>(rng_.between(0, 3), static_cast<std::int64_t>(axes.size()));
    for (std::int64_t d = 0; d < rank; ++d) {
      const auto at = axes.begin() + rng_.below(static_cast<std::int64_t>(axes.size()));
      std::int64_t extent = at->extent;
      if (rng_.chance(0.15))
        extent = 2 * extent + 1;
      else if (rng_.chance(0.15))
        extent = pick(pool_);
      shape.push_back(std::min<std::int64_t>(extent, 24));
      axes.erase(at);
    }
    const std::string name = fmt::format("in{}", inputs_.size());
    const DType stored = rng_.chance(0.85) ? type : draw_type();
    inputs_.push_back({rng_.chance(0.4) ? builder_.constant(name, stored, shape)
                                        : builder_.input(name, stored, shape)});
    return inputs_.back();
  }

  Value draw_load(DType type) {
    const Tensor t = choose_tensor(type);
    reads_[t.buffer] = true;
    Expr inside;
    std::vector<Expr> indices;
    for (const std::int64_t n : t.buffer->shape) indices.push_back(draw_index(n, &inside, 1));
    Expr e = te::at(t.buffer, indices);
    if (inside)
      e = ir::select(
          inside, e,
          ir::imm(e.dtype(), e.dtype() == DType::kBool ? 0 : static_cast<double>(rng_.below(2))));
    const double magnitude = is_float(t.buffer->dtype) ? t.magnitude : 20;
    const bool narrow = is_float(type) && is_float(t.buffer->dtype) && type != t.buffer->dtype;
    if (!is_float(type)) return {ir::cast(type, e), t.exact, 1};
    // Wide integers would leave the range of the float.
    if (!is_float(t.buffer->dtype) && e.dtype() != DType::kBool)
      e = ir::mod(e, ir::imm(e.dtype(), 16));
    return scaled({ir::cast(type, e), t.exact && !narrow, magnitude}, type, kMaxMagnitude);
  }

  void require(Expr* inside, const Expr& cond) {
    *inside = *inside ? ir::logical_and(*inside, cond) : cond;
  }

  // An index in 0..n-1, at least where `*inside` holds.
  Expr draw_index(std::int64_t n, Expr* inside, int depth) {
    if (axes_.empty() || rng_.chance(0.05)) return ir::int_imm(rng_.below(n));
    if (depth > 0 && rng_.chance(0.06)) return draw_gather(n);
    const Axis* axis =
        &axes_[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(axes_.size())))];
    for (int tries = 0; tries < 4 && axis->extent != n; ++tries) {
      axis = &axes_[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(axes_.size())))];
    }
    if (rng_.chance(0.2)) return draw_window(n, *axis, inside);
    const Expr v = axis->var;
    const std::int64_t e = axis->extent;
    if (e == n) return rng_.chance(0.15) ? ir::int_imm(n - 1) - v : v;
    if (e < n) {
      const std::int64_t stride =
          rng_.between(1, std::max<std::int64_t>(1, e > 1 ? (n - 1) / (e - 1) : 1));
      return v * stride + rng_.between(0, n - 1 - (e - 1) * stride);
    }
    switch (rng_.below(4)) {
      case 0:
        return ir::floor_div(v, ir::int_imm((e + n - 1) / n));
      case 1:
        return ir::floor_mod(v, ir::int_imm(n));
      case 2:
        return ir::min(v, ir::int_imm(n - 1));
      default:
        return padded(v - rng_.between(0, e - n), n, inside);
    }
  }

  Expr padded(const Expr& index, std::int64_t n, Expr* inside) {
    require(inside, ir::logical_and(ir::le(ir::int_imm(0), index), ir::lt(index, ir::int_imm(n))));
    return index;
  }

  // stride * axis + other - pad, as in a convolution.
  Expr draw_window(std::int64_t n, const Axis& axis, Expr* inside) {
    const Axis other = pick(axes_);
    if (other.var.same_as(axis.var)) return padded(axis.var + rng_.between(-2, 2), n, inside);
    const std::int64_t stride = rng_.between(1, 2);
    const std::int64_t span = (axis.extent - 1) * stride + other.extent;
    const Expr index = axis.var * stride + other.var;
    if (span <= n) return index + rng_.between(0, n - span);
    return padded(index - rng_.between(0, 2), n, inside);
  }

  Expr draw_gather(std::int64_t n) {
    const std::string name = fmt::format("idx{}", limits_.size());
    const Axis axis = pick(axes_);
    const ir::Buffer index = builder_.input(name, pick({DType::kI64, DType::kI32}), {axis.extent});
    limits_[index] = n;
    return ir::cast(DType::kI64, te::at(index, {axis.var}));
  }

  Rng& rng_;
  te::DagBuilder builder_;
  std::vector<std::int64_t> pool_;
  DType float_type_ = DType::kF32;
  DType int_type_ = DType::kI32;
  double float_share_ = 0.5;
  std::vector<Tensor> inputs_, computed_;
  std::map<ir::Buffer, std::int64_t> limits_;  // index inputs
  std::map<ir::Buffer, bool> reads_;
  std::vector<Axis> axes_;  // of the operation being drawn
  std::size_t previous_ = 0;
};

}  // namespace

RandomDag random_dag(Rng& rng) { return DagDrawer(rng).run(); }

}  // namespace tessera::fuzz
