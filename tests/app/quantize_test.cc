// tessera/app/quantize: passes keep what a model computes, and narrow layers are as near as asked.
#include "tessera/app/quantize/quantize.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/quantize/equalize_layers.h"
#include "tessera/app/quantize/fold_batch_norms.h"
#include "tessera/app/quantize/quantize_page.h"
#include "tessera/app/quantize/smooth_layers.h"
#include "tests/onnx/model_builder.h"

namespace tessera::app {
namespace {

using onnx::testing::float_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using onnx::testing::value_info;
using ::testing::HasSubstr;

HostTensor random_floats(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return random_tensor(DType::kF32, shape, rng);
}

onnx::Attribute ints(const std::string& name, std::vector<std::int64_t> values) {
  return {name, std::move(values), ""};
}

// x[1,3,8,8] -> Conv 3x3 -> Relu -> MaxPool -> Conv 1x1 -> + itself of the pool -> mean -> Gemm.
onnx::Model convolutions(std::int64_t opset = 17) {
  HostTensor w1 = random_floats({6, 3, 3, 3}, 1);
  // One channel is far larger than the others: per-tensor scales would lose them.
  for (std::int64_t i = 0; i < 27; ++i) w1.as<float>()[i] *= 20;
  onnx::Graph g = make_graph(
      {value_info("x", DType::kF32, {1, 3, 8, 8})},
      {make_node("Conv", {"x", "w1", "b1"}, {"a"}, {ints("pads", {1, 1, 1, 1})}),
       make_node("Relu", {"a"}, {"r"}),
       make_node("MaxPool", {"r"}, {"p"}, {ints("kernel_shape", {2, 2}), ints("strides", {2, 2})}),
       make_node("Conv", {"p", "w2", "b2"}, {"c"}), make_node("Add", {"c", "p"}, {"s"}),
       make_node("GlobalAveragePool", {"s"}, {"m"}), make_node("Flatten", {"m"}, {"f"}),
       make_node("Gemm", {"f", "w3", "b3"}, {"y"}, {{"transB", std::int64_t{1}, ""}})},
      {"y"},
      {{"w1", w1},
       {"b1", random_floats({6}, 2)},
       {"w2", random_floats({6, 6, 1, 1}, 3)},
       {"b2", random_floats({6}, 4)},
       {"w3", random_floats({5, 6}, 5)},
       {"b3", random_floats({5}, 6)}});
  for (std::size_t i = 0; i < g.nodes.size(); ++i) g.nodes[i].name = "n" + std::to_string(i);
  return make_model(std::move(g), opset);
}

// x[4,8] -> LayerNormalization -> MatMul + bias; with `residual` the norm is added, too.
onnx::Model norm_and_product(bool residual) {
  HostTensor scale(DType::kF32, {8});
  for (std::int64_t i = 0; i < 8; ++i) scale.as<float>()[i] = i == 3 ? 50 : 1;
  std::vector<onnx::Node> nodes = {make_node("LayerNormalization", {"x", "g", "h"}, {"n"}),
                                   make_node("MatMul", {"n", "w"}, {"p"}),
                                   make_node("Add", {"p", "b"}, {residual ? "q" : "y"})};
  if (residual) nodes.push_back(make_node("Add", {"q", "n"}, {"y"}));
  return make_model(make_graph({value_info("x", DType::kF32, {4, 8})}, std::move(nodes), {"y"},
                               {{"g", scale},
                                {"h", random_floats({8}, 2)},
                                {"w", random_floats({8, 8}, 3)},
                                {"b", random_floats({8}, 4)}}));
}

Sample sample_of(const onnx::Model& model, std::uint64_t seed) {
  Shape shape;
  for (const onnx::Dim& d : model.graph.inputs[0].dims) shape.push_back(d.size);
  return {{"x", random_floats(shape, seed)}};
}

HostTensor run(const onnx::Model& model, const Sample& sample) {
  auto runner = SampleRunner::open(model, {});
  EXPECT_TRUE(runner.ok()) << runner.error().message;
  const Result<void> ran = runner->run(sample);
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  return runner->output(0).clone();
}

double largest_difference(const HostTensor& a, const HostTensor& b) {
  double worst = 0, range = 1e-6;
  for (std::int64_t i = 0; i < b.size(); ++i) {
    worst = std::max(worst, std::abs(a.get_float(i) - b.get_float(i)));
    range = std::max(range, std::abs(b.get_float(i)));
  }
  return worst / range;
}

// As many roundings as a few products of a dozen terms have.
constexpr double kRounding = 1e-5;

int count(const onnx::Model& model, const std::string& op) {
  return static_cast<int>(std::ranges::count_if(
      model.graph.nodes, [&](const onnx::Node& n) { return n.op_type == op; }));
}

CalibrationData data_for(const onnx::Model& model, std::size_t samples = 3) {
  CalibrationData data;
  for (std::size_t i = 0; i < samples; ++i) data.samples.push_back(sample_of(model, 100 + i));
  return data;
}

Result<QuantizedModel> quantized(const onnx::Model& model, const QuantizeOptions& options = {}) {
  return quantize(model, data_for(model), options, {}, {});
}

TEST(FoldBatchNorms, KeepsWhatIsComputed) {
  HostTensor variance = float_tensor({4}, {0.5, 1, 2, 3});
  onnx::Model model = make_model(make_graph(
      {value_info("x", DType::kF32, {1, 2, 5, 5})},
      {make_node("Conv", {"x", "w"}, {"a"}),
       make_node("BatchNormalization", {"a", "g", "h", "m", "v"}, {"y"}, {{"epsilon", 0.1f, ""}})},
      {"y"},
      {{"w", random_floats({4, 2, 3, 3}, 1)},
       {"g", random_floats({4}, 2)},
       {"h", random_floats({4}, 3)},
       {"m", random_floats({4}, 4)},
       {"v", variance}}));
  const HostTensor before = run(model, sample_of(model, 7));
  EXPECT_EQ(fold_batch_norms(model.graph), 1);
  EXPECT_EQ(count(model, "BatchNormalization"), 0);
  EXPECT_EQ(model.graph.initializers.size(), 2u);
  EXPECT_LT(largest_difference(run(model, sample_of(model, 7)), before), kRounding);
}

TEST(FoldBatchNorms, LeavesAConvolutionThatOthersRead) {
  onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {1, 1, 5, 5})},
                 {make_node("Conv", {"x", "w"}, {"a"}),
                  make_node("BatchNormalization", {"a", "g", "g", "g", "g"}, {"n"}),
                  make_node("Add", {"a", "n"}, {"y"})},
                 {"y"}, {{"w", random_floats({1, 1, 3, 3}, 1)}, {"g", float_tensor({1}, {2})}}));
  EXPECT_EQ(fold_batch_norms(model.graph), 0);
  EXPECT_EQ(count(model, "BatchNormalization"), 1);
}

