// Operators of language models against what ONNX Runtime computed (decoder_cases.py).
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::HasSubstr;

constexpr double kAny = std::numeric_limits<double>::quiet_NaN();  // not compared

// As the script makes them.
HostTensor pattern(const Shape& shape, std::int64_t step) {
  HostTensor out(DType::kF32, shape);
  for (std::int64_t i = 0; i < out.size(); ++i)
    out.set_float(i, static_cast<double>((i * step + 11) % 251 - 125) / 64);
  return out;
}

HostTensor bytes(const Shape& shape) {
  HostTensor out(DType::kU8, shape);
  for (std::int64_t i = 0; i < out.size(); ++i) out.set_int(i, (i * 37 + 11) % 251);
  return out;
}

Attribute ints(const std::string& name, std::vector<std::int64_t> values) {
  return {name, std::move(values), ""};
}

struct DecoderCase {
  std::string name;
  OneNode node;
  std::vector<Operand> operands;
  std::vector<std::vector<double>> outputs;  // those that are asked for
};

const std::vector<DecoderCase>& decoder_cases() {
  static const std::vector<DecoderCase> kCases = {
#include "decoder_cases.inc"
  };
  return kCases;
}

const DecoderCase& decoder_case(const std::string& name) {
  for (const DecoderCase& c : decoder_cases()) {
    if (c.name == name) return c;
  }
  throw std::out_of_range(name);
}

// The first element that differs by more than roundings of the largest; "" when none does.
std::string difference(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return fmt::format("{} elements, not {}", got.size(), want.size());
  double largest = 1;
  for (const double v : want) largest = std::isnan(v) ? largest : std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isnan(want[i]) && !(std::abs(got[i] - want[i]) <= 2e-5 * largest))
      return fmt::format("element {} is {}, not {}", i, got[i], want[i]);
  }
  return "";
}

void expect_case(const DecoderCase& c, const std::vector<Operand>& operands) {
  const auto y = run_node(c.node, operands);
  ASSERT_TRUE(y.ok()) << c.name << ": " << y.error().message;
  ASSERT_EQ(y->size(), c.outputs.size()) << c.name;
  for (std::size_t i = 0; i < y->size(); ++i) {
    EXPECT_EQ(difference(values_of((*y)[i]), c.outputs[i]), "") << c.name << ", output " << i;
  }
}

TEST(DecoderOps, EqualOnnxRuntime) {
  EXPECT_GT(decoder_cases().size(), 50u);
  for (const DecoderCase& c : decoder_cases()) expect_case(c, c.operands);
}

// What is known while the model is read makes other nodes: lengths, masks, positions, tables.
TEST(DecoderOps, KnownOperandsGiveTheSame) {
  for (const DecoderCase& c : decoder_cases()) {
    std::vector<Operand> integers = c.operands, all = c.operands;
    for (std::size_t i = 0; i < all.size(); ++i) {
      integers[i].constant = integers[i].constant || is_int(integers[i].value.dtype());
      all[i].constant = true;
    }
    expect_case(c, integers);
    expect_case(c, all);
  }
}

// The refusal of a case whose operand or attribute is changed.
std::string refused(const std::string& name, std::size_t i, const Operand& operand) {
  DecoderCase c = decoder_case(name);
  c.operands.resize(std::max(c.operands.size(), i + 1), omitted());
  c.operands[i] = operand;
  return refusal(c.node, c.operands);
}
std::string refused(const std::string& name, const Attribute& attribute) {
  DecoderCase c = decoder_case(name);
  std::erase_if(c.node.attributes, [&](const Attribute& a) { return a.name == attribute.name; });
  c.node.attributes.push_back(attribute);
  return refusal(c.node, c.operands);
}

HostTensor i32(const std::vector<double>& values) {
  return tensor(DType::kI32, {std::ssize(values)}, values);
}

