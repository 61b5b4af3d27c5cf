// Operators of domain com.microsoft, against numbers worked out by hand.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OneNode contrib(const std::string& op, std::vector<Attribute> attributes = {},
                std::size_t outputs = 1) {
  return {
      .op = op, .attributes = std::move(attributes), .outputs = outputs, .domain = "com.microsoft"};
}

HostTensor f32(const Shape& shape, const std::vector<double>& v) {
  return tensor(DType::kF32, shape, v);
}
HostTensor u8(const Shape& shape, const std::vector<double>& v) {
  return tensor(DType::kU8, shape, v);
}
HostTensor i8(const Shape& shape, const std::vector<double>& v) {
  return tensor(DType::kI8, shape, v);
}

std::vector<double> run(const OneNode& node, const std::vector<Operand>& operands,
                        std::size_t output = 0) {
  const auto y = run_node(node, operands);
  EXPECT_TRUE(y.ok()) << node.op << ": " << y.error().message;
  return y.ok() ? values_of(y->at(output)) : std::vector<double>{};
}

auto near(const std::vector<double>& want) {
  return ::testing::Pointwise(::testing::DoubleNear(1e-5), want);
}

TEST(ContribImport, Gelus) {
  const HostTensor x = f32({2}, {1, -1}), bias = f32({2}, {0, 2});
  EXPECT_THAT(run(contrib("Gelu"), {x}), near({0.8413447, -0.1586553}));
  EXPECT_THAT(run(contrib("BiasGelu"), {x, bias}), near({0.8413447, 0.8413447}));
  EXPECT_THAT(run(contrib("FastGelu"), {x}), near({0.8411920, -0.1588080}));
  EXPECT_THAT(run(contrib("FastGelu"), {x, bias}), near({0.8411920, 0.8411920}));
  EXPECT_THAT(run(contrib("QuickGelu", {attr("alpha", 1.0F)}), {x}), near({0.7310586, -0.2689414}));
}

TEST(ContribImport, SkipNorms) {
  const HostTensor x = f32({1, 1, 2}, {1, 2}), skip = f32({1, 1, 2}, {0, 2});
  const HostTensor scale = f32({2}, {1, 2}), shift = f32({2}, {0, 10}), bias = f32({2}, {0, 1});
  const OneNode norm = contrib("SkipLayerNormalization", {attr("epsilon", 0.0F)});
  EXPECT_THAT(run(norm, {x, skip, scale, shift}), near({-1, 12}));
  EXPECT_THAT(run(norm, {x, skip, scale, omitted(), bias}), near({-1, 2}));
  const OneNode rms = contrib("SkipSimplifiedLayerNormalization", {attr("epsilon", 0.0F)});
  const double root = std::sqrt(0.5 * (1 + 16));
  EXPECT_THAT(run(rms, {x, skip, scale}), near({1 / root, 8 / root}));
  EXPECT_THAT(refusal(norm, {f32({1, 2}, {1, 2}), skip, scale, shift}), HasSubstr("skip of 1x1x2"));
  for (const char* domain : {"", "com.microsoft"}) {
    const OneNode plain = {.op = "SimplifiedLayerNormalization",
                           .attributes = {attr("epsilon", 0.0F)},
                           .domain = domain};
    EXPECT_THAT(run(plain, {f32({1, 2}, {1, 4}), scale}), near({1 / root, 8 / root}));
  }
}

TEST(ContribImport, EmbedLayerNorm) {
  const HostTensor words = f32({2, 2}, {0, 0, 1, 3}), positions = f32({2, 2}, {0, 2, 4, 0});
  const HostTensor segments = f32({1, 2}, {0, 2}), scale = f32({2}, {1, 1}),
                   zero = f32({2}, {0, 0});
  const HostTensor ids = tensor(DType::kI32, {1, 2}, {1, 0});
  const OneNode node = contrib("EmbedLayerNormalization", {}, 3);
  const std::vector<Operand> plain = {ids, omitted(), words, positions, omitted(), scale, zero};
  EXPECT_THAT(run(node, plain), near({-1, 1, 1, -1}));
  EXPECT_THAT(run(node, plain, 2), ElementsAre(1, 5, 4, 0));
  EXPECT_THAT(
      run(node, {ids, tensor(DType::kI32, {1, 2}, {0, 0}), words, positions, segments, scale, zero},
          2),
      ElementsAre(1, 7, 4, 2));
  EXPECT_THAT(refusal(node, {tensor(DType::kI32, {1, 3}, {0, 0, 0}), omitted(), words, positions,
                             omitted(), scale, zero}),
              HasSubstr("3 positions in a table of 2"));
}

