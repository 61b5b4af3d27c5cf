// Names, scopes, functions, symbolic sizes, and what import says about models it refuses.
#include "tessera/frontend/onnx/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_builder.h"

namespace tessera::onnx {
namespace {

using testing::float_tensor;
using ::testing::HasSubstr;
using testing::int_tensor;
using testing::make_graph;
using testing::make_model;
using testing::make_node;
using ::testing::Not;
using testing::value_info;

const ValueInfo kX = value_info("x", DType::kF32, {2, 3});

Error import_error(const Graph& graph, const ImportOptions& options = {}) {
  const auto imported = import_model(make_model(graph), options);
  return imported.ok() ? Error{ErrorCode::kBuildFailed, "imported"} : imported.error();
}

graph::Graph import_ok(const Model& model, const ImportOptions& options = {}) {
  auto imported = import_model(model, options);
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  return imported.ok() ? *std::move(imported) : graph::Graph{};
}

TEST(Import, FoldsShape) {
  const graph::Graph graph =
      import_ok(make_model(make_graph({kX}, {make_node("Shape", {"x"}, {"s"})}, {"s"})));
  EXPECT_TRUE(graph.nodes.empty());
  const HostTensor* s = graph.constant(graph.outputs[0]);
  ASSERT_NE(s, nullptr);
  EXPECT_EQ(s->get_int(0), 2);
  EXPECT_EQ(s->get_int(1), 3);
}

TEST(Import, SortsNodes) {
  const graph::Graph graph = import_ok(make_model(
      make_graph({kX}, {make_node("Neg", {"a"}, {"y"}), make_node("Abs", {"x"}, {"a"})}, {"y"})));
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_STREQ(graph.nodes[0].op->name, "abs");
}

// The warnings of importing a valid model.
std::vector<std::string> warnings_of(const Graph& graph) {
  std::vector<std::string> warnings;
  ImportOptions options;
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  const auto imported = import_model(make_model(graph), options);
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  return warnings;
}

TEST(Import, SaysThatNodesWereNotSorted) {
  const Node last = make_node("Neg", {"a"}, {"y"}), first = make_node("Abs", {"x"}, {"a"});
  EXPECT_EQ(warnings_of(make_graph({kX}, {first, last}, {"y"})), std::vector<std::string>{});
  EXPECT_EQ(warnings_of(make_graph({kX}, {last, first}, {"y"})),
            std::vector<std::string>{"node '' (Neg, output 'y') stands before node '' (Abs, output "
                                     "'a'), which it needs: nodes were sorted"});
  // A node that nobody needs may stand anywhere.
  EXPECT_EQ(warnings_of(make_graph({kX}, {make_node("Exp", {"a"}, {"z"}), first}, {"a"})),
            std::vector<std::string>{});
}

TEST(Import, TheLastConstantOfANameCounts) {
  const auto constant = [](double v) {
    return make_node("Constant", {}, {"w"}, {{"value", float_tensor({1}, {v}), ""}});
  };
  const Node add = make_node("Add", {"x", "w"}, {"y"});
  const Initializer one{"w", float_tensor({1}, {1})}, two{"w", float_tensor({1}, {2})};
  const HostTensor x = float_tensor({2, 3}, {0, 0, 0, 0, 0, 0});
  for (const auto& [graph, want] :
       {std::pair(make_graph({kX}, {add}, {"y"}, {one, two}), 2.0),
        std::pair(make_graph({kX}, {constant(3), constant(4), add}, {"y"}), 4.0),
        std::pair(make_graph({kX}, {constant(5), add}, {"y"}, {one}), 5.0)}) {
    EXPECT_EQ(warnings_of(graph),
              std::vector<std::string>{"constant 'w' is defined twice: the last one counts"});
    const auto y = graph::evaluate(import_ok(make_model(graph)), {x});
    ASSERT_TRUE(y.ok()) << y.error().message;
    EXPECT_EQ((*y)[0].get_float(0), want);
  }
}

TEST(Import, NamesANodeOfACycle) {
  Node first = make_node("Add", {"x", "b"}, {"a"});
  first.name = "ring";
  const Error error =
      import_error(make_graph({kX}, {first, make_node("Neg", {"a"}, {"b"})}, {"b"}));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("cycle"));
  EXPECT_THAT(error.message, HasSubstr("node 'ring' (Add, output 'a')"));
}

TEST(Import, RefusesNamesThatMeanNothingOrTwoThings) {
  EXPECT_THAT(import_error(make_graph({kX}, {make_node("Neg", {"q"}, {"y"})}, {"y"})).message,
              HasSubstr("node '' (Neg-17, output 'y'): input 'q' is defined nowhere"));
  EXPECT_THAT(import_error(make_graph({kX}, {}, {"y"})).message,
              HasSubstr("output 'y' is computed by no node"));
  const Node neg = make_node("Neg", {"x"}, {"y"});
  EXPECT_THAT(import_error(make_graph({kX}, {neg, neg}, {"y"})).message,
              HasSubstr("value 'y' is defined twice"));
  EXPECT_THAT(import_error(make_graph({kX, kX}, {neg}, {"y"})).message,
              HasSubstr("value 'x' is defined twice"));
  EXPECT_THAT(import_error(make_graph({kX}, {make_node("Neg", {"x"}, {"x"})}, {"x"})).message,
              HasSubstr("value 'x' is defined twice"));
  // Only constants may be replaced, and only by constants.
  EXPECT_THAT(import_error(make_graph({kX}, {neg}, {"y"}, {{"y", float_tensor({1}, {1})}})).message,
              HasSubstr("value 'y' is defined twice"));
}

TEST(Import, OutputsMayBeInputsAndInitializers) {
  const graph::Graph graph =
      import_ok(make_model(make_graph({kX}, {}, {"x", "w"}, {{"w", float_tensor({1}, {5})}})));
  EXPECT_EQ(graph.outputs[0], graph.inputs[0]);
  EXPECT_EQ(graph.constant(graph.outputs[1])->get_float(0), 5);
  EXPECT_EQ(graph.output_names, (std::vector<std::string>{"x", "w"}));
}

TEST(Import, InitializersListedAsInputsAreDefaults) {
  Model model = make_model(make_graph({kX, value_info("w", DType::kF32, {1})},
                                      {make_node("Mul", {"x", "w"}, {"y"})}, {"y"},
                                      {{"w", float_tensor({1}, {5})}}));
  model.ir_version = 3;
  EXPECT_EQ(import_ok(model).inputs.size(), 1U);
  ImportOptions options;
  options.values["w"] = float_tensor({1}, {7});
  options.values["x"] = float_tensor({2, 3}, {1, 1, 1, 1, 1, 1});
  const graph::Graph graph = import_ok(model, options);
  EXPECT_TRUE(graph.inputs.empty());
  EXPECT_EQ(graph.constant(graph.outputs[0])->get_float(5), 7);
}

TEST(Import, ListsEveryUnsupportedNode) {
  Node vendor = make_node("Fused", {"x"}, {"b"});
  vendor.domain = "com.microsoft";
  const Error error = import_error(
      make_graph({kX},
                 {make_node("NoSuchOp", {"x"}, {"a"}), vendor, make_node("Add", {"a", "b"}, {"y"}),
                  make_node("NorThis", {"y"}, {"z"})},
                 {"z"}));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("node '' (NoSuchOp-17, output 'a')"));
  EXPECT_THAT(error.message, HasSubstr("com.microsoft.Fused-1"));
  EXPECT_THAT(error.message, HasSubstr("NorThis-17"));
  EXPECT_THAT(error.message, Not(HasSubstr("Add")));
}