TEST(DecoderOps, GroupedAttentionSaysWhatItRefuses) {
  const auto attribute = [](const char* name, std::int64_t value) {
    return refused("GqaChunk", attr(name, value));
  };
  EXPECT_THAT(attribute("sliding_window_cache", 1), HasSubstr("sliding_window_cache=1"));
  EXPECT_THAT(attribute("kv_cache_bit_width", 8), HasSubstr("kv_cache_bit_width=8"));
  EXPECT_THAT(refused("GqaChunk", attr("k_quant_type", std::string("PER_TENSOR"))),
              HasSubstr("k_quant_type PER_TENSOR"));
  EXPECT_THAT(attribute("kv_num_heads", 3), HasSubstr("2 heads of queries for 3"));
  EXPECT_THAT(attribute("num_heads", 5), HasSubstr("width 32 for 5 heads"));
  DecoderCase wide = decoder_case("GqaPromptPackedRotary");  // as many heads as add up to -1
  for (Attribute& a : wide.node.attributes) {
    if (a.name.ends_with("num_heads")) a.value = std::int64_t{6148914691236517205};
  }
  EXPECT_THAT(refusal(wide.node, wide.operands), HasSubstr("query of width 64"));
  EXPECT_THAT(attribute("local_window_size", 0), HasSubstr("local_window_size=0"));
  EXPECT_THAT(attribute("qk_output", 3), HasSubstr("qk_output 3"));
  const auto operand = [](std::size_t i, const Operand& x) { return refused("GqaChunk", i, x); };
  EXPECT_THAT(operand(0, pattern({3, 32}, 1)), HasSubstr("rank 3"));
  EXPECT_THAT(operand(0, pattern({1, 3, 31}, 1)), HasSubstr("width 31"));
  EXPECT_THAT(operand(1, pattern({1, 2, 16}, 1)), HasSubstr("key is 1x2x16, not 1x3x16"));
  EXPECT_THAT(operand(2, omitted()), HasSubstr("key and value belong together"));
  EXPECT_THAT(operand(3, omitted()), HasSubstr("past_key and past_value"));
  EXPECT_THAT(operand(4, pattern({1, 1, 5, 16}, 1)), HasSubstr("past_value is 1x1x5x16"));
  EXPECT_THAT(operand(5, omitted()), HasSubstr("input 5 is missing"));
  EXPECT_THAT(operand(5, i32({6, 6})), HasSubstr("seqlens_k is 2"));
  EXPECT_THAT(operand(6, i32({7})), HasSubstr("follows from data"));
  EXPECT_THAT(operand(6, known(i32({8}))), HasSubstr("total_sequence_length is 8"));
  EXPECT_THAT(operand(6, known(i32({2}))), HasSubstr("total_sequence_length is 2"));
  EXPECT_THAT(operand(6, known(i32({2, 2}))), HasSubstr("total_sequence_length is 2"));
  EXPECT_THAT(operand(7, omitted()), HasSubstr("needs cos_cache"));
  EXPECT_THAT(operand(7, pattern({6, 8}, 1)), HasSubstr("cos_cache 6x8 for 7 positions"));
  EXPECT_THAT(operand(8, pattern({9, 4}, 1)), HasSubstr("sin_cache is 9x4"));
  EXPECT_THAT(operand(9, tensor(DType::kI64, {1, 2}, {0, 1})), HasSubstr("position_ids is 1x2"));
  EXPECT_THAT(operand(10, pattern({1, 2, 3, 6}, 1)), HasSubstr("attention_bias is 1x2x3x6"));
  EXPECT_THAT(operand(11, pattern({3}, 1)), HasSubstr("head_sink is 3"));
  EXPECT_THAT(operand(12, pattern({1}, 1)), HasSubstr("a cache of few bits"));
  EXPECT_THAT(operand(14, pattern({16}, 1)), HasSubstr("q_norm_weight and k_norm_weight"));
}

TEST(DecoderOps, LengthsThatTheCacheCannotHaveAreTheNearest) {
  DecoderCase c = decoder_case("GqaStep");  // both sequences are as long as the cache allows
  c.operands[5] = i32({4, 99});
  expect_case(c, c.operands);
}

