// Operators of domain com.microsoft that exporters and quantizers write: activations and norms.
#include "tessera/frontend/onnx/ops/contrib.h"

#include <algorithm>
#include <cmath>

#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// Input 0 plus the bias of input 1, where it is given.
Term biased(Formula& f, const Context& c) { return c.has(1) ? f.wide(0) + f.wide(1) : f.wide(0); }

Result<Values> import_gelu(Context& c) {
  Formula f(c);
  const Term x = biased(f, c);
  return f.result(x * 0.5 * (call("erf", x * std::sqrt(0.5)) + 1), c.dtype(0));
}

Result<Values> import_fast_gelu(Context& c) {
  Formula f(c);
  const Term x = biased(f, c);
  const double factor = std::sqrt(2 / std::acos(-1.0));
  const Term gate = call("tanh", (x + x * x * x * 0.044715) * factor);
  return f.result(x * 0.5 * (gate + 1), c.dtype(0));
}

Result<Values> import_quick_gelu(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 1.702));
  Formula f(c);
  const Term x = f.wide(0);
  return f.result(x * call("sigmoid", x * alpha), c.dtype(0));
}

// The mean over the last axis and what the norm multiplies by, as training keeps them.
std::vector<Term> norm_statistics(Formula& f, const Context& c, Term x, bool simplified,
                                  double epsilon) {
  const std::vector<std::int64_t> last = {c.rank(0) - 1};
  const Term wide = f.widen(x);
  const Term mean = simplified ? f.value(kNoValue) : f.reduce("mean", wide, last);
  const Term apart = simplified ? wide : wide - mean;
  const Term spread = call("sqrt", f.reduce("mean", apart * apart, last) + epsilon);
  return {mean, call("recip", spread)};
}

// x + skip + bias?, normalised over the last axis. `simplified` has no bias of the norm and divides
// by the root of the mean square. Outputs 1 and 2 are the statistics, output 3 the sum.
Result<Values> skip_norm(Context& c, bool simplified) {
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-12));
  if (c.rank(0) < 1) return invalid("an input of rank 2 or 3 is needed");
  const std::size_t bias = simplified ? 3 : 4;
  Formula f(c);
  Term sum = f.wide(0) + f.wide(1);
  if (c.has(bias)) sum = sum + f.wide(bias);
  if (!f.failed() && f.shape(sum) != c.shape(0)) {
    return invalid("skip of {} for {}", to_text(c.shape(1)), to_text(c.shape(0)));
  }
  sum = f.cast(sum, c.dtype(0));
  std::vector<Term> inputs = {sum, f.in(2)};
  if (!simplified && c.has(3)) inputs.push_back(f.in(3));
  const Term y = f.op(simplified ? "rmsnorm" : "layernorm", inputs,
                      {{"axis", c.rank(0) - 1}, {"epsilon", epsilon}});
  std::vector<Term> outputs = {y, f.value(kNoValue), f.value(kNoValue), sum};
  if (c.wants(1) || c.wants(2)) {
    const std::vector<Term> statistics = norm_statistics(f, c, sum, simplified, epsilon);
    std::copy(statistics.begin(), statistics.end(), outputs.begin() + 1);
  }
  return f.result(outputs);
}

Result<Values> import_skip_layer_norm(Context& c) { return skip_norm(c, false); }
Result<Values> import_skip_rms_norm(Context& c) { return skip_norm(c, true); }