TEST(EqualizeLayers, SharesRangesAndKeepsWhatIsComputed) {
  HostTensor w1 = random_floats({4, 3, 3, 3}, 1);
  for (std::int64_t i = 0; i < 27; ++i) w1.as<float>()[i] *= 100;
  onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {1, 3, 6, 6})},
                 {make_node("Conv", {"x", "w1", "b1"}, {"a"}), make_node("Relu", {"a"}, {"r"}),
                  make_node("Conv", {"r", "w2"}, {"d"}, {{"group", std::int64_t{4}, ""}}),
                  make_node("Conv", {"d", "w3"}, {"y"})},
                 {"y"},
                 {{"w1", w1},
                  {"b1", random_floats({4}, 2)},
                  {"w2", random_floats({4, 1, 3, 3}, 3)},
                  {"w3", random_floats({2, 4, 1, 1}, 4)}}));
  const HostTensor before = run(model, sample_of(model, 7));
  EXPECT_EQ(equalize_layers(model.graph), 2);
  EXPECT_LT(largest_difference(run(model, sample_of(model, 7)), before), kRounding);
  // The large channel of w1 has given its range to w2 and w3.
  const auto& w = std::get<HostTensor>(model.graph.initializers[0].value);
  double first = 0, rest = 0;
  for (std::int64_t i = 0; i < w.size(); ++i)
    (i < 27 ? first : rest) = std::max(i < 27 ? first : rest, std::abs(w.get_float(i)));
  EXPECT_LT(first / rest, 20);
}

TEST(EqualizeLayers, LeavesLayersWithOtherReaders) {
  onnx::Model model = convolutions();  // a pool and an addition read what is between them
  EXPECT_EQ(equalize_layers(model.graph), 0);
}

