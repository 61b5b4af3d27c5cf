#include "tessera/frontend/onnx/integer_products.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "node_model.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::onnx::testing {
namespace {

// Whether the only product is offered of bytes, and whether those are preferred.
enum class Offer : std::uint8_t { kNone, kFloatsFirst, kBytesFirst };
Offer offer(const Model& m) {
  for (const Node& n : m.graph.nodes) {
    if (n.op_type != "Either") continue;
    return std::get<std::int64_t>(n.find("bytes_first")->value) != 0 ? Offer::kBytesFirst
                                                                     : Offer::kFloatsFirst;
  }
  return Offer::kNone;
}

int count(const Model& m, const std::string& op) {
  return static_cast<int>(std::count_if(m.graph.nodes.begin(), m.graph.nodes.end(),
                                        [&](const Node& n) { return n.op_type == op; }));
}

HostTensor bytes(DType t, const Shape& shape, std::int64_t step) {
  HostTensor out(t, shape);
  for (std::int64_t i = 0; i < out.size(); ++i)
    out.set_int(i, i * step % 97 - (t == DType::kI8 ? 48 : 0));
  return out;
}

HostTensor scales(const Shape& shape) {
  HostTensor out(DType::kF32, shape);
  for (std::int64_t i = 0; i < out.size(); ++i)
    out.set_float(i, 0.01 + 0.002 * static_cast<double>(i));
  return out;
}

HostTensor number(DType t, std::int64_t value) {
  HostTensor out(t, {});
  out.set_int(0, value);
  return out;
}

struct Case {
  std::string op;
  Shape x, w;
  std::vector<Attribute> attributes = {};
  Shape w_scale = {};
  std::int64_t axis = 0, x_zero = 0;
  DType x_type = DType::kU8, w_type = DType::kI8;
  Shape bias = {};
};

// y = op(DQ(Q(x)), DQ(w), bias)
Model qdq(const Case& c) {
  std::vector<Initializer> constants = {
      {"xs", scales({})},
      {"xz", number(c.x_type, c.x_zero)},
      {"w", bytes(c.w_type, c.w, 7)},
      {"ws", scales(c.w_scale)},
      {"wz", HostTensor(c.w_type, c.w_scale)},
  };
  const Attribute axis{"axis", c.axis, ""};
  std::vector<Node> nodes = {make_node("QuantizeLinear", {"x", "xs", "xz"}, {"q"}),
                             make_node("DequantizeLinear", {"q", "xs", "xz"}, {"xd"}),
                             make_node("DequantizeLinear", {"w", "ws", "wz"}, {"wd"}, {axis})};
  std::vector<std::string> inputs = {"xd", "wd"};
  if (!c.bias.empty()) {
    constants.push_back({"b", scales(c.bias)});
    inputs.emplace_back("b");
  }
  nodes.push_back(make_node(c.op, inputs, {"y"}, c.attributes));
  return make_model(
      make_graph({value_info("x", DType::kF32, c.x)}, nodes, {"y"}, std::move(constants)));
}

HostTensor evaluate(const Model& model, const Shape& x) {
  Rng rng(3);
  ImportOptions options;
  options.values["x"] = random_tensor(DType::kF32, x, rng);
  const auto graph = import_model(model, options);
  EXPECT_TRUE(graph.ok()) << graph.error().message;
  return graph.ok() ? *graph->constant(graph->outputs[0]) : HostTensor();
}

TEST(IntegerProducts, OfConvolutionsAndMatricesGiveTheSame) {
  const std::vector<Case> cases = {
      {.op = "Conv",
       .x = {1, 3, 6, 5},
       .w = {4, 3, 3, 3},
       .attributes = {{"pads", Shape{1, 1, 1, 1}, ""}},
       .w_scale = {4},
       .x_zero = 17,
       .bias = {4}},
      {.op = "Conv",
       .x = {2, 4, 5},
       .w = {4, 1, 3},
       .attributes = {{"group", std::int64_t{4}, ""}},
       .x_type = DType::kI8},
      {.op = "Gemm",
       .x = {3, 8},
       .w = {5, 8},
       .attributes = {{"transB", std::int64_t{1}, ""}},
       .w_scale = {5},
       .x_zero = 9,
       .bias = {5}},
      {.op = "Gemm", .x = {3, 8}, .w = {8, 5}, .w_scale = {5}, .axis = -1},
      {.op = "MatMul",
       .x = {2, 3, 8},
       .w = {8, 5},
       .w_scale = {5},
       .axis = 1,
       .x_zero = 3,
       .w_type = DType::kU8},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op);
    const Model given = qdq(c);
    const Model made = *with_integer_products(given);
    EXPECT_EQ(offer(made), Offer::kBytesFirst);
    EXPECT_EQ(count(made, c.op), 1);
    EXPECT_EQ(count(made, c.op == "Conv" ? "ConvInteger" : "MatMulInteger"), 1);
    EXPECT_EQ(count(made, "Add"), c.bias.empty() ? 0 : 1);
    const HostTensor want = evaluate(given, c.x), got = evaluate(made, c.x);
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got.get_float(i), want.get_float(i), 1e-4) << i;
  }
}