Result<Values> import_simplified_norm(Context& c) {
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-5));
  TESSERA_TRY(const std::int64_t given, c.integer("axis", -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  Formula f(c);
  std::vector<Term> outputs = {
      f.op("rmsnorm", {f.in(0), f.in(1)}, {{"axis", axis}, {"epsilon", epsilon}})};
  if (c.wants(1)) {
    if (axis != c.rank(0) - 1)
      return make_error(ErrorCode::kUnsupported, "inv_std_var over several axes");
    outputs.push_back(norm_statistics(f, c, f.in(0), true, epsilon)[1]);
  }
  return f.result(outputs);
}

// x with its last two axes exchanged.
Term transposed(Formula& f, Term x) {
  const auto rank = static_cast<std::int64_t>(f.shape(x).size());
  if (rank < 2) return x;
  std::vector<std::int64_t> perm;
  for (std::int64_t d = 0; d < rank - 2; ++d) perm.push_back(d);
  perm.insert(perm.end(), {rank - 1, rank - 2});
  return transpose(f, x, perm);
}

Result<Values> import_fused_matmul(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 1));
  TESSERA_TRY(const std::int64_t trans_a, c.integer("transA", 0));
  TESSERA_TRY(const std::int64_t trans_b, c.integer("transB", 0));
  TESSERA_TRY(const std::int64_t batch_a, c.integer("transBatchA", 0));
  TESSERA_TRY(const std::int64_t batch_b, c.integer("transBatchB", 0));
  if (batch_a != 0 || batch_b != 0) {
    return make_error(ErrorCode::kUnsupported, "transposed batch dimensions");
  }
  Formula f(c);
  const Term a = trans_a != 0 ? transposed(f, f.in(0)) : f.in(0);
  const Term b = trans_b != 0 ? transposed(f, f.in(1)) : f.in(1);
  if (f.failed()) return f.error();
  TESSERA_TRY(const ValueId product, matmul(c.b, a.id, b.id));
  const Term y = f.value(product);
  return f.result({alpha == 1 ? y : y * alpha});
}

// Rows of the tables of words, positions and segments, added and normalised.
Result<Values> import_embed_layer_norm(Context& c) {
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-12));
  for (const std::size_t i : {2u, 3u, 5u, 6u}) {
    if (!c.has(i)) return invalid("input {} is missing", i);
  }
  if (c.rank(0) != 2 || c.rank(2) != 2 || c.rank(3) != 2) {
    return invalid("ids [batch, length] and tables [n, width] are needed");
  }
  if (c.wants(1) && c.has(7)) return make_error(ErrorCode::kUnsupported, "mask_index");
  const std::int64_t batch = c.shape(0)[0], length = c.shape(0)[1];
  Formula f(c);
  const auto rows = [&](std::size_t table, Term ids) {
    return f.op("gather", {f.in(table), ids}, {{"axis", std::int64_t{0}}});
  };
  Term positions = f.value(kNoValue);
  if (c.has(8)) {
    positions = rows(3, f.in(8));
  } else {
    if (c.shape(3)[0] < length)
      return invalid("{} positions in a table of {}", length, c.shape(3)[0]);
    positions = slice(f, f.in(3), 0, 0, length);
  }
  Term sum = f.widen(rows(2, f.in(0))) + f.widen(positions);
  if (c.has(1) && c.has(4)) sum = sum + f.widen(rows(4, f.in(1)));
  sum = f.cast(sum, c.dtype(2));
  const Term y =
      f.op("layernorm", {sum, f.in(5), f.in(6)}, {{"axis", std::int64_t{2}}, {"epsilon", epsilon}});
  // Without a mask its index is zero.
  const Term no_mask = f.constant(HostTensor(DType::kI32, {batch}));
  return f.result({y, no_mask, sum});
}

}  // namespace

std::vector<OnnxOp> contrib_rows() {
  std::vector<OnnxOp> rows = {
      {"BiasGelu", 1, 2, 2, import_gelu, kMicrosoft},
      {"EmbedLayerNormalization", 1, 1, 9, import_embed_layer_norm, kMicrosoft},
      {"FastGelu", 1, 1, 2, import_fast_gelu, kMicrosoft},
      {"FusedMatMul", 1, 2, 2, import_fused_matmul, kMicrosoft},
      {"Gelu", 1, 1, 1, import_gelu, kMicrosoft},
      {"QuickGelu", 1, 1, 1, import_quick_gelu, kMicrosoft},
      {"SimplifiedLayerNormalization", 1, 2, 2, import_simplified_norm},
      {"SimplifiedLayerNormalization", 1, 2, 2, import_simplified_norm, kMicrosoft},
      {"SkipLayerNormalization", 1, 3, 5, import_skip_layer_norm, kMicrosoft},
      {"SkipSimplifiedLayerNormalization", 1, 3, 4, import_skip_rms_norm, kMicrosoft},
  };
  for (const auto& more : {quantized_contrib_rows(), quantized_attention_rows(),
                           stored_contrib_rows(), gather_block_rows(), expert_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace tessera::onnx