TEST(ContribImport, FusedMatMul) {
  const HostTensor a = f32({2, 1}, {1, 2}), b = f32({1, 2}, {3, 5});
  EXPECT_THAT(run(contrib("FusedMatMul", {attr("alpha", 0.5F)}), {a, b}),
              ElementsAre(1.5, 2.5, 3, 5));
  EXPECT_THAT(run(contrib("FusedMatMul", {attr("transA", 1), attr("transB", 1)}), {a, b}),
              ElementsAre(13));
  EXPECT_THAT(refusal(contrib("FusedMatMul", {attr("transBatchA", 1)}), {a, b}),
              HasSubstr("batch"));
}

TEST(QuantizedContribImport, AddAndMul) {
  // A = (0.5, -1, 63.5), B = (2, 4, 6)
  const HostTensor a = u8({3}, {129, 126, 255}), b = u8({3}, {1, 2, 3});
  const std::vector<Operand> operands = {a,         f32({}, {0.5}), u8({}, {128}), b, f32({}, {2}),
                                         omitted(), f32({}, {1}),   u8({}, {10})};
  EXPECT_THAT(run(contrib("QLinearAdd"), operands), ElementsAre(12, 13, 80));  // 12.5, 69.5: even
  EXPECT_THAT(run(contrib("QLinearMul"), operands), ElementsAre(11, 6, 255));
  EXPECT_THAT(run(contrib("QLinearAdd"), {i8({2}, {-100, 100}), f32({}, {1}), i8({}, {0}),
                                          i8({1}, {100}), f32({}, {1}), i8({}, {0}), f32({}, {1})}),
              ElementsAre(0, 127));
  EXPECT_THAT(refusal(contrib("QLinearAdd"), {a, f32({}, {1}), u8({}, {0}), b, f32({}, {1})}),
              HasSubstr("input 6 is missing"));
  EXPECT_THAT(refusal(contrib("QLinearAdd"), {f32({1}, {1}), f32({}, {1}), u8({}, {0}), b,
                                              f32({}, {1}), u8({}, {0}), f32({}, {1})}),
              HasSubstr("input 0 is f32"));
}

TEST(QuantizedContribImport, Activations) {
  const HostTensor x = u8({3}, {128, 128 + 4, 128 - 4});  // 0, 2, -2
  const std::vector<Operand> operands = {x, f32({}, {0.5}), u8({}, {128}), f32({}, {1.0 / 256}),
                                         u8({}, {0})};
  EXPECT_THAT(run(contrib("QLinearSigmoid"), operands), ElementsAre(128, 225, 31));
  EXPECT_THAT(run(contrib("QLinearLeakyRelu", {attr("alpha", 0.25F)}),
                  {x, f32({}, {0.5}), u8({}, {128}), f32({}, {0.25}), u8({}, {8})}),
              ElementsAre(8, 16, 6));
}

TEST(QuantizedContribImport, GlobalAveragePool) {
  const HostTensor x = u8({1, 2, 1, 2}, {1, 2, 10, 20});
  const std::vector<Operand> operands = {x, f32({}, {2}), u8({}, {0}), f32({}, {1}), u8({}, {5})};
  const OneNode node = contrib("QLinearGlobalAveragePool");
  EXPECT_THAT(run(node, operands), ElementsAre(8, 35));
  // [1, 2, 1, 2] with channels last: two positions of two channels.
  EXPECT_THAT(run(contrib("QLinearGlobalAveragePool", {attr("channels_last", 1)}), operands),
              ElementsAre(16, 27));
  EXPECT_THAT(refusal(node, {u8({2}, {1, 2}), f32({}, {1}), u8({}, {0}), f32({}, {1})}),
              HasSubstr("an image"));
}

TEST(QuantizedContribImport, Concat) {
  EXPECT_THAT(run(contrib("QLinearConcat", {attr("axis", 0)}),
                  {f32({}, {1}), u8({}, {1}), u8({2}, {1, 2}), f32({}, {2}), u8({}, {0}),
                   u8({1}, {20}), f32({}, {0.5}), u8({}, {10})}),
              ElementsAre(3, 5, 6));
  EXPECT_THAT(refusal(contrib("QLinearConcat", {attr("axis", 0)}),
                      {f32({}, {1}), u8({}, {1}), u8({2}, {1, 2}), f32({}, {2}), u8({}, {0}),
                       u8({1}, {20})}),
              HasSubstr("6 inputs"));
}