TEST(DecoderOps, AttentionSaysWhatItRefuses) {
  EXPECT_THAT(refused("Mha", attr("num_heads", std::int64_t{3})), HasSubstr("width 8 for 3 heads"));
  EXPECT_THAT(refused("Mha", attr("num_heads", std::int64_t{0})), HasSubstr("0 heads"));
  EXPECT_THAT(refused("Mha", 1, omitted()), HasSubstr("is not packed"));
  EXPECT_THAT(refused("Mha", 2, omitted()), HasSubstr("its value"));
  EXPECT_THAT(refused("Mha", 3, pattern({21}, 1)), HasSubstr("bias 21"));
  EXPECT_THAT(refused("Mha", 1, pattern({1, 4, 8}, 1)), HasSubstr("do not fit"));
  EXPECT_THAT(refused("Mha", attr("unidirectional", std::int64_t{1})),
              HasSubstr("unidirectional with 3 queries and 4 keys"));
  EXPECT_THAT(refused("MhaCausal", 8, i32({1})), HasSubstr("shared cache"));
  EXPECT_THAT(refused("MhaCausal", 7, omitted()), HasSubstr("past_key and past_value"));
  EXPECT_THAT(refused("MhaLengths", 4, i32({1, 2, 3})), HasSubstr("a mask of shape 3"));
  EXPECT_THAT(refused("MhaLengths", 4, pattern({2}, 1)), HasSubstr("a mask of f32"));
  EXPECT_THAT(refused("MhaPast", 5, pattern({1, 2, 3, 4}, 1)), HasSubstr("attention_bias"));
  EXPECT_THAT(refused("Attention", 0, pattern({2, 3, 4}, 1)), HasSubstr("weights 5x24"));
  EXPECT_THAT(refused("Attention", 2, pattern({23}, 1)), HasSubstr("bias 23 for 24"));
  EXPECT_THAT(refused("Attention", 6, i32({1})), HasSubstr("past_sequence_length"));
  EXPECT_THAT(refused("Attention", attr("do_rotary", std::int64_t{1})), HasSubstr("do_rotary=1"));
  EXPECT_THAT(refused("Attention", attr("num_heads", std::int64_t{5})), HasSubstr("width 8"));
  EXPECT_THAT(refused("AttentionOfWidths", ints("qkv_hidden_sizes", {8, 8, 6})),
              HasSubstr("weights of 20 columns"));
  EXPECT_THAT(refused("AttentionPast", 4, pattern({1, 2, 2, 2, 4}, 1)), HasSubstr("past is"));
}

TEST(DecoderOps, RotationSaysWhatItRefuses) {
  EXPECT_THAT(refused("Rotary", attr("scale", 2.0F)), HasSubstr("scale=2"));
  EXPECT_THAT(refused("Rotary", 1, tensor(DType::kI64, {2}, {0, 1})), HasSubstr("position_ids"));
  EXPECT_THAT(refused("Rotary", 3, pattern({9, 3}, 1)), HasSubstr("tables 9x4 and 9x3"));
  EXPECT_THAT(refused("Rotary", attr("num_heads", std::int64_t{3})), HasSubstr("num_heads 3"));
  EXPECT_THAT(refused("RotaryOfPart", attr("num_heads", std::int64_t{8})),
              HasSubstr("heads of 2 elements"));
}

TEST(DecoderOps, GatherSaysWhatItRefuses) {
  EXPECT_THAT(refused("GatherNibbles", attr("bits", std::int64_t{3})), HasSubstr("3 bits"));
  EXPECT_THAT(refused("GatherNibbles", attr("block_size", std::int64_t{0})),
              HasSubstr("blocks of 0"));
  EXPECT_THAT(refused("GatherNibbles", attr("gather_axis", std::int64_t{1})),
              HasSubstr("gather_axis 1"));
  EXPECT_THAT(refused("GatherNibbles", 2, pattern({5, 3}, 1)), HasSubstr("scales 5x3"));
  EXPECT_THAT(refused("GatherNibbles", 2, pattern({5}, 1)), HasSubstr("scales 5 for"));
  EXPECT_THAT(refused("GatherNibbles", 0, pattern({5, 16}, 1)), HasSubstr("a table of f32"));
  EXPECT_THAT(refused("GatherNibblesWithZeros", 3, tensor(DType::kU8, {5, 1}, {1, 1, 1, 1, 1})),
              HasSubstr("zero_points 5x1, 5x2 needed"));
}