TEST(SmoothLayers, TheNormTakesTheFactorsOrANodeDoes) {
  for (const bool residual : {false, true}) {
    onnx::Model model = norm_and_product(residual);
    const Sample sample = sample_of(model, 7);
    const HostTensor before = run(model, sample);
    const auto seen = observe(model, {{"n", false}}, {sample}, false, {}, {});
    ASSERT_TRUE(seen.ok()) << seen.error().message;
    EXPECT_EQ(smooth_layers(model.graph, *seen), 1);
    EXPECT_EQ(count(model, "Mul"), residual ? 1 : 0);
    EXPECT_LT(largest_difference(run(model, sample), before), kRounding);
    const auto after =
        observe(model, {{find_layers(model.graph)[0].x, false}}, {sample}, false, {}, {});
    ASSERT_TRUE(after.ok());
    const auto spread = [](const Observed& o) {
      return *std::max_element(o.peak.begin(), o.peak.end()) /
             *std::min_element(o.peak.begin(), o.peak.end());
    };
    EXPECT_LT(spread(after->begin()->second), spread(seen->begin()->second) / 2);
  }
}

TEST(Ranges, MethodsCutRareOutliers) {
  Observed seen{-10, 1000, {}, {}, std::vector<double>(kHistogramParts, 0)};
  for (std::size_t i = 0; i < 400; ++i)
    seen.counts[i] = 1e6 * std::exp(-static_cast<double>(i) / 40);
  seen.counts.back() = 1;
  EXPECT_EQ(choose_range(seen, RangeMethod::kMinMax).high, 1000);
  for (const RangeMethod m : {RangeMethod::kPercentile, RangeMethod::kEntropy, RangeMethod::kMse}) {
    const Range r = choose_range(seen, m);
    EXPECT_LT(r.high, 600) << static_cast<int>(m);
    EXPECT_GT(r.high, 20) << static_cast<int>(m);
    EXPECT_LE(r.low, 0);
  }
  Observed nothing{0, 0, {}, {}, std::vector<double>(kHistogramParts, 0)};
  EXPECT_EQ(choose_range(nothing, RangeMethod::kEntropy).high, 0);
}

TEST(Ranges, ZeroIsAByte) {
  const ByteScale s = byte_scale({-1, 3});
  EXPECT_EQ(s.zero, 64);
  EXPECT_FLOAT_EQ(s.scale, 4.0f / 255);
  EXPECT_EQ(byte_scale({0, 0}).scale, 1);
  EXPECT_EQ(byte_scale({0, 1e-40}).scale, 1);
}

TEST(LayerWeights, AScalePerOutputAndBiasesThatFit) {
  const onnx::Model model = convolutions();
  const Layer layer = find_layers(model.graph)[0];
  const ModelIndex index(model.graph);
  const HostTensor& w = *index.constant("w1");
  HostTensor bias = index.constant("b1")->clone();
  bias.as<float>()[1] = 1e6f;
  const LayerWeights bytes = byte_weights(layer, w, &bias, nullptr, 1e-6);
  EXPECT_EQ(bytes.scales.shape(), Shape{6});
  EXPECT_GT(bytes.scales.get_float(0), 10 * bytes.scales.get_float(2));
  // 1e6 in steps of 1e-6 times the scale is below 2^31.
  EXPECT_LT(1e6 / (1e-6 * bytes.scales.get_float(1)), 2147483647.0);
  for_each_weight(layer, [&](std::int64_t i, std::int64_t o, std::int64_t) {
    EXPECT_NEAR(weight_value(bytes, i, o), w.get_float(i), bytes.scales.get_float(o) * 0.5001);
  });
}

TEST(LayerWeights, BiasesTakeTheMeanErrorOff) {
  const onnx::Model model = convolutions();
  const Layer layer = find_layers(model.graph)[2];  // Gemm
  const ModelIndex index(model.graph);
  const HostTensor &w = *index.constant("w3"), &b = *index.constant("b3");
  const Observed x{0, 2, {1, 2, 0.5, 1, 1.5, 1}, {2, 2, 2, 2, 2, 2}, {}};
  const LayerWeights bytes = byte_weights(layer, w, &b, &x, 0.01);
  for (std::int64_t o = 0; o < 5; ++o) {
    double before = b.get_float(o), after = bytes.bias.get_float(o);
    for (std::int64_t c = 0; c < 6; ++c) {
      before += w.get_float(o * 6 + c) * x.mean[static_cast<std::size_t>(c)];
      after += weight_value(bytes, o * 6 + c, o) * x.mean[static_cast<std::size_t>(c)];
    }
    EXPECT_NEAR(after, before, 1e-5) << o;
  }
}