TEST(QuantizedContribImport, MatMulsWithFloatResults) {
  // (1, -1) times ((1, 2), (3, 4)), columns of B scaled by 1 and 10, plus (0.5, 0).
  EXPECT_THAT(run(contrib("MatMulIntegerToFloat"),
                  {u8({1, 2}, {129, 127}), known(i8({2, 2}, {1, 2, 3, 4})), f32({}, {2}),
                   f32({2}, {1, 10}), u8({}, {128}), omitted(), f32({2}, {0.5, 0})}),
              ElementsAre(-3.5, -40));
  // The range of A is [-127.5, 127.5]: its scale is 1, its zero point 128.
  EXPECT_THAT(run(contrib("DynamicQuantizeMatMul"),
                  {f32({1, 2}, {-127.5, 127.5}), known(i8({2, 1}, {1, 2})), f32({1}, {0.5})}),
              ElementsAre(63));
  EXPECT_THAT(refusal(contrib("DynamicQuantizeMatMul"),
                      {u8({1, 2}, {1, 2}), i8({2, 1}, {1, 2}), f32({1}, {0.5})}),
              HasSubstr("cannot quantize u8"));
}

TEST(ContribImport, KnownProductsOfFewBitsAreComputedAtImport) {
  Graph graph;
  graph.initializers = {
      {"a", f32({1, 2}, {1, 2})}, {"b", u8({1, 1, 1}, {0x98})}, {"s", f32({1}, {1})}};
  graph.outputs = {output("y")};
  graph.nodes = {make_node("MatMulNBits", {"a", "b", "s"}, {"y"},
                           {attr("K", std::int64_t{2}), attr("N", std::int64_t{1}),
                            attr("bits", std::int64_t{4}), attr("block_size", std::int64_t{2})})};
  graph.nodes[0].domain = "com.microsoft";
  Model model = make_model(std::move(graph), 17);
  model.opsets["com.microsoft"] = 1;
  const auto imported = import_model(model);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_TRUE(imported->nodes.empty());
  ASSERT_NE(imported->constant(imported->outputs[0]), nullptr);
  EXPECT_EQ(values_of(*imported->constant(imported->outputs[0])), std::vector<double>{2});
}

TEST(ContribImport, ProductsOfFewBitsMayRoundAtAccuracyLevel4) {
  const auto rounds = [](std::int64_t level) {
    Graph graph;
    graph.inputs = {value_info("a", DType::kF32, {1, 2})};
    graph.initializers = {{"b", u8({1, 1, 1}, {0x98})}, {"s", f32({1}, {1})}};
    graph.outputs = {output("y")};
    graph.nodes = {make_node(
        "MatMulNBits", {"a", "b", "s"}, {"y"},
        {attr("K", std::int64_t{2}), attr("N", std::int64_t{1}), attr("bits", std::int64_t{4}),
         attr("block_size", std::int64_t{2}), attr("accuracy_level", level)})};
    graph.nodes[0].domain = "com.microsoft";
    Model model = make_model(std::move(graph), 17);
    model.opsets["com.microsoft"] = 1;
    const auto imported = import_model(model);
    EXPECT_TRUE(imported.ok()) << imported.error().message;
    return std::count_if(imported->nodes.begin(), imported->nodes.end(), [](const auto& node) {
      return std::string_view(node.op->name) == "dequantize" &&
             node.attrs.integer("rounds", 0) == 1;
    });
  };
  EXPECT_EQ(rounds(4), 1);
  EXPECT_EQ(rounds(1), 0);
  EXPECT_EQ(rounds(0), 0);
}