TEST(DecoderOps, ExpertsSayWhatTheyRefuse) {
  EXPECT_THAT(refused("MoeOfOne", attr("k", std::int64_t{5})), HasSubstr("k=5 of 4 experts"));
  EXPECT_THAT(refused("MoeOfOne", attr("use_sparse_mixer", std::int64_t{1})),
              HasSubstr("use_sparse_mixer"));
  EXPECT_THAT(refused("MoeOfOne", attr("activation_type", std::string("tanh"))),
              HasSubstr("activation_type 'tanh'"));
  EXPECT_THAT(refused("MoeOfOne", attr("swiglu_fusion", std::int64_t{3})),
              HasSubstr("swiglu_fusion is 3"));
  EXPECT_THAT(refused("MoeOfOne", attr("activation_type", std::string("swiglu"))),
              HasSubstr("swiglu without a third layer"));
  EXPECT_THAT(refused("MoeOfOne", 1, pattern({4, 4}, 1)), HasSubstr("router_probs 4x4"));
  EXPECT_THAT(refused("MoeOfOne", 2, pattern({3, 8, 16}, 1)), HasSubstr("weights 3x8x16"));
  EXPECT_THAT(refused("MoeOfOne", 2, pattern({4, 8, 15}, 1)), HasSubstr("depth of 16"));
  EXPECT_THAT(refused("MoeOfOne", 4, pattern({4, 15, 8}, 1)), HasSubstr("width 15 for 16"));
  EXPECT_THAT(refused("MoeSwigluOfThree", attr("swiglu_fusion", std::int64_t{2})),
              HasSubstr("swiglu_fusion=2 with a third layer"));
  DecoderCase odd = decoder_case("MoeSwiglu");
  odd.operands[2] = pattern({4, 15, 16}, 1);
  odd.operands[3] = omitted();
  EXPECT_THAT(refusal(odd.node, odd.operands), HasSubstr("a gate of 15 columns"));
  EXPECT_THAT(refused("QMoeNibbles", attr("quant_type", std::string("fp4"))),
              HasSubstr("quant_type fp4"));
  EXPECT_THAT(refused("QMoeNibbles", attr("weights_prepacked", std::int64_t{1})),
              HasSubstr("weights_prepacked"));
  EXPECT_THAT(refused("QMoeNibbles", attr("expert_weight_bits", std::int64_t{3})),
              HasSubstr("3 bits"));
  EXPECT_THAT(refused("QMoeNibbles", 2, bytes({4, 16, 8})), HasSubstr("follows from data"));
  EXPECT_THAT(refused("QMoeNibbles", 2, known(bytes({4, 16, 7}))), HasSubstr("u8[4x16x8] needed"));
  EXPECT_THAT(refused("QMoeNibbles", 3, pattern({4, 15}, 1)), HasSubstr("scales of 64 blocks"));
  EXPECT_THAT(refused("QMoeNibbles", 15, pattern({4}, 1)), HasSubstr("input 15"));
  EXPECT_THAT(refused("QMoeRouted", 14, pattern({5, 3}, 1)), HasSubstr("router_weights 5x3"));
}

TEST(DecoderOps, GatheredOutsideTheTableIsZero) {
  const DecoderCase& c = decoder_case("GatherBytes");
  std::vector<Operand> operands = c.operands;
  operands[1] = tensor(DType::kI64, {2}, {5, -6});
  const auto y = run_node(c.node, operands);
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_THAT(values_of((*y)[0]), ::testing::Each(0));
}

// Elements of a type of four bits count from zero, and any axis may be gathered.
TEST(DecoderOps, GatherOfNarrowTypes) {
  HostTensor table(DType::kI8, {2, 3});
  for (std::int64_t i = 0; i < 6; ++i) table.set_int(i, i - 3);
  Graph graph = make_graph(
      {},
      {make_node("GatherBlockQuantized", {"table", "ids", "scales"}, {"y"},
                 {attr("gather_axis", std::int64_t{1}), attr("quantize_axis", std::int64_t{0}),
                  attr("block_size", std::int64_t{16})})},
      {"y"}, {{"scales", tensor(DType::kF32, {1, 3}, {1, 10, 100})}});
  graph.initializers.push_back({"table", ForeignTensor{"int4", table}});
  graph.inputs = {value_info("ids", DType::kI64, {2})};
  graph.nodes[0].domain = "com.microsoft";
  Model model = make_model(std::move(graph), 21);
  model.opsets["com.microsoft"] = 1;
  const auto imported = import_model(model);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto y = graph::evaluate(*imported, {tensor(DType::kI64, {2}, {2, -2})});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_EQ((*y)[0].shape(), (Shape{2, 2}));
  EXPECT_THAT(values_of((*y)[0]), ::testing::ElementsAre(-100, -20, 200, 10));
}

