// Losses of classification: of training graphs, and of models that were exported with their loss.
#include "tessera/frontend/onnx/ops/softmax.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

Result<void> check_shapes(Context& c) {
  const Shape scores = c.shape(0), target = c.shape(1);  // [N, C, d...] and [N, d...]
  if (scores.size() < 2) return invalid("scores of shape {} have no classes", to_text(scores));
  Shape expected = scores;
  expected.erase(expected.begin() + 1);
  if (target != expected) {
    return invalid("labels of shape {} for scores of shape {}", to_text(target), to_text(scores));
  }
  if (c.has(2) && c.shape(2) != Shape{scores[1]}) {
    return invalid("weights of shape {} for {} classes", to_text(c.shape(2)), scores[1]);
  }
  return {};
}

// Minus the log probability of each label, with its weight: null when all weigh the same.
struct Losses {
  Term loss;
  Term weight;
  bool weighted = false;
};

Losses label_losses(Formula& f, Context& c, Term log_probability,
                    std::optional<std::int64_t> ignore) {
  Shape single = c.shape(0);
  single[1] = 1;
  const Shape labels = c.shape(1);
  Term label = f.in(1), ignored;
  if (ignore) {
    ignored = call("eq", label, f.constant([&] {
      HostTensor t(c.dtype(1), {});
      t.set_int(0, *ignore);
      return t;
    }()));
    label = where(ignored, 0, label);  // any valid class: its loss is dropped
  }
  const Term picked = f.op("gather_elements", {log_probability, f.reshape(label, single)},
                           {{"axis", std::int64_t{1}}});
  Losses out{.loss = -f.reshape(picked, labels), .weight = {}, .weighted = c.has(2) || ignore};
  const DType t = f.dtype(out.loss);
  if (c.has(2)) {
    out.weight = f.op("gather", {f.cast(f.in(2), t), label}, {{"axis", std::int64_t{0}}});
  }
  if (ignore) {
    out.weight = c.has(2) ? where(ignored, 0, out.weight) : f.cast(call("not", ignored), t);
  }
  if (out.weighted) out.loss = out.loss * out.weight;
  return out;
}

Result<Values> import_loss(Context& c) {
  TESSERA_DO(check_shapes(c));
  TESSERA_TRY(const std::string reduction, c.word("reduction", "mean"));
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    return invalid("reduction={} is not none, sum or mean", reduction);
  }
  std::optional<std::int64_t> ignore;
  if (c.has_attribute("ignore_index")) {
    TESSERA_TRY(ignore, c.integer("ignore_index"));
  }
  const bool softmax = c.node.op_type == "SoftmaxCrossEntropyLoss";
  const DType t = c.dtype(0);
  Formula f(c);
  const Term scores = f.wide(0);
  const Term log_probability = softmax ? log_softmax(f, scores, 1) : scores;
  const Losses losses = label_losses(f, c, log_probability, ignore);
  Term y = losses.loss;
  if (reduction != "none") {
    std::vector<std::int64_t> axes;
    for (std::int64_t d = 0; d < c.rank(1); ++d) axes.push_back(d);
    const bool mean = reduction == "mean";
    y = f.reduce(mean && !losses.weighted ? "mean" : "sum", y, axes, false);
    if (mean && losses.weighted) y = y / f.reduce("sum", losses.weight, axes, false);
  }
  std::vector<Term> outputs = {f.cast(y, t)};
  if (softmax && c.wants(1)) outputs.push_back(f.cast(log_probability, t));
  return f.result(outputs);
}

}  // namespace

std::vector<OnnxOp> loss_rows() {
  return {
      {"NegativeLogLikelihoodLoss", 12, 2, 3, import_loss},
      {"SoftmaxCrossEntropyLoss", 12, 2, 3, import_loss},
  };
}

}  // namespace tessera::onnx