// x of bytes 255 and weights of bytes -128 (of 255, where they have no sign), `depth` products
// deep.
Model deep(const std::string& op, std::int64_t depth, DType w_type, std::int64_t w_zero) {
  const bool conv = op == "Conv";
  HostTensor w(w_type, conv ? Shape{1, depth / 4, 2, 2} : Shape{depth, 1});
  for (std::int64_t i = 0; i < w.size(); ++i) w.set_int(i, w_type == DType::kI8 ? -128 : 255);
  std::vector<Node> nodes = {make_node("QuantizeLinear", {"x", "xs", "xz"}, {"q"}),
                             make_node("DequantizeLinear", {"q", "xs", "xz"}, {"xd"}),
                             make_node("DequantizeLinear", {"w", "ws", "wz"}, {"wd"}),
                             make_node(op, {"xd", "wd"}, {"y"})};
  const Shape x = conv ? Shape{1, depth / 4, 2, 2} : Shape{1, depth};
  return make_model(make_graph({value_info("x", DType::kF32, x)}, nodes, {"y"},
                               {{"xs", float_tensor({}, {1})},
                                {"xz", number(DType::kU8, 0)},
                                {"w", w},
                                {"ws", float_tensor({}, {1})},
                                {"wz", number(w_type, w_zero)}}));
}

TEST(IntegerProducts, AreNotTakenWhereSumsOverflow) {
  constexpr std::int64_t kFits = 65792, kDeep = 70000;  // 255 * 128 * 65793 is above 2^31 - 1
  for (const char* op : {"MatMul", "Gemm", "Conv"}) {
    SCOPED_TRACE(op);
    EXPECT_EQ(offer(*with_integer_products(deep(op, kFits, DType::kI8, 0))), Offer::kBytesFirst);
    EXPECT_EQ(offer(*with_integer_products(deep(op, kFits + 4, DType::kI8, 0))), Offer::kNone);
    const Model made = *with_integer_products(deep(op, kDeep, DType::kI8, 0));
    EXPECT_EQ(offer(made), Offer::kNone);
    ImportOptions options;
    const Shape x = std::string(op) == "Conv" ? Shape{1, kDeep / 4, 2, 2} : Shape{1, kDeep};
    HostTensor full(DType::kF32, x);
    for (std::int64_t i = 0; i < full.size(); ++i) full.set_float(i, 255);
    options.values["x"] = full;
    const auto graph = import_model(made, options);
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    EXPECT_NEAR(graph->constant(graph->outputs[0])->get_float(0), -255. * 128 * kDeep, 1e6);
  }
  // Bytes without sign, or less a zero point, reach 255.
  EXPECT_EQ(offer(*with_integer_products(deep("MatMul", 33025, DType::kU8, 0))),
            Offer::kBytesFirst);
  EXPECT_EQ(offer(*with_integer_products(deep("MatMul", 33026, DType::kU8, 0))), Offer::kNone);
  EXPECT_EQ(offer(*with_integer_products(deep("MatMul", 33026, DType::kI8, 127))), Offer::kNone);
}