// q * scale + offset, in blocks of two.
TEST(ContribImport, MatMulOfFewBitsWithOffsets) {
  OneNode node = contrib("MatMulOffsetNBits",
                         {attr("K", std::int64_t{3}), attr("N", std::int64_t{1}),
                          attr("bits", std::int64_t{4}), attr("block_size", std::int64_t{2})});
  node.domain = "tessera";
  const HostTensor a = f32({1, 3}, {1, 2, 3}), b = u8({1, 2, 1}, {0x98, 0x0a});
  const HostTensor scales = f32({2}, {1, 0}), offsets = f32({2}, {-2, 5});
  // (8 - 2) + 2 (9 - 2) + 3 * 5: a scale of 0 leaves the offset.
  EXPECT_THAT(run(node, {a, known(b), known(scales), known(offsets)}), near({35}));
  EXPECT_THAT(refusal(node, {a, known(b), known(scales), known(f32({1}, {1}))}),
              HasSubstr("offsets 1 of f32 for 2 blocks"));
  EXPECT_THAT(refusal(node, {a, known(b), known(scales), known(u8({2}, {1, 1}))}),
              HasSubstr("offsets 2 of u8"));
}

// Two columns of three rows in blocks of two, the last block with one element to spare.
TEST(ContribImport, MatMulOfFewBits) {
  const HostTensor a = f32({1, 3}, {1, 2, 3}), scales = f32({4}, {1, 2, 0.5, 4});
  const HostTensor b = u8({2, 2, 1}, {0x98, 0x0a, 0x27, 0x0f});
  const OneNode node =
      contrib("MatMulNBits", {attr("K", std::int64_t{3}), attr("N", std::int64_t{2}),
                              attr("bits", std::int64_t{4}), attr("block_size", std::int64_t{2})});
  // (0 + 2) + 3 * 2 * 2 and (-1 - 2 * 6) / 2 + 3 * 7 * 4.
  EXPECT_THAT(run(node, {a, known(b), known(scales)}), near({14, 77.5}));
  // Zero points 7, 10 and 8, 8.
  const HostTensor zeros = u8({2}, {0xa7, 0x88});
  EXPECT_THAT(run(node, {a, known(b), known(scales), known(zeros)}), near({5, 77.5}));
  EXPECT_THAT(run(node, {a, known(b), known(scales), omitted(), omitted(), f32({2}, {1, 2})}),
              near({15, 79.5}));
  EXPECT_THAT(refusal(node, {a, b, known(scales)}), HasSubstr("B"));
  EXPECT_THAT(refusal(node, {a, known(u8({2}, {1, 2})), known(scales)}), HasSubstr("4 needed"));
  EXPECT_THAT(refusal(node, {a, known(b), known(f32({3}, {1, 2, 3}))}), HasSubstr("4 blocks"));
  EXPECT_THAT(refusal(node, {f32({1, 2}, {1, 2}), known(b), known(scales)}), HasSubstr("K=3"));
  // Zero points that are no integers: 7.5, 10 and 8, 8.25.
  EXPECT_THAT(run(node, {a, known(b), known(scales), known(f32({4}, {7.5, 10, 8, 8.25}))}),
              near({3.5, 74.5}));
  EXPECT_THAT(refusal(node, {a, known(b), known(scales), known(f32({3}, {1, 1, 1}))}),
              HasSubstr("zero_points 3 for 4 blocks"));
  EXPECT_THAT(refusal(node, {a, known(b), known(scales), omitted(), u8({3}, {0, 0, 1})}),
              HasSubstr("g_idx"));
  OneNode wide = node;
  wide.attributes[2] = attr("bits", std::int64_t{3});
  EXPECT_THAT(refusal(wide, {a, known(b), known(scales)}), HasSubstr("3 bits"));
  wide.attributes[2] = attr("bits", std::int64_t{4});
  wide.attributes[3] = attr("block_size", std::int64_t{0});
  EXPECT_THAT(refusal(wide, {a, known(b), known(scales)}), HasSubstr("blocks of 0"));
  OneNode prepacked = node;
  prepacked.attributes.push_back(attr("weight_prepacked", std::int64_t{1}));
  EXPECT_THAT(refusal(prepacked, {a, known(b), known(scales)}), HasSubstr("weight_prepacked=1"));
  // Sizes whose product is 2^64 are not those of no bytes.
  wide.attributes[1] = attr("N", std::int64_t{1} << 60);
  wide.attributes[3] = attr("block_size", std::int64_t{32});
  EXPECT_THAT(refusal(wide, {a, known(u8({0}, {})), known(scales)}), HasSubstr("too large"));
  wide.attributes[1] = attr("N", std::int64_t{1});
  wide.attributes[3] = attr("block_size", std::int64_t{1} << 62);
  EXPECT_THAT(refusal(wide, {a, known(u8({0}, {})), known(scales)}), HasSubstr("too large"));
}

}  // namespace
}  // namespace tessera::onnx::testing
