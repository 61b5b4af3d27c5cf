// Normalisations: layernorm and rmsnorm nodes in other arrangements, or composed.
#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/softmax.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

std::vector<std::int64_t> axes_from(std::int64_t first, std::int64_t rank) {
  std::vector<std::int64_t> axes;
  for (std::int64_t d = first; d < rank; ++d) axes.push_back(d);
  return axes;
}

// Every input from `first` to `last` is a vector of one element per channel.
Result<void> check_channel_vectors(Context& c, std::size_t first, std::size_t last,
                                   std::int64_t channels) {
  for (std::size_t i = first; i <= last; ++i) {
    if (c.shape(i) != Shape{channels}) {
      return invalid("input {} of shape {} for {} channels", i, to_text(c.shape(i)), channels);
    }
  }
  return {};
}

// x * scale / sqrt(variance + epsilon) + ..., in an order that folds constants to one
// multiplication and one addition per element.
Term scale_and_shift(Term x, Term scale, Term bias, Term mean, Term variance, double epsilon) {
  const Term factor = scale / call("sqrt", variance + epsilon);
  return x * factor + (bias - mean * factor);
}

struct BatchNorm {
  std::int64_t axis = 1, rank = 0;
  double epsilon = 1e-5;
  DType type = DType::kF32;  // of the computation
};

// Outputs Y and the running mean and variance, which move towards those of the batch.
Result<Values> train(Formula& f, Context& c, const BatchNorm& n) {
  TESSERA_TRY(const double momentum, c.number("momentum", 0.9));
  const Term x = f.cast(f.in(0), n.type);
  std::vector<std::int64_t> axes = axes_from(2, n.rank);
  axes.insert(axes.begin(), 0);
  const Term mean = f.reduce("mean", x, axes);
  const Term centred = x - mean;
  const Term variance = f.reduce("mean", centred * centred, axes);
  const auto vector = [&](std::size_t i) {
    return f.along(f.cast(f.in(i), n.type), n.axis, n.rank);
  };
  const Term y = centred * (vector(1) / call("sqrt", variance + n.epsilon)) + vector(2);
  std::vector<Term> outputs = {f.cast(y, c.dtype(0))};
  for (const std::size_t i : {std::size_t{3}, std::size_t{4}}) {
    const Term batch = f.reshape(i == 3 ? mean : variance, c.shape(i));
    const Term running = f.cast(f.in(i), n.type) * momentum + batch * (1 - momentum);
    outputs.push_back(f.cast(running, c.dtype(i)));
  }
  return f.result(outputs);
}

Result<Values> import_batch_norm(Context& c) {
  BatchNorm n{.axis = 1, .rank = c.rank(0), .epsilon = 1e-5, .type = compute_type(c.dtype(0))};
  TESSERA_TRY(n.epsilon, c.number("epsilon", 1e-5));
  TESSERA_TRY(const std::int64_t training, c.integer("training_mode", 0));
  TESSERA_TRY(const std::int64_t spatial, c.integer("spatial", 1));
  if (n.rank < 1) return invalid("an input [N, C, ...] is needed");
  // A vector of rank 1 is one batch of a single channel.
  const std::int64_t channels = n.rank == 1 ? 1 : c.shape(0)[1];
  Formula f(c);
  if (spatial != 0) {
    TESSERA_DO(check_channel_vectors(c, 1, 4, channels));
  }
  if (training != 0) {
    if (n.rank < 2) return invalid("an input [N, C, ...] is needed");
    return train(f, c, n);
  }
  if (c.version < 14 && c.wants(1)) {
    return make_error(ErrorCode::kUnsupported, "outputs of training mode before opset 14");
  }
  // spatial=0 has one mean for each element of an image: it broadcasts as it is.
  const auto vector = [&](std::size_t i) {
    const Term x = f.cast(f.in(i), n.type);
    return spatial != 0 ? f.along(x, n.axis, n.rank) : x;
  };
  const Term y = scale_and_shift(f.cast(f.in(0), n.type), vector(1), vector(2), vector(3),
                                 vector(4), n.epsilon);
  return f.result(y, c.dtype(0));
}

Term layernorm(Formula& f, const std::vector<Term>& inputs, std::int64_t axis, double epsilon) {
  return f.op("layernorm", inputs, {{"axis", axis}, {"epsilon", epsilon}});
}

Result<Values> import_instance_norm(Context& c) {
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-5));
  const std::int64_t rank = c.rank(0);
  if (rank < 3) return invalid("an input [N, C, d...] is needed, not {}", to_text(c.shape(0)));
  TESSERA_DO(check_channel_vectors(c, 1, 2, c.shape(0)[1]));
  Formula f(c);
  return f.result(
      {layernorm(f, {f.in(0), f.along(f.in(1), 1, rank), f.along(f.in(2), 1, rank)}, 2, epsilon)});
}

