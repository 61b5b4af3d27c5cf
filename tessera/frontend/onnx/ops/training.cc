// Steps of optimizers (domain ai.onnx.preview.training).
#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

constexpr const char* kDomain = "ai.onnx.preview.training";

// Inputs: learning rate, count of updates, then `kinds` groups of equally many tensors (the
// tensors to optimize, their gradients, state ...).
struct Step {
  std::size_t count = 0;  // tensors of a group
  Term rate, updates;
};

Result<Step> read_step(Formula& f, const Context& c, std::size_t kinds) {
  const std::size_t tensors = c.inputs.size() - 2;
  if (tensors % kinds != 0 || tensors == 0) {
    return make_error(ErrorCode::kInvalidArgument, "{} tensors do not make {} groups", tensors,
                      kinds);
  }
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return make_error(ErrorCode::kInvalidArgument, "input {} is missing", i);
    if (i < 2 && elements(c.shape(i)) != 1) {
      return make_error(ErrorCode::kInvalidArgument, "input {} is not a scalar", i);
    }
  }
  return Step{tensors / kinds, f.reshape(f.in(0), {}), f.reshape(f.in(1), {})};
}

// Tensor `i` of group `kind`, in the type of the computation.
Term member(Formula& f, const Step& step, std::size_t kind, std::size_t i) {
  return f.wide(2 + kind * step.count + i);
}

// The gradient of tensor `i` with that of the L2 penalty.
Term gradient(Formula& f, const Step& step, std::size_t i, double penalty) {
  const Term g = member(f, step, 1, i);
  return penalty == 0 ? g : g + member(f, step, 0, i) * penalty;
}

// results[kind][i] in the types of the tensors, group by group.
Result<Values> outputs(Formula& f, const Context& c,
                       const std::vector<std::vector<Term>>& results) {
  std::vector<Term> all;
  for (const auto& group : results) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      all.push_back(f.cast(group[i], c.dtype(2 + i)));
    }
  }
  return f.result(all);
}

Result<Values> import_adagrad(Context& c) {
  TESSERA_TRY(const double decay, c.number("decay_factor", 0));
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-6));
  TESSERA_TRY(const double penalty, c.number("norm_coefficient", 0));
  Formula f(c);
  TESSERA_TRY(const Step step, read_step(f, c, 3));
  std::vector<Term> xs, squares;
  for (std::size_t i = 0; i < step.count; ++i) {
    const Term x = member(f, step, 0, i), g = gradient(f, step, i, penalty);
    const DType t = f.dtype(x);
    const Term rate = f.cast(step.rate, t) / (f.cast(step.updates, t) * decay + 1);
    squares.push_back(member(f, step, 2, i) + g * g);
    xs.push_back(x - rate * g / (call("sqrt", squares.back()) + epsilon));
  }
  return outputs(f, c, {xs, squares});
}

Result<Values> import_adam(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha", 0.9));
  TESSERA_TRY(const double beta, c.number("beta", 0.999));
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-6));
  TESSERA_TRY(const double penalty, c.number("norm_coefficient", 0));
  TESSERA_TRY(const double shrink, c.number("norm_coefficient_post", 0));
  Formula f(c);
  TESSERA_TRY(const Step step, read_step(f, c, 4));
  std::vector<Term> xs, means, squares;
  for (std::size_t i = 0; i < step.count; ++i) {
    const Term x = member(f, step, 0, i), g = gradient(f, step, i, penalty);
    const DType t = f.dtype(x);
    const Term n = f.cast(step.updates, t), given = f.cast(step.rate, t);
    const auto unseen = [&](double factor) {  // 1 - factor^n
      return -(call("pow", f.number(t, factor), n) - 1);
    };
    const Term corrected = given * call("sqrt", unseen(beta)) / unseen(alpha);
    const Term rate = where(call("lt", f.number(t, 0), n), corrected, given);
    means.push_back(member(f, step, 2, i) * alpha + g * (1 - alpha));
    squares.push_back(member(f, step, 3, i) * beta + g * g * (1 - beta));
    const Term moved = x - rate * means.back() / (call("sqrt", squares.back()) + epsilon);
    xs.push_back(shrink == 0 ? moved : moved * (1 - shrink));
  }
  return outputs(f, c, {xs, means, squares});
}

Result<Values> import_momentum(Context& c) {
  TESSERA_TRY(const double alpha, c.number("alpha"));
  TESSERA_TRY(const double beta, c.number("beta"));
  TESSERA_TRY(const double penalty, c.number("norm_coefficient"));
  TESSERA_TRY(const std::string mode, c.word("mode"));
  if (mode != "standard" && mode != "nesterov") {
    return make_error(ErrorCode::kInvalidArgument, "mode '{}' is not standard or nesterov", mode);
  }
  Formula f(c);
  TESSERA_TRY(const Step step, read_step(f, c, 3));
  std::vector<Term> xs, momenta;
  for (std::size_t i = 0; i < step.count; ++i) {
    const Term x = member(f, step, 0, i), g = gradient(f, step, i, penalty);
    const DType t = f.dtype(x);
    // The first update takes the whole gradient.
    const Term first = call("eq", step.updates, 0);
    const Term weight = where(first, f.number(t, 1), f.number(t, beta));
    const Term v = member(f, step, 2, i) * alpha + weight * g;
    momenta.push_back(v);
    xs.push_back(x - f.cast(step.rate, t) * (mode == "nesterov" ? g + v * alpha : v));
  }
  return outputs(f, c, {xs, momenta});
}

}  // namespace

std::vector<OnnxOp> training_rows() {
  return {
      {"Adagrad", 1, 5, -1, import_adagrad, kDomain},
      {"Adam", 1, 6, -1, import_adam, kDomain},
      {"Momentum", 1, 5, -1, import_momentum, kDomain},
  };
}

}  // namespace tessera::onnx
