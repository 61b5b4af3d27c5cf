// Normalisations, losses and steps of optimizers.
#include <algorithm>

#include "draw.h"

namespace tessera::fuzz {
namespace {

std::string operand(Draw& d, const OpRow& row, Ranks ranks) {
  return d.any(d.type(row.types), ranks, within(-50, 50));
}

bool batch_norm(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {2, 5});
  const DType t = d.dtype(x);
  const Shape c = {d.shape(x)[1]};
  const Range positive = within(0.5, 2);
  const bool train = d.opset >= 14 && elements(d.shape(x)) > 0 && d.chance(0.2);
  Attributes attributes = {attr("epsilon", 0.01F)};
  if (train) attributes.push_back(attr("training_mode", 1));
  return d.emit(
      row.name,
      {x, d.weight(t, c, positive), d.weight(t, c), d.weight(t, c), d.weight(t, c, positive)},
      attributes, train ? 3 : 1);
}

bool instance_norm(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {3, 5});
  const Shape c = {d.shape(x)[1]};
  return d.emit(row.name, {x, d.weight(d.dtype(x), c), d.weight(d.dtype(x), c)},
                {attr("epsilon", 0.01F)});
}

bool group_norm(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {3, 5});
  const std::int64_t c = d.shape(x)[1];
  if (c == 0) return false;
  Shape groups;
  for (std::int64_t g = 1; g <= c; ++g) {
    if (c % g == 0) groups.push_back(g);
  }
  const std::int64_t g = d.one_of(groups);
  const Shape w = {d.opset < 21 ? g : c};
  return d.emit(row.name, {x, d.weight(d.dtype(x), w), d.weight(d.dtype(x), w)},
                {attr("num_groups", g), attr("epsilon", 0.01F)});
}

bool layer_norm(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {1, 5});
  const std::int64_t rank = d.rank(x), axis = d.axis(rank);
  const Shape s = d.shape(x);
  const Shape w(s.begin() + (axis < 0 ? axis + rank : axis), s.end());
  Names in = {x, d.weight(d.dtype(x), w)};
  const bool rms = row.name != std::string("LayerNormalization");
  if (!rms && d.chance(0.6)) in.push_back(d.weight(d.dtype(x), w));
  return d.emit(row.name, in, {attr("axis", axis), attr("epsilon", 0.01F)},
                !rms && d.chance(0.2) ? 3 : 1);
}

// Written out as exporters do it, for the pass that finds it.
bool spelled_norm(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {2, 4});
  const DType t = d.dtype(x);
  const auto mean = [&](const std::string& v) {
    const Shape last = {-1};
    return d.opset >= 18 ? d.emit("ReduceMean", {v, d.integers(last)})
                         : d.emit("ReduceMean", {v}, {attr("axes", last)});
  };
  if (!mean(x) || !d.emit("Sub", {x, Names(d.outputs)[0]})) return false;
  const std::string centred = d.outputs[0];
  if (!d.emit("Mul", {centred, centred}) || !mean(Names(d.outputs)[0])) return false;
  if (!d.emit("Add", {Names(d.outputs)[0], d.scalar(t, 0.0625)})) return false;
  if (!d.emit("Sqrt", {Names(d.outputs)[0]})) return false;
  if (!d.emit("Div", {centred, Names(d.outputs)[0]})) return false;
  const Shape w = {d.shape(x).back()};
  return d.emit("Mul", {Names(d.outputs)[0], d.weight(t, w)});
}

bool lp_norm(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {1, 4});
  return d.emit(row.name, {x}, {attr("axis", d.axis(d.rank(x))), attr("p", d.between(1, 2))});
}

bool mean_variance(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {2, 4});
  return d.emit(row.name, {x}, {attr("axes", Shape{0, d.rank(x) - 1})});
}

bool lrn(Draw& d, const OpRow& row) {
  return d.emit(row.name, {operand(d, row, {3, 5})},
                {attr("size", 2 * d.between(0, 2) + 1), attr("alpha", 0.1F), attr("bias", 1.5F)});
}

bool loss(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row, {2, 4});
  const Shape s = d.shape(x);
  if (elements(s) == 0) return false;
  Shape labels = s;
  labels.erase(labels.begin() + 1);
  Names in = {x, d.fresh(d.type(kIndex), labels, within(0, static_cast<double>(s[1] - 1)))};
  if (d.chance(0.4)) in.push_back(d.weight(d.dtype(x), {s[1]}, within(0.5, 2)));
  Attributes attributes = {
      attr("reduction", d.one_of(std::vector<std::string>{"mean", "sum", "none"}))};
  const bool both = row.name == std::string("SoftmaxCrossEntropyLoss") && d.chance(0.3);
  return d.emit(row.name, in, attributes, both ? 2 : 1);
}

// One tensor, its gradient and the optimizer's state.
bool optimizer(Draw& d, const OpRow& row) {
  const std::string name = row.name;
  const std::string x = operand(d, row, {0, 3});
  const DType t = d.dtype(x);
  const Shape s = d.shape(x);
  Names in = {d.scalar(t, 0.125), d.scalar(DType::kI64, 3), x, d.shaped(t, s, within(-4, 4)),
              d.fresh(t, s, within(0.5, 2))};
  Attributes attributes = {attr("norm_coefficient", 0.125F)};
  if (name == "Adam") in.push_back(d.fresh(t, s, within(0.5, 2)));
  if (name == "Momentum") {
    attributes.insert(attributes.end(),
                      {attr("alpha", 0.5F), attr("beta", 0.75F),
                       attr("mode", std::string(d.chance(0.5) ? "nesterov" : "standard"))});
  }
  return d.emit(name, in, attributes, name == "Adam" ? 3 : 2, row.domain);
}

}  // namespace

std::vector<OpRow> normalization_rows() {
  constexpr Types kWide = bit(DType::kF32) | bit(DType::kF64);
  return {
      {"BatchNormalization", kFloats, batch_norm, 9},
      {"InstanceNormalization", kFloats, instance_norm, 6},
      {"GroupNormalization", kFloats, group_norm, 18},
      {"LayerNormalization", kFloats, layer_norm, 17},
      {"RMSNormalization", kFloats, layer_norm, 23},
      {"ReduceMean", kF32Only, spelled_norm},
      {"LpNormalization", kFloats, lp_norm},
      {"MeanVarianceNormalization", kFloats, mean_variance, 13},
      {"LRN", kFloats, lrn, 13},
      {"NegativeLogLikelihoodLoss", kFloats, loss, 13},
      {"SoftmaxCrossEntropyLoss", kFloats, loss, 13},
      {"Adagrad", kWide, optimizer, 1, kFree, {}, kTraining},
      {"Adam", kWide, optimizer, 1, kFree, {}, kTraining},
      {"Momentum", kWide, optimizer, 1, kFree, {}, kTraining},
  };
}

}  // namespace tessera::fuzz
