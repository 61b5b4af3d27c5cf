// tessera/app/quantize: weights in blocks and floats of eight bits, and the opset that they need.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/app/quantize/model_index.h"
#include "tessera/app/quantize/quantize.h"
#include "tessera/app/quantize/raise_opset.h"
#include "tessera/support/check.h"
#include "tests/onnx/model_builder.h"

namespace tessera::app {
namespace {

using onnx::testing::float_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using onnx::testing::value_info;
using ::testing::HasSubstr;

HostTensor drawn(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return random_tensor(DType::kF32, shape, rng);
}

onnx::Attribute number(const std::string& name, std::int64_t value) { return {name, value, ""}; }

// i[2,3] -> rows of a table [10,40] -> MatMul [40,24] + bias -> mean over the rows -> Gemm [5,24].
onnx::Model words(std::int64_t opset = 17) {
  std::vector<onnx::Node> nodes = {
      make_node("Gather", {"table", "i"}, {"rows"}), make_node("MatMul", {"rows", "w"}, {"p"}),
      make_node("Add", {"p", "b"}, {"s"}),
      make_node("ReduceMean", {"s"}, {"m"},
                {{"axes", std::vector<std::int64_t>{1}, ""}, number("keepdims", 0)}),
      make_node("Gemm", {"m", "v", "c"}, {"y"}, {number("transB", 1)})};
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i);
  return make_model(make_graph({value_info("i", DType::kI64, {2, 3})}, std::move(nodes), {"y"},
                               {{"table", drawn({10, 40}, 1)},
                                {"w", drawn({40, 24}, 2)},
                                {"b", drawn({24}, 3)},
                                {"v", drawn({5, 24}, 4)},
                                {"c", drawn({5}, 5)}}),
                    opset);
}

CalibrationData indices() {
  CalibrationData data;
  for (std::int64_t s = 0; s < 3; ++s) {
    HostTensor i(DType::kI64, {2, 3});
    for (std::int64_t k = 0; k < 6; ++k) i.set_int(k, (k * 3 + s) % 10);
    data.samples.push_back({{"i", std::move(i)}});
  }
  return data;
}

Result<QuantizedModel> in_blocks(const onnx::Model& model, const QuantizeOptions& options,
                                 const CalibrationData& data = indices()) {
  return quantize(model, data, options, {}, {});
}

int nodes_of(const onnx::Model& model, const std::string& op) {
  return static_cast<int>(std::ranges::count(model.graph.nodes, op, &onnx::Node::op_type));
}

HostTensor first_output(const onnx::Model& model, const Sample& sample) {
  auto runner = SampleRunner::open(model, {});
  EXPECT_TRUE(runner.ok()) << runner.error().message;
  const Result<void> ran = runner->run(sample);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  return runner->output(0).clone();
}

double squared_error_of(const std::vector<float>& weights, const Block& b, double low,
                        double high) {
  double sum = 0;
  for (const float w : weights) {
    const double q = std::clamp(std::nearbyint(w / b.scale) + b.zero, low, high);
    sum += std::pow((q - b.zero) * b.scale - w, 2);
  }
  return sum;
}

TEST(BlockWeights, ScalesHaveLessErrorThanTheRangeAlone) {
  Rng rng(7);
  double plain = 0, best = 0;
  for (int block = 0; block < 100; ++block) {
    std::vector<float> w(32);
    for (float& x : w) {
      x = 0;
      for (int k = 0; k < 6; ++k) x += static_cast<float>(rng.uniform() * 2 - 1);  // a bell
    }
    double peak = 0;
    for (const float x : w) peak = std::max(peak, std::abs(double{x}));
    const double range = squared_error_of(w, {static_cast<float>(peak / 7), 0}, -8, 7);
    const double found = squared_error_of(w, fit_block(w, {}), -8, 7);
    EXPECT_LE(found, range);
    plain += range;
    best += found;
  }
  EXPECT_LT(best, 0.9 * plain);
}

TEST(BlockWeights, ZeroPointsServeOneSidedWeights) {
  std::vector<float> w(32);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 1 + static_cast<float>(i) / 8;
  const Block even = fit_block(w, {}), shifted = fit_block(w, {.symmetric = false});
  EXPECT_EQ(even.zero, 0);
  EXPECT_LT(squared_error_of(w, shifted, 0, 15), 0.5 * squared_error_of(w, even, -8, 7));
  EXPECT_EQ(fit_block(std::vector<float>(8, 0), {}).scale, 1);
  EXPECT_EQ(fit_block({1e-40F, 0}, {.symmetric = false}).scale, 1);
}

TEST(BlockWeights, MatricesAndTablesAreStandardBlocks) {
  const auto q = in_blocks(words(), {.scheme = Scheme::kInt4Weights});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->layers.size(), 3u);
  EXPECT_GT(q->accuracy->cosine, 0.98);
  EXPECT_EQ(q->model.opsets.at(""), 21);
  EXPECT_GE(q->model.ir_version, 10);
  EXPECT_EQ(nodes_of(q->model, "DequantizeLinear"), 3);
  for (const onnx::Node& node : q->model.graph.nodes) {
    if (node.op_type != "DequantizeLinear") continue;
    EXPECT_EQ(node.inputs.size(), 2u);
    EXPECT_EQ(node.domain, "");
  }
  for (const onnx::Initializer& i : q->model.graph.initializers) {
    const auto* narrow = std::get_if<onnx::ForeignTensor>(&i.value);
    if (i.name == "table_quantized" || i.name == "w_quantized") {
      ASSERT_NE(narrow, nullptr) << i.name;
      EXPECT_EQ(narrow->type, "int4");
    }
    // 40 rows in blocks of 32 have two scales.
    if (i.name == "w_scale") {
      EXPECT_EQ(std::get<HostTensor>(i.value).shape(), (Shape{2, 24}));
    }
    if (i.name == "v_scale") {
      EXPECT_EQ(std::get<HostTensor>(i.value).shape(), (Shape{5, 1}));
    }
  }
}