// Of 8-bit floats: offered where that is asked for, and never preferred.
TEST(IntegerProducts, OfShortFloats) {
  const std::vector<Case> cases = {{.op = "Conv",
                                    .x = {1, 3, 6, 5},
                                    .w = {4, 3, 3, 3},
                                    .attributes = {{"pads", Shape{1, 1, 1, 1}, ""}},
                                    .w_scale = {4},
                                    .x_type = DType::kF8E4M3,
                                    .w_type = DType::kF8E5M2,
                                    .bias = {4}},
                                   {.op = "Gemm",
                                    .x = {3, 8},
                                    .w = {5, 8},
                                    .attributes = {{"transB", std::int64_t{1}, ""}},
                                    .w_scale = {5},
                                    .x_type = DType::kF8E4M3,
                                    .w_type = DType::kF8E4M3},
                                   {.op = "MatMul",
                                    .x = {2, 3, 8},
                                    .w = {8, 5},
                                    .w_scale = {5},
                                    .axis = 1,
                                    .x_type = DType::kF8E5M2,
                                    .w_type = DType::kF8E4M3}};
  const auto bytes_only = [](const std::string&, bool preferred) -> Result<bool> {
    EXPECT_FALSE(preferred);
    return true;
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.op);
    const Model given = qdq(c);
    EXPECT_EQ(offer(*with_integer_products(given)), Offer::kNone);
    const Model made = *with_integer_products(given, {.short_floats = true, .decide = bytes_only});
    EXPECT_EQ(offer(made), Offer::kFloatsFirst);
    EXPECT_EQ(count(made, c.op == "Conv" ? "Conv" : "MatMul"), 1);
    EXPECT_EQ(count(made, c.op == "Conv" ? "ConvInteger" : "MatMulInteger"), 0);
    const HostTensor want = evaluate(given, c.x), got = evaluate(made, c.x);
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got.get_float(i), want.get_float(i), 1e-4) << i;
    Model mixed = given;
    for (Initializer& v : mixed.graph.initializers) {
      if (v.name == "w") v.value = bytes(DType::kI8, c.w, 7);
      if (v.name == "wz") v.value = HostTensor(DType::kI8, c.w_scale);
    }
    EXPECT_EQ(offer(*with_integer_products(mixed, {.short_floats = true})), Offer::kNone);
  }
}

// Between DequantizeLinear and the product: the bytes are given the shape instead.
TEST(IntegerProducts, SeeThroughWhatOnlyMoves) {
  Model given = qdq({.op = "MatMul", .x = {2, 4, 2}, .w = {8, 5}, .x_zero = 3});
  given.graph.nodes[1].outputs = {"whole"};
  given.graph.nodes.insert(given.graph.nodes.begin() + 2, make_node("Flatten", {"whole"}, {"xd"}));
  const Model made = *with_integer_products(given);
  EXPECT_EQ(count(made, "MatMulInteger"), 1);
  const HostTensor want = evaluate(given, {2, 4, 2}), got = evaluate(made, {2, 4, 2});
  ASSERT_EQ(got.shape(), want.shape());
  for (std::int64_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got.get_float(i), want.get_float(i), 1e-4) << i;
}

TEST(IntegerProducts, WhatIsNotOfTheFormStays) {
  const Case along{.op = "MatMul", .x = {3, 8}, .w = {8, 5}, .w_scale = {8}, .axis = 0};
  EXPECT_EQ(offer(*with_integer_products(qdq(along))), Offer::kNone);
  const Case scaled{.op = "Gemm", .x = {3, 8}, .w = {8, 5}, .attributes = {{"alpha", 0.5F, ""}}};
  EXPECT_EQ(offer(*with_integer_products(qdq(scaled))), Offer::kNone);
  const Case wide{.op = "MatMul", .x = {3, 8}, .w = {8, 5}, .x_type = DType::kI16};
  EXPECT_EQ(offer(*with_integer_products(qdq(wide))), Offer::kNone);
  // The weights are an input whose value the file merely suggests.
  Model open = qdq({.op = "MatMul", .x = {3, 8}, .w = {8, 5}});
  open.graph.inputs.push_back(value_info("w", DType::kI8, {8, 5}));
  EXPECT_EQ(offer(*with_integer_products(open)), Offer::kNone);
}