TEST(Import, IgnoresWhatNoOutputNeeds) {
  const Graph graph =
      make_graph({kX, {"text", "string", true, {}}},
                 {make_node("NoSuchOp", {"x"}, {"a"}), make_node("Neg", {"x"}, {"y"}),
                  make_node("Constant", {}, {"t"}, {{"value_string", std::string("s"), ""}})},
                 {"y"}, {{"f", ForeignTensor{"float8e4m3fnuz"}}});
  EXPECT_EQ(import_ok(make_model(graph)).nodes.size(), 1U);
}

TEST(Import, RefusesForeignValuesWhereTheyAreUsed) {
  const Error error = import_error(make_graph({kX}, {make_node("Neg", {"f"}, {"y"})}, {"y"},
                                              {{"f", ForeignTensor{"float8e4m3fnuz"}}}));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("input 'f' is of type float8e4m3fnuz"));
  EXPECT_EQ(import_error(make_graph({{"s", "string", true, {}}}, {}, {"s"})).code,
            ErrorCode::kUnsupported);
}

TEST(Import, RefusesWrongNumbersOfInputs) {
  EXPECT_THAT(import_error(make_graph({kX}, {make_node("Add", {"x", ""}, {"y"})}, {"y"})).message,
              HasSubstr("input 1 is missing"));
  EXPECT_THAT(import_error(make_graph({kX}, {make_node("Neg", {"x", "x"}, {"y"})}, {"y"})).message,
              HasSubstr("2 inputs, at most 1"));
}

