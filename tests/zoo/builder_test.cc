// Weights, and models on their way through a file.
#include <cmath>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tessera/frontend/zoo/weights.h"
#include "tessera/frontend/zoo/zoo.h"

namespace tessera::zoo {
namespace {

const HostTensor& weight(const onnx::Model& model, const std::string& name) {
  for (const onnx::Initializer& init : model.graph.initializers) {
    if (init.name == name) return std::get<HostTensor>(init.value);
  }
  throw std::runtime_error("no weight " + name);
}

bool same_bytes(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

TEST(Weights, UniformWithinBoundsAndWithTheVarianceAsked) {
  HostTensor t(DType::kF32, {1001, 33});
  fill_random(t, "w", {.centre = 3, .half_width = 0.5});
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    ASSERT_GE(t.get_float(i), 2.5);
    ASSERT_LE(t.get_float(i), 3.5);
    sum += t.get_float(i);
    squares += t.get_float(i) * t.get_float(i);
  }
  const auto n = static_cast<double>(t.size());
  const double mean = sum / n;
  EXPECT_NEAR(mean, 3, 0.01);
  EXPECT_NEAR(squares / n - mean * mean, 0.25 / 3, 0.002);
}

TEST(Weights, FiltersAreStandardized) {
  HostTensor t(DType::kF32, {64, 27});
  fill_random(t, "w", spread_filters(0.2, 27, true));
  for (std::int64_t r = 0; r < 64; ++r) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < 27; ++i) {
      const double x = t.get_float(r * 27 + i);
      sum += x;
      squares += x * x;
    }
    EXPECT_NEAR(sum, 0, 1e-5);
    EXPECT_NEAR(std::sqrt(squares / 27), 0.2, 1e-5);
  }
}

TEST(Weights, HalfIsTheRoundedFloat) {
  HostTensor full(DType::kF32, {40'001}), half(DType::kF16, {40'001});
  fill_random(full, "w", spread(0.1));
  fill_random(half, "w", spread(0.1));
  for (std::int64_t i = 0; i < full.size(); ++i) {
    ASSERT_EQ(half.get_float(i), round_float(DType::kF16, full.get_float(i)));
  }
}

TEST(Weights, DependOnTheNameOnly) {
  const auto one = make_model("resnet18@size=32");
  const auto other = make_model("resnet18@size=64,batch=2,classes=10");
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_TRUE(
      same_bytes(weight(*one, "layer1.0.conv1.weight"), weight(*other, "layer1.0.conv1.weight")));
  EXPECT_FALSE(
      same_bytes(weight(*one, "layer1.0.conv1.weight"), weight(*one, "layer1.0.conv2.weight")));
  EXPECT_FALSE(
      same_bytes(weight(*one, "layer1.0.bn1.weight"), weight(*one, "layer1.0.bn1.running_var")));
}

TEST(Weights, NormalisationIsRealistic) {
  const auto model = make_model("densenet121@size=32");
  ASSERT_TRUE(model.ok());
  for (const onnx::Initializer& init : model->graph.initializers) {
    if (!init.name.ends_with(".running_var")) continue;
    const auto& var = std::get<HostTensor>(init.value);
    for (std::int64_t i = 0; i < var.size(); ++i) {
      ASSERT_GT(var.get_float(i), 0.05) << init.name;
      ASSERT_LT(var.get_float(i), 20) << init.name;
    }
  }
}

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, SameModelAfterSerializing) {
  const auto model = make_model(GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto bytes = onnx::serialize_model(*model);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  const auto again = onnx::parse_model(*bytes, "");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->opsets, model->opsets);
  ASSERT_EQ(again->graph.nodes.size(), model->graph.nodes.size());
  for (std::size_t i = 0; i < model->graph.nodes.size(); ++i) {
    EXPECT_EQ(again->graph.nodes[i].op_type, model->graph.nodes[i].op_type);
    EXPECT_EQ(again->graph.nodes[i].inputs, model->graph.nodes[i].inputs);
    EXPECT_EQ(again->graph.nodes[i].outputs, model->graph.nodes[i].outputs);
    EXPECT_EQ(again->graph.nodes[i].attributes.size(), model->graph.nodes[i].attributes.size());
  }
  ASSERT_EQ(again->graph.initializers.size(), model->graph.initializers.size());
  for (const onnx::Initializer& init : model->graph.initializers) {
    EXPECT_TRUE(same_bytes(std::get<HostTensor>(init.value), weight(*again, init.name)))
        << init.name;
  }
  // The same spec gives the same file.
  EXPECT_EQ(*bytes, *onnx::serialize_model(*make_model(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Zoo, RoundTrip,
                         ::testing::Values("mlp", "mlp@quant=dynamic", "mlp@quant=qdq",
                                           "mlp@dtype=f16", "mlp@dtype=bf16", "lenet", "squeezenet",
                                           "shufflenet@size=32",
                                           "bert_mini@vocab=100,layers=1,seq=8",
                                           "gpt2@vocab=100,layers=1,hidden=24,seq=8",
                                           "lstm_lm@vocab=50,hidden=16,seq=3"));

}  // namespace
}  // namespace tessera::zoo
