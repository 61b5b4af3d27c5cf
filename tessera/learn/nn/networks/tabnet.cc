// TabNet as the encoder of rows: several steps, each of which reads the columns that its mask
// chooses. Two things differ from the paper. Layer norm stands for ghost batch norm, so that a
// score never depends on the batch. Softmax stands for sparsemax, whose threshold needs a sort;
// its masks are multiplied by the number of columns, so that an even one leaves the row as it is.
#include <cmath>

#include "tessera/learn/nn/blocks.h"
#include "tessera/learn/nn/networks/networks.h"

namespace tessera::nn {
namespace {

constexpr double kReuse = 1.3;  // how freely steps choose the same column; 1: only once
constexpr int kShared = 2, kOwn = 2;

// Gated layers, each added to the one before; the linear parts of the first ones are shared by all
// steps.
class FeatureTransformer {
 public:
  FeatureTransformer(NetworkBuilder& b, std::int64_t columns, std::int64_t width)
      : b_(b), width_(width) {
    for (int i = 0; i < kShared; ++i) {
      shared_.push_back(b.linear_layer(fmt::format("shared{}", i), i == 0 ? columns : width,
                                       2 * width, /*bias=*/false));
    }
  }

  ValueId operator()(ValueId x, const std::string& name) const {
    for (int i = 0; i < kShared + kOwn; ++i) {
      const std::string layer = fmt::format("{}.glu{}", name, i);
      const ValueId y = i < kShared ? b_.apply(shared_[static_cast<std::size_t>(i)], x)
                                    : b_.linear(x, 2 * width_, layer, /*bias=*/false);
      const ValueId z = b_.layer_norm(y, layer + ".norm");
      const ValueId gated =
          b_.mul(b_.slice(z, 1, 0, width_), b_.sigmoid(b_.slice(z, 1, width_, width_)));
      x = i == 0 ? gated : b_.mul(b_.add(x, gated), b_.scalar(std::sqrt(0.5)));
    }
    return x;
  }

 private:
  NetworkBuilder& b_;
  std::int64_t width_;
  std::vector<Linear> shared_;
};

// Rows with the context behind each: masks choose among all columns.
ValueId all_columns(NetworkBuilder& b, const Inputs& inputs) {
  if (inputs.context == graph::kNoValue) return b.flat(inputs.rows);
  const std::int64_t width = b.width(inputs.context);
  const ValueId context = b.reshape(inputs.context, {b.batch(), 1, width});
  const ValueId repeated = b.expand(context, {b.batch(), b.rows(), width});
  return b.flat(b.concat({inputs.rows, repeated}, 2));
}

ValueId encode(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper) {
  const std::int64_t decision = hyper.at("n_d"), attention = hyper.at("n_a");
  const ValueId x = all_columns(b, inputs);
  const std::int64_t columns = b.width(x);
  const FeatureTransformer transform(b, columns, decision + attention);
  const auto attend = [&](ValueId v) { return b.slice(v, 1, decision, attention); };
  ValueId a = attend(transform(x, "start"));
  ValueId prior = graph::kNoValue, sum = graph::kNoValue;
  for (std::int64_t i = 0; i < hyper.at("steps"); ++i) {
    const std::string name = fmt::format("step{}", i);
    ValueId choice = b.layer_norm(b.linear(a, columns, name + ".mask", false), name + ".norm");
    if (i > 0) choice = b.mul(prior, choice);
    const ValueId mask = b.softmax(choice);
    const ValueId scaled = b.mul(mask, b.scalar(static_cast<double>(columns)));
    const ValueId y = transform(b.mul(x, scaled), name);
    const ValueId part = b.relu(b.slice(y, 1, 0, decision));
    sum = i == 0 ? part : b.add(sum, part);
    if (i + 1 == hyper.at("steps")) break;
    const ValueId left = b.sub(b.scalar(kReuse), mask);
    prior = i == 0 ? left : b.mul(prior, left);
    a = attend(y);
  }
  return sum_rows(b, inputs, sum);
}

}  // namespace

NetworkEntry tabnet_network() {
  return {"tabnet",
          "steps that each read the columns a mask chooses, then a sum",
          Rows::kStatement,
          {{"hidden", 256}, {"n_d", 64}, {"n_a", 64}, {"steps", 3}},
          encode};
}

}  // namespace tessera::nn
