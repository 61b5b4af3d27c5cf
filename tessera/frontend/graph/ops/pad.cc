// pad {mode, before, after} x, value?: grows x by constants or by its own elements.
#include <algorithm>
#include <cstring>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/window.h"

namespace tessera::graph {

OpDef pad_op();

namespace {

constexpr std::int64_t kMaxPad = std::int64_t{1} << 46;

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const std::string& mode = node.attrs.word("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return bad_operand("pad mode '{}' is not constant, reflect, edge or wrap", mode);
  const std::vector<std::int64_t>& before = node.attrs.integers("before");
  const std::vector<std::int64_t>& after = node.attrs.integers("after");
  Shape shape = node.shape(0);
  if (before.size() != shape.size() || after.size() != shape.size())
    return bad_operand("pads of {} axes for a tensor of rank {}", before.size(), shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (before[d] < 0 || after[d] < 0 || before[d] > kMaxPad || after[d] > kMaxPad)
      return bad_operand("pads {} and {} of axis {}", before[d], after[d], d);
    if (mode != "constant" && shape[d] == 0 && before[d] + after[d] > 0)
      return bad_operand("{} padding of an empty axis", mode);
    shape[d] += before[d] + after[d];
  }
  if (node.has(1) && (elements(node.shape(1)) != 1 || node.dtype(1) != node.dtype(0))) {
    return bad_operand("pad value must be one {}, not {}", to_text(node.dtype(0)),
                       to_text(*node.types[1]));
  }
  return single_type(node.dtype(0), std::move(shape));
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return (a % b + b) % b; }

// Element of [0, n) that position p shows; p may lie any distance outside.
std::int64_t source(const std::string& mode, std::int64_t p, std::int64_t n) {
  if (mode == "edge" || n == 1) return std::clamp<std::int64_t>(p, 0, n - 1);
  if (mode == "wrap") return floor_mod(p, n);
  const std::int64_t period = 2 * (n - 1), q = floor_mod(p, period);
  return std::min(q, period - q);
}

// The same as an expression, for p = i - before.
ir::Expr source(const std::string& mode, const ir::Expr& p, std::int64_t n, std::int64_t before,
                std::int64_t after) {
  const ir::Expr zero = ir::int_imm(0);
  if (n == 1) return zero;
  if (mode == "edge") return ir::min(ir::max(p, zero), ir::int_imm(n - 1));
  if (mode == "wrap") {
    if (before > n || after > n) return ir::floor_mod(p, ir::int_imm(n));
    return ir::select(ir::lt(p, zero), p + n, ir::select(ir::lt(p, ir::int_imm(n)), p, p - n));
  }
  const std::int64_t period = 2 * (n - 1);
  const ir::Expr q =
      before < n && after < n ? ir::max(p, zero - p) : ir::floor_mod(p, ir::int_imm(period));
  return ir::min(q, ir::int_imm(period) - q);
}

ir::Expr fill_value(const NodeView& node, const std::vector<ir::Buffer>& in) {
  if (!node.has(1)) return ir::zero({node.dtype(0), 1});
  if (const ir::Expr value = immediate(node.constants[1])) return value;
  return te::at(in[1], te::Indices(node.shape(1).size(), ir::int_imm(0)));
}

Result<std::vector<ir::Buffer>> define(te::DagBuilder& b, const std::string& name,
                                       const NodeView& node, const std::vector<ir::Buffer>& in) {
  const std::string& mode = node.attrs.word("mode");
  const std::vector<std::int64_t>& before = node.attrs.integers("before");
  const std::vector<std::int64_t>& after = node.attrs.integers("after");
  const Shape& x = node.shape(0);
  Shape shape = x;
  for (std::size_t d = 0; d < x.size(); ++d) shape[d] += before[d] + after[d];
  const ir::Buffer out = b.compute(name, axes_over(shape), [&](const te::Indices& i) {
    te::Indices from = i;
    ir::Expr inside;
    const auto require = [&](const ir::Expr& cond) {
      inside = inside ? ir::logical_and(inside, cond) : cond;
    };
    for (std::size_t d = 0; d < x.size(); ++d) {
      if (before[d] == 0 && after[d] == 0) continue;
      from[d] = te::shifted(i[d], -before[d]);
      if (mode != "constant") {
        from[d] = source(mode, from[d], x[d], before[d], after[d]);
        continue;
      }
      if (before[d] > 0) require(ir::ge(i[d], ir::int_imm(before[d])));
      if (after[d] > 0) require(ir::lt(i[d], ir::int_imm(x[d] + before[d])));
    }
    if (!inside) return te::at(in[0], from);
    return ir::select(inside, te::at(in[0], from), fill_value(node, in));
  });
  return std::vector<ir::Buffer>{out};
}

void fill(HostTensor& out, const HostTensor& value) {
  const std::size_t width = static_cast<std::size_t>(size_bytes(out.dtype()));
  std::byte* to = out.as<std::byte>();
  for (std::int64_t i = 0; i < out.size(); ++i, to += width) std::memcpy(to, value.data(), width);
}

Result<std::vector<HostTensor>> evaluate(const NodeView& node,
                                         const std::vector<const HostTensor*>& in) {
  const std::string& mode = node.attrs.word("mode");
  const std::vector<std::int64_t>& before = node.attrs.integers("before");
  const std::vector<std::int64_t>& after = node.attrs.integers("after");
  const Shape& x = in[0]->shape();
  if (mode != "constant") {
    HostTensor out = *in[0];
    for (std::size_t d = 0; d < x.size(); ++d) {
      if (before[d] == 0 && after[d] == 0) continue;
      std::vector<std::int64_t> picks;
      for (std::int64_t p = -before[d]; p < x[d] + after[d]; ++p)
        picks.push_back(source(mode, p, x[d]));
      out = take(out, d, picks);
    }
    return std::vector<HostTensor>{out};
  }
  Shape shape = x;
  for (std::size_t d = 0; d < x.size(); ++d) shape[d] += before[d] + after[d];
  HostTensor out(in[0]->dtype(), shape);
  if (node.has(1)) fill(out, *in[1]);
  const Shape strides = row_major_strides(x), out_strides = row_major_strides(shape);
  std::int64_t first = 0;
  std::vector<StridedDim> dims;
  for (std::size_t d = 0; d < x.size(); ++d) {
    first += before[d] * out_strides[d];
    dims.push_back({x[d], strides[d], out_strides[d]});
  }
  copy_strided(in[0]->data(), out.as<std::byte>() + first * size_bytes(out.dtype()), dims,
               size_bytes(out.dtype()));
  return std::vector<HostTensor>{out};
}

}  // namespace

OpDef pad_op() { return {"pad", Fusion::kInjective, infer, define, evaluate}; }

}  // namespace tessera::graph