TEST(BlockWeights, EveryFormComputesTheSame) {
  const Sample sample = indices().samples[1];
  for (const Scheme scheme : {Scheme::kInt4Weights, Scheme::kInt8Weights}) {
    for (const bool symmetric : {true, false}) {
      std::vector<HostTensor> outputs;
      for (const BlockForm form : {BlockForm::kDequantize, BlockForm::kMatMulNBits}) {
        const auto q = in_blocks(
            words(),
            {.scheme = scheme, .blocks = {.size = 64, .symmetric = symmetric}, .form = form});
        ASSERT_TRUE(q.ok()) << q.error().message;
        EXPECT_EQ(nodes_of(q->model, "MatMulNBits"), form == BlockForm::kMatMulNBits ? 2 : 0);
        const auto bytes = onnx::serialize_model(q->model);
        ASSERT_TRUE(bytes.ok()) << bytes.error().message;
        const auto back = onnx::parse_model(*bytes, "");
        ASSERT_TRUE(back.ok()) << back.error().message;
        outputs.push_back(first_output(*back, sample));
      }
      for (std::int64_t i = 0; i < outputs[0].size(); ++i)
        EXPECT_NEAR(outputs[0].get_float(i), outputs[1].get_float(i), 1e-4);
    }
  }
}

TEST(BlockWeights, MoreBitsAreNearer) {
  const auto error = [](Scheme scheme, std::int64_t size) {
    const auto q = in_blocks(
        words(), {.scheme = scheme, .tolerance = {.at_least = 0}, .blocks = {.size = size}});
    return 1 - q->accuracy->cosine;
  };
  EXPECT_LT(error(Scheme::kInt8Weights, 32), 0.1 * error(Scheme::kInt4Weights, 32));
}

