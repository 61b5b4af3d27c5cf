// Activation functions, composed of functions of single elements.
#include <cmath>

#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

Term negative(Term x) { return call("lt", x, 0); }

Result<Values> import_relu(Context& c) {
  Formula f(c);
  return f.result({call("max", f.in(0), 0)});
}

Result<Values> import_leaky_relu(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 0.01));
  Formula f(c);
  const Term x = f.wide(0);
  // The shorter form needs alpha * x to be the larger one for x < 0 only, also for infinities.
  const Term y =
      alpha > 0 && alpha <= 1 ? call("max", x, x * alpha) : where(negative(x), x * alpha, x);
  return f.result(y, c.dtype(0));
}

Result<Values> import_prelu(Context& c) {
  Formula f(c);
  Term slope = f.wide(1);
  if (c.version < 7 && c.rank(1) == 1 && c.shape(1)[0] != 1) slope = f.along(slope, 1, c.rank(0));
  const Term x = f.wide(0);
  return f.result(where(negative(x), x * slope, x), c.dtype(0));
}

Result<Values> import_elu(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 1));
  Formula f(c);
  const Term x = f.wide(0);
  return f.result(where(negative(x), (call("exp", x) - 1) * alpha, x), c.dtype(0));
}

Result<Values> import_selu(Context& c) {
  // The defaults of opset 1 were rounded to four digits.
  TESSERA_TRY(const double alpha,
              c.number("alpha", c.version < 6 ? 1.6732 : 1.67326319217681884765625));
  TESSERA_TRY(const double gamma,
              c.number("gamma", c.version < 6 ? 1.0507 : 1.05070102214813232421875));
  Formula f(c);
  const Term x = f.wide(0);
  const Term below = (call("exp", x) - 1) * (alpha * gamma);
  return f.result(where(negative(x), below, x * gamma), c.dtype(0));
}

Result<Values> import_celu(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 1));
  Formula f(c);
  const Term x = f.wide(0);
  const Term below = (call("exp", x / alpha) - 1) * alpha;
  return f.result(call("max", x, 0) + call("min", below, 0), c.dtype(0));
}

// log(1 + e) for e >= 0 without losing a small e: the rounding error of 1 + e is divided out.
Term log_one_plus(Term e) {
  const Term u = e + 1;
  return where(call("eq", u, 1), e, call("log", u) * (e / (u - 1)));
}

// log(1 + exp(x)) without overflow.
Term softplus(Term x) { return call("max", x, 0) + log_one_plus(call("exp", -call("abs", x))); }

Result<Values> import_softplus(Context& c) {
  Formula f(c);
  return f.result(softplus(f.wide(0)), c.dtype(0));
}

Result<Values> import_softsign(Context& c) {
  Formula f(c);
  const Term x = f.wide(0);
  return f.result(x / (call("abs", x) + 1), c.dtype(0));
}

Result<Values> import_mish(Context& c) {
  Formula f(c);
  const Term x = f.wide(0);
  return f.result(x * call("tanh", softplus(x)), c.dtype(0));
}

Result<Values> import_thresholded_relu(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 1));
  Formula f(c);
  const Term x = f.in(0);
  // The threshold stays a float: it may have no exact value in f16.
  const Term limit = f.number(compute_type(c.dtype(0)), alpha);
  return f.result({where(call("lt", limit, f.widen(x)), x, 0)});
}

Term hard_sigmoid(Term x, double alpha, double beta) {
  return call("max", call("min", x * alpha + beta, 1), 0);
}

Result<Values> import_hard_sigmoid(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 0.2));
  TESSERA_TRY(const double beta, c.number("beta", 0.5));
  Formula f(c);
  return f.result(hard_sigmoid(f.wide(0), alpha, beta), c.dtype(0));
}

Result<Values> import_hard_swish(Context& c) {
  Formula f(c);
  const Term x = f.wide(0);
  return f.result(x * hard_sigmoid(x, 1.0 / 6, 0.5), c.dtype(0));
}

Result<Values> import_gelu(Context& c) {
  TESSERA_TRY(const std::string approximate, c.word("approximate", "none"));
  if (approximate != "none" && approximate != "tanh") {
    return make_error(ErrorCode::kInvalidArgument, "approximate={} is not none or tanh",
                      approximate);
  }
  Formula f(c);
  const Term x = f.wide(0);
  const double sqrt_half = std::sqrt(0.5), sqrt_two_over_pi = std::sqrt(2 / std::acos(-1.0));
  const Term gate = approximate == "none"
                        ? call("erf", x * sqrt_half)
                        : call("tanh", (x + x * x * x * 0.044715) * sqrt_two_over_pi);
  return f.result(x * 0.5 * (gate + 1), c.dtype(0));
}

Result<Values> import_swish(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 1));
  Formula f(c);
  const Term x = f.wide(0);
  return f.result(x * call("sigmoid", alpha == 1 ? x : x * alpha), c.dtype(0));
}

// A gate, then what it lets through.
Result<Values> import_swiglu(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 1));
  if (c.shape(0) != c.shape(1)) {
    return make_error(ErrorCode::kInvalidArgument, "a gate of {} for {}", to_text(c.shape(0)),
                      to_text(c.shape(1)));
  }
  Formula f(c);
  const Term x = f.wide(0);
  return f.result(x * call("sigmoid", alpha == 1 ? x : x * alpha) * f.wide(1), c.dtype(0));
}

Result<Values> import_shrink(Context& c) {
  TESSERA_TRY(const double bias, c.number("bias", 0));
  TESSERA_TRY(const double lambd, c.number("lambd", 0.5));
  Formula f(c);
  // Integers are compared with and moved by fractions.
  const DType t = is_float(c.dtype(0)) ? compute_type(c.dtype(0)) : DType::kF64;
  const Term x = f.cast(f.in(0), t);
  const Term above = where(call("lt", f.number(t, lambd), x), x - bias, 0);
  return f.result(where(call("lt", x, -lambd), x + bias, above), c.dtype(0));
}

}  // namespace

std::vector<OnnxOp> activation_rows() {
  return {
      {"Celu", 12, 1, 1, import_celu},
      {"Elu", 1, 1, 1, import_elu},
      {"Gelu", 20, 1, 1, import_gelu},
      {"HardSigmoid", 1, 1, 1, import_hard_sigmoid},
      {"HardSwish", 14, 1, 1, import_hard_swish},
      {"LeakyRelu", 1, 1, 1, import_leaky_relu},
      {"Mish", 18, 1, 1, import_mish},
      {"PRelu", 1, 2, 2, import_prelu},
      {"Relu", 1, 1, 1, import_relu},
      {"Selu", 1, 1, 1, import_selu},
      {"Shrink", 9, 1, 1, import_shrink},
      {"Softplus", 1, 1, 1, import_softplus},
      {"Softsign", 1, 1, 1, import_softsign},
      {"SwiGLU", 28, 2, 2, import_swiglu},
      {"Swish", 24, 1, 1, import_swish},
      {"ThresholdedRelu", 10, 1, 1, import_thresholded_relu},
  };
}

}  // namespace tessera::onnx
