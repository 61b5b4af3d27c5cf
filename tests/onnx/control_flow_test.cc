// If, Loop, Scan and sequences beyond what the backend cases cover.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_builder.h"
#include "tessera/frontend/onnx/import.h"

namespace tessera::onnx {
namespace {

using testing::body_attribute;
using testing::bool_scalar;
using testing::float_tensor;
using ::testing::HasSubstr;
using testing::int_tensor;
using testing::make_graph;
using testing::make_model;
using testing::make_node;
using testing::output;
using testing::value_info;

const ValueInfo kX = value_info("x", DType::kF32, {2});

// Outputs of a model at x = [1, 2].
Result<std::vector<HostTensor>> run(const Model& model) {
  TESSERA_TRY(const graph::Graph graph, import_model(model));
  return graph::evaluate(graph, {float_tensor({2}, {1, 2})});
}

Model if_model(ValueInfo condition, std::vector<Initializer> initializers) {
  const Graph then_branch = make_graph({}, {make_node("Neg", {"x"}, {"t"})}, {"t"});
  const Graph else_branch = make_graph({}, {}, {"x"});  // a lone name from outside
  return make_model(make_graph({kX, std::move(condition)},
                               {make_node("If", {"c"}, {"y"},
                                          {body_attribute("then_branch", then_branch),
                                           body_attribute("else_branch", else_branch)})},
                               {"y"}, std::move(initializers)));
}

TEST(If, TakesTheKnownBranch) {
  const ValueInfo c = value_info("c", DType::kBool, {});
  EXPECT_EQ(run(if_model(c, {{"c", bool_scalar(true)}}))->at(0).get_float(1), -2);
  EXPECT_EQ(run(if_model(c, {{"c", bool_scalar(false)}}))->at(0).get_float(1), 2);
  const auto graph = import_model(if_model(c, {}));
  EXPECT_EQ(graph.error().code, ErrorCode::kDataDependent);
  EXPECT_THAT(graph.error().message, HasSubstr("the condition follows from data"));
}

TEST(If, UnsupportedNodesOfTheOtherBranchDoNotMatter) {
  const Graph bad = make_graph({}, {make_node("NoSuchOp", {"x"}, {"t"})}, {"t"});
  const Graph good = make_graph({}, {make_node("Neg", {"x"}, {"t"})}, {"t"});
  const Model model = make_model(make_graph(
      {kX},
      {make_node("If", {"c"}, {"y"},
                 {body_attribute("then_branch", bad), body_attribute("else_branch", good)})},
      {"y"}, {{"c", bool_scalar(false)}}));
  EXPECT_TRUE(import_model(model).ok());
}

// y, ys = the loop x -> x + x; `count` and `condition` name its first inputs.
Model loop_model(const std::string& count, const std::string& condition,
                 std::vector<Node> more_nodes, const std::string& condition_out,
                 std::vector<Initializer> initializers) {
  std::vector<Node> nodes = {make_node("Add", {"v", "v"}, {"w"})};
  nodes.insert(nodes.end(), more_nodes.begin(), more_nodes.end());
  Graph body = make_graph({value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}),
                           value_info("v", DType::kF32, {2})},
                          nodes, {condition_out, "w"});
  body.outputs.push_back(value_info("v", DType::kF32, {2}));
  return make_model(make_graph(
      {kX},
      {make_node("Loop", {count, condition, "x"}, {"y", "ys"}, {body_attribute("body", body)})},
      {"y", "ys"}, std::move(initializers)));
}

TEST(Loop, UnrollsAConstantTripCount) {
  const auto out = run(loop_model("n", "", {}, "go", {{"n", int_tensor({}, {3})}}));
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->at(0).get_float(1), 16);
  EXPECT_EQ(out->at(1).shape(), (Shape{3, 2}));
  EXPECT_EQ(out->at(1).get_float(4), 4);
}

TEST(Loop, StopsWhenTheConditionFolds) {
  const auto out = run(loop_model("", "c", {make_node("Less", {"i", "n"}, {"more"})}, "more",
                                  {{"n", int_tensor({}, {4})}, {"c", bool_scalar(true)}}));
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->at(1).shape(), (Shape{5, 2}));
}

TEST(Loop, ZeroTripsGiveEmptyScans) {
  const auto out = run(loop_model("n", "", {}, "go", {{"n", int_tensor({}, {0})}}));
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->at(0).get_float(1), 2);
  EXPECT_EQ(out->at(1).shape(), (Shape{0, 2}));
}

TEST(Loop, RefusesLoopsWithoutEnd) {
  ImportOptions options;
  options.max_nodes = 500;
  const auto large =
      import_model(loop_model("n", "", {}, "go", {{"n", int_tensor({}, {5000})}}), options);
  EXPECT_THAT(large.error().message, HasSubstr("beyond 500 nodes"));
  const auto endless = import_model(loop_model("", "", {}, "go", {}), options);
  EXPECT_THAT(endless.error().message, HasSubstr("more than 100000 steps"));
  Graph body = make_graph({value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}),
                           value_info("v", DType::kF32, {2})},
                          {}, {"go", "v"});
  const Model idle = make_model(make_graph(
      {kX}, {make_node("Loop", {"", "", "x"}, {"y"}, {body_attribute("body", body)})}, {"y"}));
  EXPECT_THAT(import_model(idle).error().message,
              HasSubstr("more than 100000 steps; --max-loop-steps N"));
}