// Nothing stands between the weights of keys and their product, which fusion looks for.
TEST(DecoderOps, PromptsAreTheAttentionThatIsFused) {
  for (const char* name : {"GqaPrompt", "GqaChunk", "MhaMask", "AttentionMask"}) {
    const DecoderCase& c = decoder_case(name);
    Graph graph;
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      const Operand& x = c.operands[i];
      inputs.push_back(x.omitted ? "" : fmt::format("x{}", i));
      if (x.constant) graph.initializers.push_back({inputs.back(), x.value});
      if (!x.constant && !x.omitted)
        graph.inputs.push_back(value_info(inputs.back(), x.value.dtype(), x.value.shape()));
    }
    graph.outputs = {output("y")};
    graph.nodes = {make_node(c.node.op, inputs, {"y"}, c.node.attributes)};
    graph.nodes[0].domain = "com.microsoft";
    Model model = make_model(std::move(graph), 21);
    model.opsets["com.microsoft"] = 1;
    const auto imported = import_model(model);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    const graph::Uses uses = graph::find_uses(*imported);
    int found = 0;
    for (const graph::Node& node : imported->nodes) {
      if (std::string(node.op->name) != "softmax") continue;
      ++found;
      graph::ValueId weights = node.outputs[0];
      const auto reader = [&](graph::ValueId id) {
        const auto& readers = uses.readers[static_cast<std::size_t>(id)];
        EXPECT_EQ(readers.size(), 1u);
        return &imported->nodes[static_cast<std::size_t>(readers.at(0))];
      };
      const graph::Node* next = reader(weights);
      if (std::string(next->op->name) == "reshape") next = reader(next->outputs[0]);
      EXPECT_STREQ(next->op->name, "contract") << name;
    }
    EXPECT_EQ(found, 1) << name;
  }
}

// Nor is a number for each score part of the model, which no limit of folding would hold back.
TEST(DecoderOps, MasksOfLongPromptsAreNotStored) {
  constexpr std::int64_t kTokens = 9000;
  const auto grouped =
      make_node("GroupQueryAttention", {"q", "k", "v", "", "", "lengths", "total"}, {"y", "", ""},
                {attr("num_heads", std::int64_t{1}), attr("kv_num_heads", std::int64_t{1}),
                 attr("local_window_size", std::int64_t{100})});
  const auto heads =
      make_node("MultiHeadAttention", {"q", "k", "v"}, {"y"},
                {attr("num_heads", std::int64_t{1}), attr("unidirectional", std::int64_t{1})});
  for (Node node : {grouped, heads}) {
    Graph graph;
    for (const char* name : {"q", "k", "v"})
      graph.inputs.push_back(value_info(name, DType::kF32, {1, kTokens, 2}));
    graph.initializers = {{"lengths", i32({kTokens - 1})}, {"total", i32({kTokens})}};
    graph.outputs = {output("y")};
    node.domain = "com.microsoft";
    graph.nodes = {node};
    Model model = make_model(std::move(graph), 21);
    model.opsets["com.microsoft"] = 1;
    const auto imported = import_model(model);
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    std::size_t bytes = 0;
    for (const graph::Value& v : imported->values) bytes += v.is_constant ? v.constant.bytes() : 0;
    EXPECT_LT(bytes, std::size_t{1} << 20) << node.op_type;
  }
}

TEST(DecoderOps, StatisticsOfSkipNorms) {
  const HostTensor x = tensor(DType::kF32, {1, 1, 2}, {1, 2}),
                   skip = tensor(DType::kF32, {1, 1, 2}, {0, 2}),
                   scale = tensor(DType::kF32, {2}, {1, 1});
  OneNode node{.op = "SkipLayerNormalization",
               .attributes = {attr("epsilon", 0.0F)},
               .outputs = 3,
               .domain = "com.microsoft"};
  const auto y = run_node(node, {x, skip, scale});
  ASSERT_TRUE(y.ok()) << y.error().message;
  EXPECT_NEAR((*y)[1].get_float(0), 2.5, 1e-6);
  EXPECT_NEAR((*y)[2].get_float(0), 1 / 1.5, 1e-6);
  OneNode plain{
      .op = "SimplifiedLayerNormalization", .attributes = {attr("epsilon", 0.0F)}, .outputs = 2};
  const auto root = run_node(plain, {tensor(DType::kF32, {1, 2}, {1, 7}), scale});
  ASSERT_TRUE(root.ok()) << root.error().message;
  EXPECT_NEAR((*root)[1].get_float(0), 0.2, 1e-6);
  plain.attributes.push_back(attr("axis", std::int64_t{0}));
  EXPECT_THAT(
      refusal(plain, {tensor(DType::kF32, {1, 2}, {1, 7}), tensor(DType::kF32, {1, 2}, {1, 1})}),
      HasSubstr("several axes"));
}

}  // namespace
}  // namespace tessera::onnx::testing