TEST(Import, ReportsWrongShapes) {
  const Error error = import_error(make_graph({kX, value_info("z", DType::kF32, {4, 5})},
                                              {make_node("Add", {"x", "z"}, {"y"})}, {"y"}));
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("node '' (Add-17, output 'y')"));
}

TEST(Import, RefusesOperandsOfTheWrongTypeInsideFormulas) {
  const Error error = import_error(make_graph(
      {kX}, {make_node("QLinearMatMul", std::vector<std::string>(8, "x"), {"y"})}, {"y"}));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("operands of f32 and f32"));
}

TEST(Import, GivesSizesToSymbols) {
  const ValueInfo a{"a", "f32", true, {{-1, "n"}, {-1, "tokens"}, {-1, "batch_size"}, {4, ""}}};
  const ValueInfo b{"b", "f32", true, {{-1, "n"}, {-1, "tokens"}}};
  const Model model = make_model(make_graph({a, b}, {}, {"a", "b"}));
  ImportOptions options;
  options.assumed_size = 7;
  graph::Graph graph = import_ok(model, options);
  EXPECT_EQ(graph.shape(graph.inputs[0]), (Shape{1, 7, 1, 4}));
  options.symbols["tokens"] = 9;
  graph = import_ok(model, options);
  EXPECT_EQ(graph.shape(graph.inputs[1]), (Shape{1, 9}));
  options = {};
  options.shapes["b"] = {5, 6};  // tells what the symbols are
  graph = import_ok(model, options);
  EXPECT_EQ(graph.shape(graph.inputs[0]), (Shape{5, 6, 1, 4}));
}

TEST(Import, ChecksGivenShapesAndValues) {
  const Graph graph = make_graph({kX}, {make_node("Neg", {"x"}, {"y"})}, {"y"});
  ImportOptions options;
  options.shapes["x"] = {2, 4};
  EXPECT_THAT(import_error(graph, options).message,
              HasSubstr("shape 2x4 does not fit the declared f32[2,3]"));
  options.override_declared = true;
  EXPECT_EQ(import_ok(make_model(graph), options).inputs.size(), 1U);
  options = {};
  options.shapes["q"] = {1};
  EXPECT_THAT(import_error(graph, options).message, HasSubstr("no input 'q'"));
  options = {};
  options.values["x"] = int_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(import_error(graph, options).message, HasSubstr("type i64 was given"));
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THAT(
      import_error(make_graph({value_info("x", DType::kF32, {huge, huge})}, {}, {"x"})).message,
      HasSubstr("too large"));
  EXPECT_THAT(import_error(make_graph({{"x", "f32", false, {}}}, {}, {"x"})).message,
              HasSubstr("declares no shape; set it with --shape "));
}