TEST(BlockWeights, NeedNoSamplesAndKeepWhatIsAsked) {
  const auto q = in_blocks(words(), {.scheme = Scheme::kInt4Weights, .keep = {"n1"}}, {});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_FALSE(q->accuracy.has_value());
  EXPECT_EQ(q->layers[1].kept, QuantizedLayer::Kept::kAsked);
  EXPECT_EQ(nodes_of(q->model, "DequantizeLinear"), 2);
}

TEST(BlockWeights, SensitiveLayersStayFloat) {
  QuantizeOptions options{.scheme = Scheme::kInt4Weights};
  options.tolerance.at_least = 1;
  const auto q = in_blocks(words(), options);
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(nodes_of(q->model, "DequantizeLinear"), 0);
  for (const QuantizedLayer& layer : q->layers) EXPECT_GT(layer.error, 0) << layer.name;
}

TEST(BlockWeights, WeightsThatAreNotFiniteStayFloat) {
  onnx::Model model = words();
  for (onnx::Initializer& i : model.graph.initializers) {
    auto& t = std::get<HostTensor>(i.value);
    if (i.name == "table") t.set_float(3, -std::numeric_limits<double>::infinity());
    if (i.name == "w") t.set_float(7, std::numeric_limits<double>::quiet_NaN());
  }
  const auto q = in_blocks(model, {.scheme = Scheme::kInt4Weights}, {});
  ASSERT_TRUE(q.ok()) << q.error().message;
  ASSERT_EQ(q->layers.size(), 1u);
  EXPECT_EQ(q->layers[0].name, "n4");
}

TEST(BlockWeights, ATableThatOthersReadStaysFloat) {
  onnx::Model model = words();
  model.graph.nodes.push_back(make_node("Transpose", {"table"}, {"turned"}));
  model.graph.nodes.push_back(make_node("MatMul", {"rows", "turned"}, {"scores"}));
  model.graph.outputs.push_back({.name = "scores", .type = "f32"});
  const auto q = in_blocks(model, {.scheme = Scheme::kInt4Weights});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->layers.size(), 2u);
}

// Where the opset cannot be raised, the operators are those of com.microsoft.
TEST(BlockWeights, OldModelsTakeTheOperatorOfMicrosoft) {
  const auto q = in_blocks(words(12), {.scheme = Scheme::kInt4Weights});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->model.opsets.at(""), 12);
  EXPECT_EQ(q->model.opsets.at("com.microsoft"), 1);
  EXPECT_GT(q->accuracy->cosine, 0.98);
  const onnx::Model relu = make_model(
      make_graph({value_info("x", DType::kF32, {2})}, {make_node("Relu", {"x"}, {"y"})}, {"y"}));
  const auto nothing = in_blocks(relu, {.scheme = Scheme::kInt4Weights}, {});
  ASSERT_FALSE(nothing.ok());
  EXPECT_THAT(nothing.error().message, HasSubstr("no Gemm, MatMul or Gather"));
}

TEST(ShortFloats, LayersReadThemWithOneScaleForValues) {
  const auto q = in_blocks(words(), {.scheme = Scheme::kF8});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_GT(q->accuracy->cosine, 0.99);
  EXPECT_EQ(q->model.opsets.at(""), 19);
  EXPECT_EQ(nodes_of(q->model, "QuantizeLinear"), 2);
  for (const onnx::Initializer& i : q->model.graph.initializers) {
    if (!i.name.ends_with("_zero_point") && !i.name.ends_with("_quantized")) continue;
    EXPECT_EQ(std::get<HostTensor>(i.value).dtype(), DType::kF8E4M3) << i.name;
  }
  const ByteScale s = short_float_scale({-896, 10});
  EXPECT_EQ(s.scale, 2);
  EXPECT_EQ(s.zero, 0);
  const auto old = in_blocks(words(12), {.scheme = Scheme::kF8});
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(old.error().message, HasSubstr("opset 12 cannot be raised to 19"));
  const auto blind = in_blocks(words(), {.scheme = Scheme::kF8}, {});
  ASSERT_FALSE(blind.ok());
  EXPECT_THAT(blind.error().message, HasSubstr("fp8 needs calibration data"));
}