TEST(Loop, TheLimitOfStepsIsAnOption) {
  const auto loop = [](std::int64_t steps) {
    return loop_model("n", "", {}, "go", {{"n", int_tensor({}, {steps})}});
  };
  ImportOptions options;
  options.max_loop_steps = 5;
  EXPECT_TRUE(import_model(loop(5), options).ok());
  const auto refused = import_model(loop(6), options);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("more than 5 steps"));
}

TEST(Loop, LongOnesAreLeftToWhoeverRunsTheirBodies) {
  const auto loop = [](std::int64_t steps) {
    return loop_model("n", "c", {}, "go",
                      {{"n", int_tensor({}, {steps})}, {"c", bool_scalar(true)}});
  };
  ImportOptions options;
  options.unrolled_nodes = 40;
  EXPECT_TRUE(import_model(loop(40), options).ok());
  const auto refused = import_model(loop(41), options);
  EXPECT_EQ(refused.error().code, ErrorCode::kDataDependent);
  EXPECT_THAT(refused.error().message, HasSubstr("41 or more steps of 1 nodes are not unrolled"));
  options.unrolled_nodes = 0;
  EXPECT_TRUE(import_model(loop(kFewSteps), options).ok());
  EXPECT_TRUE(import_model(loop(41)).ok());
}

TEST(Loop, ConditionOnDataIsDataDependent) {
  const auto graph = import_model(
      loop_model("", "c",
                 {make_node("ReduceMax", {"w"}, {"m"}, {{"keepdims", std::int64_t{0}, ""}}),
                  make_node("Less", {"m", "limit"}, {"more"})},
                 "more", {{"c", bool_scalar(true)}, {"limit", float_tensor({}, {50})}}));
  EXPECT_EQ(graph.error().code, ErrorCode::kDataDependent);
}

// Running sums of [3, 2], last state and all states.
Model scan_model(std::vector<Attribute> attributes, std::int64_t opset) {
  const Graph body = make_graph(
      {value_info("s", DType::kF32, {2}), value_info("e", DType::kF32, {2})},
      {make_node("Add", {"s", "e"}, {"t"}), make_node("Identity", {"t"}, {"u"})}, {"t", "u"});
  attributes.push_back(body_attribute("body", body));
  attributes.push_back({"num_scan_inputs", std::int64_t{1}, ""});
  return make_model(make_graph({kX}, {make_node("Scan", {"x", "d"}, {"last", "all"}, attributes)},
                               {"last", "all"}, {{"d", float_tensor({3, 2}, {1, 2, 3, 4, 5, 6})}}),
                    opset);
}

TEST(Scan, RunsForwardAndReverse) {
  const auto forward = run(scan_model({}, 11));
  ASSERT_TRUE(forward.ok()) << forward.error().message;
  EXPECT_EQ(forward->at(0).get_float(0), 10);
  EXPECT_EQ(forward->at(1).shape(), (Shape{3, 2}));
  EXPECT_EQ(forward->at(1).get_float(0), 2);
  const std::vector<std::int64_t> one{1};
  const auto reverse = run(scan_model({{"scan_input_directions", one, ""},
                                       {"scan_output_directions", one, ""},
                                       {"scan_output_axes", one, ""}},
                                      11));
  ASSERT_TRUE(reverse.ok()) << reverse.error().message;
  EXPECT_EQ(reverse->at(1).shape(), (Shape{2, 3}));
  EXPECT_EQ(reverse->at(1).get_float(2), 6);  // the first step took the last element
}

TEST(Scan, RefusesBadAttributes) {
  EXPECT_THAT(
      run(scan_model({{"scan_input_axes", std::vector<std::int64_t>{5}, ""}}, 11)).error().message,
      HasSubstr("axis 5 is outside rank 2"));
  EXPECT_THAT(run(scan_model({{"scan_input_axes", std::vector<std::int64_t>{1, 2}, ""}}, 11))
                  .error()
                  .message,
              HasSubstr("2 entries, not 1"));
}

TEST(Sequence, PassesThroughLoops) {
  Graph body = make_graph(
      {value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}), output("q")},
      {make_node("Cast", {"i"}, {"f"}, {{"to", std::int64_t{1}, ""}}),
       make_node("Add", {"x", "f"}, {"e"}), make_node("SequenceInsert", {"q", "e"}, {"r"})},
      {"go", "r"});
  const Model model = make_model(
      make_graph({kX},
                 {make_node("SequenceEmpty", {}, {"s"}),
                  make_node("Loop", {"n", "", "s"}, {"t"}, {body_attribute("body", body)}),
                  make_node("ConcatFromSequence", {"t"}, {"y"}, {{"axis", std::int64_t{0}, ""}})},
                 {"y"}, {{"n", int_tensor({}, {3})}}));
  const auto out = run(model);
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->at(0).shape(), Shape{6});
  EXPECT_EQ(out->at(0).get_float(5), 4);
}

TEST(Sequence, RefusesWhatIsNoTensor) {
  const Node construct = make_node("SequenceConstruct", {"x"}, {"s"});
  const auto used = import_model(
      make_model(make_graph({kX}, {construct, make_node("Neg", {"s"}, {"y"})}, {"y"})));
  EXPECT_THAT(used.error().message, HasSubstr("input 's' is a sequence of tensors"));
  const auto returned = import_model(make_model(make_graph({kX}, {construct}, {"s"})));
  EXPECT_EQ(returned.error().code, ErrorCode::kUnsupported);
  const auto outside = import_model(
      make_model(make_graph({kX}, {construct, make_node("SequenceAt", {"s", "i"}, {"y"})}, {"y"},
                            {{"i", int_tensor({}, {1})}})));
  EXPECT_THAT(outside.error().message, HasSubstr("position 1 in a sequence of 1"));
}

}  // namespace
}  // namespace tessera::onnx