// A processor that adds products by fours gains nothing where there are no fours.
TEST(IntegerProducts, OfWholeGroupsOnly) {
  const Case three{.op = "Conv", .x = {1, 3, 6, 5}, .w = {4, 3, 3, 3}};
  const Case three_apart{.op = "Conv", .x = {1, 3, 6, 5}, .w = {4, 3, 3, 1}};
  const Case four{.op = "Conv", .x = {1, 4, 6, 5}, .w = {4, 4, 3, 3}};
  const Case apart{.op = "Conv",
                   .x = {1, 8, 6, 5},
                   .w = {8, 4, 3, 3},
                   .attributes = {{"group", std::int64_t{2}, ""}}};
  const Case turned{
      .op = "Gemm", .x = {3, 8}, .w = {5, 8}, .attributes = {{"transB", std::int64_t{1}, ""}}};
  const Case odd{.op = "Gemm", .x = {3, 6}, .w = {6, 8}};
  const Case product{.op = "MatMul", .x = {3, 8}, .w = {8, 5}};
  const Case odd_product{.op = "MatMul", .x = {3, 5}, .w = {5, 8}};
  const auto pays = [](const Case& c) {
    return offer(*with_integer_products(qdq(c), {.depth = 4})) == Offer::kBytesFirst;
  };
  EXPECT_TRUE(pays(three)) << "they are summed along the rows of a window";
  EXPECT_FALSE(pays(three_apart));
  EXPECT_TRUE(pays(four));
  EXPECT_FALSE(pays(apart));
  EXPECT_TRUE(pays(turned));
  EXPECT_FALSE(pays(odd));
  EXPECT_TRUE(pays(product));
  EXPECT_FALSE(pays(odd_product));
  // It may be measured all the same.
  EXPECT_EQ(offer(*with_integer_products(qdq(odd), {.depth = 4})), Offer::kFloatsFirst);
}

// The plan decides, node by node; without one it is as the offer prefers.
TEST(IntegerProducts, ArePointsOfThePlan) {
  Model model = *with_integer_products(qdq({.op = "MatMul", .x = {3, 8}, .w = {8, 5}}));
  const auto imported = import_model(model, {});
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  const auto sums_integers = [&](plan::Decisions decisions) {
    graph::Graph graph = *imported;
    graph::PassOptions options;
    options.decider = std::make_shared<plan::Decider>(std::move(decisions));
    EXPECT_TRUE(graph::optimize(graph, options).ok());
    EXPECT_EQ(options.decider->decided().at(0).point.name, "integer y");
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& n) {
      return std::string_view(n.op->name) == "contract" &&
             graph.type(n.outputs[0]).dtype == DType::kI32;
    });
  };
  EXPECT_TRUE(sums_integers({}));
  EXPECT_TRUE(sums_integers({{"integers", "bytes"}}));
  EXPECT_FALSE(sums_integers({{"integers", "floats"}}));
  EXPECT_FALSE(sums_integers({{"integer y", "floats"}}));
}

// Who searches no plans does not pay for both; the plan is asked once more, and cannot differ.
TEST(IntegerProducts, AreImportedAsWasDecided) {
  for (const bool bytes : {false, true}) {
    std::string asked;
    IntegerProducts how;
    how.decide = [&](const std::string& key, bool preferred) -> Result<bool> {
      EXPECT_TRUE(preferred);
      asked = key;
      return bytes;
    };
    const Model made = *with_integer_products(qdq({.op = "MatMul", .x = {3, 8}, .w = {8, 5}}), how);
    EXPECT_EQ(asked, "integer y");
    EXPECT_EQ(count(made, "MatMul"), bytes ? 0 : 1);
    EXPECT_EQ(count(made, "MatMulInteger"), bytes ? 1 : 0);
    graph::Graph graph = import_model(made, {}).value();
    graph::PassOptions options;
    options.decider =
        std::make_shared<plan::Decider>(plan::Decisions{{"integer y", bytes ? "floats" : "bytes"}});
    const auto other = graph::optimize(graph, options);
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message.find("was imported otherwise"), std::string::npos);
  }
  IntegerProducts refusing;
  refusing.decide = [](const std::string&, bool) -> Result<bool> {
    return make_error(ErrorCode::kInvalidArgument, "no such value");
  };
  EXPECT_FALSE(
      with_integer_products(qdq({.op = "MatMul", .x = {3, 8}, .w = {8, 5}}), refusing).ok());
}

// No file has it, but one may claim to.
TEST(IntegerProducts, AFileThatOffersIsChecked) {
  Model model = *with_integer_products(qdq({.op = "MatMul", .x = {3, 8}, .w = {8, 5}}));
  model.graph.nodes.back().attributes.pop_back();
  const auto imported = import_model(model, {});
  ASSERT_FALSE(imported.ok());
  EXPECT_NE(imported.error().message.find("attribute 'only' is missing"), std::string::npos);
}

}  // namespace
}  // namespace tessera::onnx::testing