TEST(RaiseOpset, AxesBecomeInputsAndSplitsAreCounted) {
  onnx::Model model = make_model(
      make_graph(
          {value_info("x", DType::kF32, {2, 6})},
          {make_node("Split", {"x"}, {"a", "b"}, {number("axis", 1)}),
           make_node("ReduceMax", {"a"}, {"y"}, {{"axes", std::vector<std::int64_t>{1}, ""}}),
           make_node("ReduceMin", {"b"}, {"z"})},
          {"y", "z"}),
      13);
  const Sample sample = {{"x", drawn({2, 6}, 1)}};
  const HostTensor before = first_output(model, sample);
  const auto raised = raise_opset(model, 21);
  ASSERT_TRUE(raised.ok()) << raised.error().message;
  EXPECT_EQ(model.opsets.at(""), 21);
  EXPECT_NE(model.graph.nodes[0].find("num_outputs"), nullptr);
  EXPECT_EQ(model.graph.nodes[1].find("axes"), nullptr);
  EXPECT_EQ(model.graph.nodes[1].inputs.size(), 2u);
  EXPECT_EQ(model.graph.nodes[2].inputs.size(), 1u);
  const HostTensor after = first_output(model, sample);
  for (std::int64_t i = 0; i < 2; ++i) EXPECT_EQ(after.get_float(i), before.get_float(i));
}

// What operators mean after kNewestOpset is not known.
TEST(RaiseOpset, NobodyMayAskForANewerOne) {
  onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {2})}, {make_node("Relu", {"x"}, {"y"})}, {"y"}),
      13);
  EXPECT_THROW((void)raise_opset(model, kNewestOpset + 1), InternalError);
  EXPECT_EQ(model.opsets.at(""), 13);
}

// What is wrong with such a model is for import to say.
TEST(RaiseOpset, NodesWithoutOutputsStay) {
  onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {2, 6})},
                 {make_node("ReduceMax", {"x"}, {}, {{"axes", std::vector<std::int64_t>{1}, ""}}),
                  make_node("GridSample", {"x", "x"}, {}), make_node("Relu", {"x"}, {"y"})},
                 {"y"}),
      13);
  model.graph.nodes.push_back(make_node("Constant", {}, {}, {{"value", drawn({2}, 1), ""}}));
  EXPECT_TRUE(raise_opset(model, 21).ok());
  EXPECT_EQ(ModelIndex(model.graph).constant("y"), nullptr);
  drop_unused_constants(model.graph);
  EXPECT_EQ(model.graph.nodes.size(), 4u);
}

TEST(RaiseOpset, WhatMeansSomethingElseIsNamedAndNothingChanges) {
  const auto with = [](const char* op, std::int64_t opset) {
    return make_model(make_graph({value_info("x", DType::kF32, {1, 2, 3, 3})},
                                 {make_node("ReduceMean", {"x"}, {"m"},
                                            {{"axes", std::vector<std::int64_t>{1}, ""}}),
                                  make_node(op, {"x", "x"}, {"y"})},
                                 {"y"}),
                      opset);
  };
  onnx::Model grid = with("GridSample", 17);
  const auto refused = raise_opset(grid, 21);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("GridSample 'y'"));
  EXPECT_EQ(grid.opsets.at(""), 17);
  EXPECT_EQ(grid.graph.nodes[0].inputs.size(), 1u);
  EXPECT_TRUE(raise_opset(grid, 19).ok());
  onnx::Model functions = with("Add", 17);
  functions.functions.emplace_back();
  EXPECT_THAT(raise_opset(functions, 21).error().message, HasSubstr("functions"));
  onnx::Model inner = with("Identity", 17);
  auto body = std::make_shared<onnx::Graph>(grid.graph);
  inner.graph.nodes[1].attributes.push_back(
      {"body", std::shared_ptr<const onnx::Graph>(std::move(body)), ""});
  EXPECT_THAT(raise_opset(inner, 21).error().message, HasSubstr("GridSample"));
}

}  // namespace
}  // namespace tessera::app