TEST(Quantize, Int8KeepsTheValuesBetweenConvolutionsNarrow) {
  const onnx::Model model = convolutions();
  const auto q = quantized(model);
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->layers.size(), 3u);
  ASSERT_TRUE(q->accuracy.has_value());
  EXPECT_GT(q->accuracy->cosine, 0.999);
  // x, the pool's input and output, the Gemm's input; the weights and biases of three layers.
  EXPECT_EQ(count(q->model, "QuantizeLinear"), 4);
  EXPECT_EQ(count(q->model, "DequantizeLinear"), 4 + 6);
  for (const onnx::Node& node : q->model.graph.nodes) {
    if (node.op_type == "Add") {
      EXPECT_EQ(node.inputs[1], "p_dequantized");
    }
    if (node.op_type == "MaxPool") {
      EXPECT_EQ(node.inputs[0], "r_dequantized");
    }
  }
  for (const onnx::Initializer& i : q->model.graph.initializers) EXPECT_NE(i.name, "w1");
  EXPECT_EQ(q->model.producer, "tessera");
}

TEST(Quantize, EveryMethodIsNear) {
  for (const RangeMethod m :
       {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kEntropy, RangeMethod::kMse}) {
    const auto q = quantized(convolutions(), {.method = m});
    ASSERT_TRUE(q.ok()) << q.error().message;
    EXPECT_GT(q->accuracy->cosine, 0.99) << static_cast<int>(m);
  }
}

TEST(Quantize, OldOpsetsTakeTheOperatorsOfMicrosoft) {
  const auto q = quantized(convolutions(11));
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_GT(q->accuracy->cosine, 0.999);
  EXPECT_EQ(q->model.opsets.at("com.microsoft"), 1);
  for (const onnx::Node& node : q->model.graph.nodes) {
    if (node.op_type == "DequantizeLinear") {
      EXPECT_EQ(node.domain, "com.microsoft");
    }
  }
}

TEST(Quantize, KeptLayersStayFloat) {
  const auto q = quantized(convolutions(), {.keep = {"n3"}});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->layers[1].name, "n3");
  EXPECT_EQ(q->layers[1].kept, QuantizedLayer::Kept::kAsked);
  EXPECT_GE(q->layers[1].error, 0);
  const auto is_kept = [](const onnx::Node& n) { return n.name == "n3" && n.inputs[1] == "w2"; };
  EXPECT_EQ(std::ranges::count_if(q->model.graph.nodes, is_kept), 1);
  const auto unknown = quantized(convolutions(), {.keep = {"n33"}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("no layer is called 'n33'; did you mean 'n3'?"));
}

TEST(Quantize, TheMostSensitiveLayersStayFloatUntilTheToleranceHolds) {
  const auto all = quantized(convolutions());
  ASSERT_TRUE(all.ok());
  QuantizeOptions options;
  options.tolerance.at_least = 1 - (1 - all->accuracy->cosine) * 0.5;
  const auto some = quantized(convolutions(), options);
  ASSERT_TRUE(some.ok()) << some.error().message;
  EXPECT_GE(some->accuracy->cosine, options.tolerance.at_least - 1e-6);
  double kept = 1, narrow = 0;
  int count_kept = 0;
  for (const QuantizedLayer& layer : some->layers) {
    const bool is_kept = layer.kept == QuantizedLayer::Kept::kSensitive;
    count_kept += is_kept ? 1 : 0;
    (is_kept ? kept : narrow) =
        is_kept ? std::min(kept, layer.error) : std::max(narrow, layer.error);
  }
  EXPECT_GT(count_kept, 0);
  EXPECT_LT(count_kept, 3);
  EXPECT_GE(kept, narrow);
  options.tolerance.at_least = 1;  // no rounding at all
  const auto none = quantized(convolutions(), options);
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_EQ(count(none->model, "QuantizeLinear"), 0);
}

TEST(Quantize, DynamicScalesComeFromTheData) {
  for (const onnx::Model& model : {convolutions(), norm_and_product(true)}) {
    const auto q = quantized(model, {.scheme = Scheme::kInt8Dynamic});
    ASSERT_TRUE(q.ok()) << q.error().message;
    EXPECT_GT(q->accuracy->cosine, 0.999);
    EXPECT_EQ(count(q->model, "DynamicQuantizeLinear"), static_cast<int>(q->layers.size()));
    EXPECT_EQ(count(q->model, "QuantizeLinear"), 0);
  }
  const auto blind = quantize(convolutions(), {}, {.scheme = Scheme::kInt8Dynamic}, {}, {});
  ASSERT_TRUE(blind.ok()) << blind.error().message;
  EXPECT_FALSE(blind->accuracy.has_value());
  EXPECT_LT(blind->layers[0].error, 0);
}