Function make_function(const std::string& name, std::vector<Node> nodes) {
  Function function;
  function.domain = "local";
  function.name = name;
  function.inputs = {"a", "b"};
  function.outputs = {"r"};
  function.nodes = std::move(nodes);
  function.opsets = {{"", 17}, {"local", 1}};
  return function;
}

Node call(const std::string& name, std::vector<std::string> inputs, const std::string& output,
          std::vector<Attribute> attributes = {}) {
  Node node = make_node(name, std::move(inputs), {output}, std::move(attributes));
  node.domain = "local";
  return node;
}

TEST(ImportFunction, InlinesWithAttributesAndDefaults) {
  Function function =
      make_function("F", {make_node("Constant", {}, {"k"}, {{"value_float", 0.0F, "scale"}}),
                          make_node("Mul", {"a", "k"}, {"r"})});
  function.default_attributes = {{"scale", 3.0F, ""}};
  Model model = make_model(make_graph(
      {kX}, {call("F", {"x"}, "u"), call("F", {"x"}, "v", {{"scale", 5.0F, ""}})}, {"u", "v"}));
  model.functions = {function};
  ImportOptions options;
  options.values["x"] = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const graph::Graph graph = import_ok(model, options);
  EXPECT_EQ(graph.constant(graph.outputs[0])->get_float(1), 6);
  EXPECT_EQ(graph.constant(graph.outputs[1])->get_float(1), 10);
}

TEST(ImportFunction, OmittedInputsStayOmitted) {
  Model model = make_model(make_graph({kX}, {call("F", {"x"}, "y")}, {"y"}));
  model.functions = {make_function("F", {make_node("Clip", {"a", "b"}, {"r"})})};
  EXPECT_TRUE(import_model(model).ok());
  model.functions = {make_function("F", {make_node("Add", {"a", "b"}, {"r"})})};
  EXPECT_THAT(import_model(model).error().message,
              HasSubstr("node '' (local.F-1, output 'y'): node '' (Add-17, output 'r'): input 1"));
}

TEST(ImportFunction, RefusesRecursion) {
  Model model = make_model(make_graph({kX}, {call("F", {"x"}, "y")}, {"y"}));
  model.functions = {make_function("F", {call("F", {"a"}, "r")})};
  EXPECT_THAT(import_model(model).error().message, HasSubstr("nested too deep"));
}

TEST(ImportFunction, RefusesExponentialGrowth) {
  Model model = make_model(make_graph({kX}, {call("F0", {"x"}, "y")}, {"y"}));
  for (int i = 0; i < 40; ++i) {
    const std::string next = fmt::format("F{}", i + 1);
    model.functions.push_back(
        make_function(fmt::format("F{}", i), {call(next, {"a"}, "t"), call(next, {"t"}, "r")}));
  }
  model.functions.push_back(make_function("F40", {make_node("Neg", {"a"}, {"r"})}));
  ImportOptions options;
  options.max_nodes = 1000;
  EXPECT_THAT(import_model(model, options).error().message, HasSubstr("beyond 1000 nodes"));
}

TEST(CheckModel, CountsAndReports) {
  Graph body = make_graph({}, {make_node("Neg", {"x"}, {"t"})}, {"t"});
  const Model model =
      make_model(make_graph({kX, value_info("c", DType::kBool, {})},
                            {make_node("If", {"c"}, {"y"},
                                       {testing::body_attribute("then_branch", body),
                                        testing::body_attribute("else_branch", body)}),
                             make_node("NoSuchOp", {"x"}, {"z"})},
                            {"y", "z"}));
  const auto report = check_model(model);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->nodes, 4);
  EXPECT_EQ(report->operators.at("Neg-17"), 2);
  ASSERT_EQ(report->unsupported.size(), 1U);
  EXPECT_EQ(report->unsupported[0].op, "NoSuchOp-17");
  EXPECT_EQ(report->unsupported[0].node, "z");
  ASSERT_EQ(report->data_dependent.size(), 1U);
  EXPECT_EQ(report->data_dependent[0].op, "If-17");
}

}  // namespace
}  // namespace tessera::onnx