// Opset 18 scales groups, 21 channels.
Result<Values> import_group_norm(Context& c) {
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-5));
  TESSERA_TRY(const std::int64_t groups, c.integer("num_groups"));
  const Shape shape = c.shape(0);
  if (shape.size() < 2) return invalid("an input [N, C, ...] is needed, not {}", to_text(shape));
  if (groups < 1 || shape[1] % groups != 0) {
    return invalid("{} channels do not make {} groups", shape[1], groups);
  }
  const bool per_group = c.version < 21;
  TESSERA_DO(check_channel_vectors(c, 1, 2, per_group ? groups : shape[1]));
  const std::int64_t size = shape[1] / groups;
  Shape grouped = shape, factor(shape.size(), 1);
  grouped[1] = groups;
  grouped.insert(grouped.begin() + 2, size);
  factor[0] = groups;
  factor[1] = per_group ? 1 : size;
  Formula f(c);
  const Term y = layernorm(
      f, {f.reshape(f.in(0), grouped), f.reshape(f.in(1), factor), f.reshape(f.in(2), factor)}, 2,
      epsilon);
  return f.result({f.reshape(y, shape)});
}

// Mean and 1 / standard deviation of the normalised axes, in f32 unless the data is f64.
std::vector<Term> statistics(Formula& f, Context& c, std::int64_t axis, double epsilon) {
  const std::vector<std::int64_t> axes = axes_from(axis, c.rank(0));
  const Term x = f.wide(0);
  const Term mean = f.reduce("mean", x, axes);
  const Term centred = x - mean;
  const Term variance = f.reduce("mean", centred * centred, axes);
  return {mean, call("recip", call("sqrt", variance + epsilon))};
}

Result<Values> import_layer_norm(Context& c) {
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-5));
  TESSERA_TRY(const std::int64_t given, c.integer("axis", -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  Formula f(c);
  std::vector<Term> inputs = {f.in(0), f.in(1)};
  if (c.has(2)) inputs.push_back(f.in(2));
  std::vector<Term> outputs = {layernorm(f, inputs, axis, epsilon)};
  if (c.wants(1) || c.wants(2)) {
    for (const Term& x : statistics(f, c, axis, epsilon)) outputs.push_back(x);
  }
  return f.result(outputs);
}

Result<Values> import_rms_norm(Context& c) {
  TESSERA_TRY(const double epsilon, c.number("epsilon", 1e-5));
  TESSERA_TRY(const std::int64_t given, c.integer("axis", -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  Formula f(c);
  return f.result({f.op("rmsnorm", {f.in(0), f.in(1)}, {{"axis", axis}, {"epsilon", epsilon}})});
}

Result<Values> import_lp_norm(Context& c) {
  TESSERA_TRY(const std::int64_t p, c.integer("p", 2));
  TESSERA_TRY(const std::int64_t given, c.integer("axis", -1));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  if (p != 1 && p != 2) return invalid("p={} is not 1 or 2", p);
  Formula f(c);
  const Term x = f.wide(0);
  const Term norm = p == 1 ? f.reduce("sum", call("abs", x), {axis})
                           : call("sqrt", f.reduce("sum", x * x, {axis}));
  // A row of zeros stays zero.
  return f.result(x / where(call("eq", norm, 0), 1, norm), c.dtype(0));
}

Result<Values> import_mean_variance_norm(Context& c) {
  TESSERA_TRY(std::vector<std::int64_t> axes,
              c.integers("axes", std::vector<std::int64_t>{0, 2, 3}));
  for (std::int64_t& axis : axes) {
    TESSERA_TRY(axis, c.axis(axis, c.rank(0)));
  }
  constexpr double kEpsilon = 1e-9;  // added to the deviation; part of the operator's definition
  Formula f(c);
  const Term x = f.wide(0);
  const Term centred = x - f.reduce("mean", x, axes);
  const Term deviation = call("sqrt", f.reduce("mean", centred * centred, axes));
  return f.result(centred / (deviation + kEpsilon), c.dtype(0));
}

Result<Values> import_lrn(Context& c) {
  TESSERA_TRY(const std::int64_t size, c.integer("size"));
  TESSERA_TRY(const double alpha, c.number("alpha", 1e-4));
  TESSERA_TRY(const double beta, c.number("beta", 0.75));
  TESSERA_TRY(const double bias, c.number("bias", 1));
  Formula f(c);
  return f.result(
      {f.op("lrn", {f.in(0)}, {{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", bias}})});
}

}  // namespace

std::vector<OnnxOp> normalization_rows() {
  std::vector<OnnxOp> rows = {
      {"BatchNormalization", 1, 5, 5, import_batch_norm},
      {"GroupNormalization", 18, 3, 3, import_group_norm},
      {"InstanceNormalization", 1, 3, 3, import_instance_norm},
      {"LRN", 1, 1, 1, import_lrn},
      {"LayerNormalization", 1, 2, 3, import_layer_norm},
      {"LpNormalization", 1, 1, 1, import_lp_norm},
      {"MeanVarianceNormalization", 9, 1, 1, import_mean_variance_norm},
      {"RMSNormalization", 23, 2, 2, import_rms_norm},
  };
  for (const auto family : {softmax_rows, loss_rows}) {
    for (const OnnxOp& row : family()) rows.push_back(row);
  }
  return rows;
}

}  // namespace tessera::onnx