// ONNX Runtime has no ConvInteger of images without sign and weights with one.
TEST(Quantize, DynamicConvolutionsHaveBytesOfOneType) {
  const auto q = quantized(convolutions(), {.scheme = Scheme::kInt8Dynamic});
  ASSERT_TRUE(q.ok()) << q.error().message;
  ASSERT_EQ(count(q->model, "ConvInteger"), 2);
  onnx::Model with_sign = q->model;
  for (onnx::Node& node : with_sign.graph.nodes) {
    if (node.op_type != "ConvInteger") continue;
    ASSERT_EQ(node.inputs.size(), 4u);
    for (onnx::Initializer& i : with_sign.graph.initializers) {
      auto* t = std::get_if<HostTensor>(&i.value);
      if (i.name == node.inputs[3]) {
        EXPECT_EQ(t->dtype(), DType::kU8);
        EXPECT_EQ(t->shape(), Shape{});
      }
      if (i.name != node.inputs[1]) continue;
      EXPECT_EQ(t->dtype(), DType::kU8);
      HostTensor bytes(DType::kI8, t->shape());
      for (std::int64_t k = 0; k < t->size(); ++k) bytes.set_int(k, t->get_int(k) - 128);
      *t = std::move(bytes);
    }
    node.inputs.resize(3);
  }
  const Sample sample = sample_of(q->model, 9);
  EXPECT_EQ(largest_difference(run(q->model, sample), run(with_sign, sample)), 0);
  const auto imported = import_graph(q->model, {});
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  int convolved = 0;
  for (const graph::Node& node : imported->nodes) {
    if (node.op->name != std::string_view("conv")) continue;
    EXPECT_EQ(imported->type(node.inputs[1]).dtype, DType::kI8) << "a zero point is left";
    ++convolved;
  }
  EXPECT_EQ(convolved, 2);
}

TEST(Quantize, ProductsLeaveTheFloatToResidualAdditions) {
  const auto q = quantized(norm_and_product(true));
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->smoothed, 1);
  EXPECT_GT(q->accuracy->cosine, 0.999);
  for (const onnx::Node& node : q->model.graph.nodes) {
    if (node.op_type == "Add" && node.outputs[0] == "y") {
      EXPECT_EQ(node.inputs[1], "n");
    }
  }
}

TEST(Quantize, RandomSamplesAndAnInterrupt) {
  CalibrationData data;
  data.random = 2;
  const auto q = quantize(convolutions(), data, {}, {}, {});
  ASSERT_TRUE(q.ok()) << q.error().message;
  EXPECT_EQ(q->samples, 2u);
  QuantizeCallbacks callbacks;
  int asked = 0;
  callbacks.interrupted = [&] { return ++asked == 4; };
  const auto stopped = quantize(convolutions(), data, {}, {}, callbacks);
  ASSERT_FALSE(stopped.ok());
  EXPECT_THAT(stopped.error().message, HasSubstr("interrupted"));
}

TEST(Quantize, RefusesWhatItCannotDo) {
  const auto without = quantize(convolutions(), {}, {}, {}, {});
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.error().message, HasSubstr("needs calibration data"));
  const onnx::Model relu = make_model(
      make_graph({value_info("x", DType::kF32, {2})}, {make_node("Relu", {"x"}, {"y"})}, {"y"}));
  const auto nothing = quantized(relu);
  ASSERT_FALSE(nothing.ok());
  EXPECT_EQ(nothing.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(nothing.error().message, HasSubstr("nothing to quantise"));
  onnx::Model index = convolutions();
  index.graph.nodes.push_back(make_node("ArgMax", {"y"}, {"best"}));
  index.graph.outputs[0].name = "best";
  const auto integers = quantized(index);
  ASSERT_FALSE(integers.ok());
  EXPECT_THAT(integers.error().message, HasSubstr("no float output"));
  CalibrationData infinite = data_for(convolutions(), 1);
  infinite.samples[0].at("x").as<float>()[0] = INFINITY;
  const auto wild = quantize(convolutions(), infinite, {}, {}, {});
  ASSERT_FALSE(wild.ok());
  EXPECT_THAT(wild.error().message, HasSubstr("not finite"));
}

TEST(Quantize, ThePageHasABarPerLayer) {
  const auto q = quantized(convolutions());
  ASSERT_TRUE(q.ok());
  const std::string page = quantize_page("m.onnx", *q, {});
  for (const char* part : {"Conv n0", "Conv n3", "Gemm n7", "3 of 3", "3 samples", "<svg"})
    EXPECT_THAT(page, HasSubstr(part));
}

}  // namespace
}  // namespace tessera::app
