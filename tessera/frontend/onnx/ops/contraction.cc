// MatMul, Gemm and Det; einsum.cc and integer_matmul.cc hold the rest of the family.
#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

Result<Values> import_matmul(Context& c) {
  TESSERA_TRY(const ValueId y, matmul(c.b, c.in(0), c.in(1)));
  return Values{y};
}

Result<Values> import_gemm(Context& c) {
  TESSERA_TRY(const std::int64_t trans_a, c.integer("transA", 0));
  TESSERA_TRY(const std::int64_t trans_b, c.integer("transB", 0));
  TESSERA_TRY(const double alpha, c.number("alpha", 1.0));
  TESSERA_TRY(const double beta, c.number("beta", 1.0));
  if (c.rank(0) != 2 || c.rank(1) != 2) {
    return invalid("A and B must be matrices, not {} and {}", to_text(c.shape(0)),
                   to_text(c.shape(1)));
  }
  TESSERA_TRY(ValueId y, contract(c.b, c.in(0), trans_a != 0 ? "ki" : "ik", c.in(1),
                                  trans_b != 0 ? "jk" : "kj", "ij"));
  const DType t = c.b.dtype(y);
  const auto times = [&](ValueId v, double factor) -> Result<ValueId> {
    if (factor == 1) return v;
    return c.b.add("mul", {v, c.b.scalar(t, factor)});
  };
  TESSERA_TRY(y, times(y, alpha));
  if (!c.has(2) || beta == 0) return Values{y};
  const Shape shape = c.b.shape(y);
  TESSERA_TRY(const ValueId bias, times(c.in(2), beta));
  TESSERA_TRY(y, c.b.add("add", {y, bias}));
  if (c.b.shape(y) != shape) {
    return invalid("C {} does not broadcast to {}", to_text(c.shape(2)), to_text(shape));
  }
  return Values{y};
}

Result<Values> import_det(Context& c) {
  TESSERA_TRY(const ValueId y, c.b.add("det", {c.in(0)}));
  return Values{y};
}

// Labels of batch dimensions; i, j and k are those of the matrices.
constexpr const char* kBatchLabels = "bcdefghlmnopqrstuvwxyz";

}  // namespace

Result<ValueId> contract(graph::GraphBuilder& b, ValueId x, const std::string& x_labels, ValueId y,
                         const std::string& y_labels, const std::string& out_labels) {
  return b.add("contract", {x, y}, {{"a", x_labels}, {"b", y_labels}, {"out", out_labels}});
}

Result<ValueId> drop_axis(graph::GraphBuilder& b, ValueId x, std::size_t axis) {
  Shape shape = b.shape(x);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return b.reshape(x, shape);
}

Result<ValueId> reduce_axes(graph::GraphBuilder& b, const char* kind, ValueId x,
                            const std::vector<std::int64_t>& axes, bool keep) {
  return b.add("reduce", {x},
               {{"kind", std::string(kind)}, {"axes", axes}, {"keepdims", std::int64_t{keep}}});
}

Result<ValueId> matmul(graph::GraphBuilder& b, ValueId x, ValueId y) {
  const Shape xs = b.shape(x), ys = b.shape(y);
  const auto refuse = [&] {
    return invalid("no matrix product of {} and {}", to_text(xs), to_text(ys));
  };
  if (xs.empty() || ys.empty()) return refuse();
  const bool x_vector = xs.size() == 1, y_vector = ys.size() == 1;
  const std::size_t x_batch = x_vector ? 0 : xs.size() - 2, y_batch = y_vector ? 0 : ys.size() - 2;
  const std::size_t batch = std::max(x_batch, y_batch);
  if (xs.back() != (y_vector ? ys[0] : ys[ys.size() - 2])) return refuse();
  if (batch > std::string_view(kBatchLabels).size()) return refuse();
  std::string x_labels, y_labels, out;
  Shape x_kept, y_kept;  // without the batch dimensions that are broadcast
  for (std::size_t d = 0; d < batch; ++d) {
    const char label = kBatchLabels[d];
    const bool in_x = d + x_batch >= batch, in_y = d + y_batch >= batch;
    const std::int64_t xd = in_x ? xs[d + x_batch - batch] : 1;
    const std::int64_t yd = in_y ? ys[d + y_batch - batch] : 1;
    if (xd != yd && xd != 1 && yd != 1) return refuse();
    const bool keep_x = in_x && (xd != 1 || yd == 1), keep_y = in_y && (yd != 1 || xd == 1);
    if (keep_x) x_labels += label, x_kept.push_back(xd);
    if (keep_y) y_labels += label, y_kept.push_back(yd);
    out += label;
  }
  x_kept.insert(x_kept.end(), xs.end() - (x_vector ? 1 : 2), xs.end());
  y_kept.insert(y_kept.end(), ys.end() - (y_vector ? 1 : 2), ys.end());
  TESSERA_TRY(const ValueId lhs, b.reshape(x, x_kept));
  TESSERA_TRY(const ValueId rhs, b.reshape(y, y_kept));
  if (!x_vector) out += 'i';
  if (!y_vector) out += 'j';
  return contract(b, lhs, x_labels + (x_vector ? "k" : "ik"), rhs,
                  y_labels + (y_vector ? "k" : "kj"), out);
}

std::vector<OnnxOp> contraction_rows() {
  std::vector<OnnxOp> rows = {
      {"Det", 11, 1, 1, import_det},
      {"Gemm", 1, 2, 3, import_gemm, "", false, Widened::kRefused, true},
      {"MatMul", 1, 2, 2, import_matmul, "", false, Widened::kRefused, true},
  };
  for (const auto& more : {einsum_rows(), integer_matmul_rows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

}  // namespace tessera::onnx
