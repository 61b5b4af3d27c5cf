// Loops that are too long to unroll: one body, compiled once, for all steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/app/compile/staged_model.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tests/onnx/model_builder.h"
#include "tests/testing/testing.h"

namespace tessera::app {
namespace {

using onnx::testing::body_attribute;
using onnx::testing::bool_scalar;
using onnx::testing::float_tensor;
using onnx::testing::int_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using onnx::testing::output;
using onnx::testing::value_info;
using ::testing::HasSubstr;
using Integers = std::vector<std::int64_t>;
using Values = std::map<std::string, HostTensor>;

HostTensor random_floats(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return random_tensor(DType::kF32, shape, rng);
}

Result<StagedRun> run_in_parts(const onnx::Model& model, const Values& in,
                               const onnx::ImportOptions& import = {}) {
  CompileOptions load;
  load.import = import;
  load.import.unrolled_nodes = kUnrolledNodes;
  return run_staged(model, in, load);
}

// Runs it with bodies that are compiled, and node by node.
StagedRun expect_like_eager(const onnx::Model& model, const Values& in) {
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(target::host(), device);
  CompileOptions load;
  load.import.unrolled_nodes = kUnrolledNodes;
  EXPECT_EQ(load_graph(model, load).error().code, ErrorCode::kDataDependent);
  const auto want = run_eager(model, in, evaluator);
  EXPECT_TRUE(want.ok()) << want.error().message;
  auto got = run_in_parts(model, in);
  EXPECT_TRUE(got.ok()) << got.error().message;
  if (!got.ok() || !want.ok()) return {};
  EXPECT_EQ(got->outputs.size(), want->size());
  for (std::size_t i = 0; i < want->size(); ++i) {
    EXPECT_EQ(testing::mismatch(got->outputs[i], (*want)[i], 1e-4), "") << i;
  }
  return std::move(*got);
}

// h = tanh(h * w + e * bias + extra): w is a constant of the model, extra is computed from an
// input.
onnx::Graph cell() {
  return make_graph(
      {value_info("h", DType::kF32, {1, 8}), value_info("e", DType::kF32, {8})},
      {make_node("MatMul", {"h", "w"}, {"hw"}), make_node("Mul", {"e", "bias"}, {"eb"}),
       make_node("Add", {"hw", "eb"}, {"s"}), make_node("Add", {"s", "extra"}, {"sx"}),
       make_node("Tanh", {"sx"}, {"next"}), make_node("ReduceSum", {"next", "all"}, {"sum"})},
      {"next", "sum", "next"}, {{"all", int_tensor({1}, {1})}});
}

onnx::Model scan_model(std::int64_t steps, const std::vector<onnx::Attribute>& more,
                       const Shape& scanned) {
  std::vector<onnx::Attribute> attributes = more;
  attributes.push_back(body_attribute("body", cell()));
  attributes.push_back({"num_scan_inputs", std::int64_t{1}, ""});
  EXPECT_EQ(elements(scanned), 8 * steps);
  return make_model(make_graph(
      {value_info("x", DType::kF32, scanned), value_info("start", DType::kF32, {1, 8})},
      {make_node("Neg", {"start"}, {"extra"}),
       make_node("Scan", {"start", "x"}, {"last", "sums", "all_h"}, attributes),
       make_node("Relu", {"all_h"}, {"y"})},
      {"last", "sums", "y"}, {{"w", random_floats({8, 8}, 5)}, {"bias", random_floats({8}, 6)}}));
}

TEST(StagedLoop, AScanCompilesItsBodyOnce) {
  const StagedRun ran =
      expect_like_eager(scan_model(400, {}, {400, 8}),
                        {{"x", random_floats({400, 8}, 1)}, {"start", random_floats({1, 8}, 2)}});
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_LE(ran.compiled_kernels, 6) << "as many as the body has nodes, not the steps";
  EXPECT_EQ(ran.host_nodes, 1);
  ASSERT_EQ(ran.outputs.size(), 3u);
  EXPECT_EQ(ran.outputs[1].shape(), (Shape{400, 1, 1}));
  EXPECT_EQ(ran.outputs[2].shape(), (Shape{400, 1, 8}));
}

TEST(StagedLoop, AxesAndDirectionsOfAScan) {
  const Values in = {{"x", random_floats({8, 300}, 1)}, {"start", random_floats({1, 8}, 2)}};
  const StagedRun ran =
      expect_like_eager(scan_model(300,
                                   {{"scan_input_axes", Integers{-1}, ""},
                                    {"scan_input_directions", Integers{1}, ""},
                                    {"scan_output_axes", Integers{0, -1}, ""},
                                    {"scan_output_directions", Integers{1, 0}, ""}},
                                   {8, 300}),
                        in);
  ASSERT_EQ(ran.outputs.size(), 3u);
  EXPECT_EQ(ran.outputs[2].shape(), (Shape{1, 8, 300}));
  EXPECT_GT(ran.compiled_kernels, 0);
}

// v = v + step / 8, until the sum of v is over the limit or n steps are done.
onnx::Model loop_model(const std::string& count, const std::string& condition, double limit) {
  onnx::Graph body =
      make_graph({value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}),
                  value_info("v", DType::kF32, {4})},
                 {make_node("Cast", {"i"}, {"f"}, {{"to", std::int64_t{1}, ""}}),
                  make_node("Mul", {"f", "eighth"}, {"d"}), make_node("Add", {"v", "d"}, {"w"}),
                  make_node("ReduceSum", {"w"}, {"sum"}, {{"keepdims", std::int64_t{0}, ""}}),
                  make_node("Less", {"sum", "limit"}, {"more"})},
                 {"more", "w", "sum"});
  return make_model(make_graph({value_info("x", DType::kF32, {4})},
                               {make_node("Loop", {count, condition, "x"}, {"last", "sums"},
                                          {body_attribute("body", body)})},
                               {"last", "sums"},
                               {{"eighth", float_tensor({}, {0.125})},
                                {"limit", float_tensor({}, {limit})},
                                {"n", int_tensor({}, {500})},
                                {"c", bool_scalar(true)}}));
}

TEST(StagedLoop, ALoopCountsAndEndsByItsCondition) {
  const Values in = {{"x", float_tensor({4}, {1, 2, 3, 4})}};
  const StagedRun all = expect_like_eager(loop_model("n", "", 20000), in);
  EXPECT_EQ(all.outputs[1].shape(), Shape{500}) << "without a condition, that of the body is idle";
  EXPECT_GT(all.compiled_kernels, 0);
  const StagedRun ended = expect_like_eager(loop_model("n", "c", 20000), in);
  EXPECT_EQ(ended.outputs[1].shape(), Shape{284});
  EXPECT_GT(ended.compiled_kernels, 0);
  const StagedRun soon = expect_like_eager(loop_model("", "c", 400), in);
  EXPECT_EQ(soon.outputs[1].shape(), Shape{40});
  EXPECT_EQ(soon.compiled_kernels, 0) << "too few steps to be worth a compiler";
}

TEST(StagedLoop, TooManyStepsAreRefused) {
  onnx::ImportOptions import;
  import.max_loop_steps = 150;
  const Values in = {{"x", float_tensor({4}, {1, 2, 3, 4})}};
  for (const auto& model : {loop_model("n", "", 1e30), loop_model("n", "c", 1e30),
                            loop_model("", "c", 1e30), loop_model("", "", 1)}) {
    const auto refused = run_in_parts(model, in, import);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("more than 150 steps; --max-loop-steps N"));
    EXPECT_THAT(refused.error().message, HasSubstr("Loop"));
  }
}

TEST(StagedLoop, ShapesThatChangeFromStepToStepRunNodeByNode) {
  const onnx::Graph body = make_graph(
      {value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}), output("v")},
      {make_node("Concat", {"v", "x"}, {"w"}, {{"axis", std::int64_t{0}, ""}}),
       make_node("ReduceSum", {"w"}, {"sum"}, {{"keepdims", std::int64_t{0}, ""}}),
       make_node("Less", {"sum", "limit"}, {"more"})},
      {"more", "w"});
  const onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {2})},
                 {make_node("Loop", {"", "c", "x"}, {"y"}, {body_attribute("body", body)})}, {"y"},
                 {{"limit", float_tensor({}, {100})}, {"c", bool_scalar(true)}}));
  const StagedRun ran = expect_like_eager(model, {{"x", float_tensor({2}, {1, 2})}});
  EXPECT_EQ(ran.outputs[0].shape(), Shape{68});
  EXPECT_EQ(ran.compiled_kernels, 0);
}

// Compiled at once is what runs again, not every shape of a value that grows.
TEST(StagedLoop, ShapesThatGrowAreNotAllCompiled) {
  const onnx::Graph body = make_graph(
      {value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}), output("v")},
      {make_node("Concat", {"v", "x"}, {"w"}, {{"axis", std::int64_t{0}, ""}})}, {"go", "w"});
  const onnx::Model model = make_model(make_graph(
      {value_info("n", DType::kI64, {}), value_info("x", DType::kF32, {2})},
      {make_node("Loop", {"n", "", "x"}, {"y"}, {body_attribute("body", body)})}, {"y"}));
  const auto staged = StagedModel::make(model, {}, {.threads = 1, .often = true});
  ASSERT_TRUE(staged.ok()) << staged.error().message;
  const auto ran = (*staged)->run({int_tensor({}, {40}), float_tensor({2}, {1, 2})});
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ((*ran)[0].shape(), Shape{82});
  EXPECT_EQ((*ran)[0].get_float(81), 2);
  EXPECT_LT((*staged)->compiled_kernels(), 20);
}

TEST(StagedLoop, SequencesRunNodeByNode) {
  onnx::Graph body = make_graph(
      {value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}), output("q")},
      {make_node("Cast", {"i"}, {"f"}, {{"to", std::int64_t{1}, ""}}),
       make_node("Add", {"x", "f"}, {"e"}), make_node("SequenceInsert", {"q", "e"}, {"r"})},
      {"go", "r"});
  const onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {2})},
                 {make_node("SequenceEmpty", {}, {"s"}),
                  make_node("Loop", {"n", "", "s"}, {"t"}, {body_attribute("body", body)}),
                  make_node("ConcatFromSequence", {"t"}, {"y"}, {{"axis", std::int64_t{0}, ""}})},
                 {"y"}, {{"n", int_tensor({}, {400})}}));
  const StagedRun ran = expect_like_eager(model, {{"x", float_tensor({2}, {1, 2})}});
  EXPECT_EQ(ran.outputs[0].shape(), Shape{800});
}

// h = (the sum of h is above zero ? tanh(h * w) : bias - h) * decay, `steps` times; the sums of all
// steps.
onnx::Model model_with_if(std::int64_t steps) {
  const onnx::Graph up = make_graph(
      {}, {make_node("MatMul", {"h", "w"}, {"p"}), make_node("Tanh", {"p"}, {"u"})}, {"u"});
  const onnx::Graph down = make_graph({}, {make_node("Sub", {"bias", "h"}, {"d"})}, {"d"});
  const onnx::Graph body = make_graph(
      {value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}),
       value_info("h", DType::kF32, {1, 9})},
      {make_node("ReduceSum", {"h"}, {"sum"}, {{"keepdims", std::int64_t{0}, ""}}),
       make_node("Greater", {"sum", "zero"}, {"above"}),
       make_node("If", {"above"}, {"b"},
                 {body_attribute("then_branch", up), body_attribute("else_branch", down)}),
       make_node("Mul", {"b", "decay"}, {"next"})},
      {"go", "next", "sum"});
  return make_model(make_graph(
      {value_info("x", DType::kF32, {1, 9})},
      {make_node("Loop", {"n", "", "x"}, {"last", "sums"}, {body_attribute("body", body)})},
      {"last", "sums"},
      {{"w", random_floats({9, 9}, 5)},
       {"bias", random_floats({1, 9}, 6)},
       {"zero", float_tensor({}, {0})},
       {"decay", float_tensor({}, {0.95})},
       {"n", int_tensor({}, {steps})}}));
}

TEST(StagedLoop, AnIfOnDataInALoopIsCompiledOnce) {
  const StagedRun ran = expect_like_eager(model_with_if(200), {{"x", random_floats({1, 9}, 3)}});
  EXPECT_EQ(ran.outputs[1].shape(), Shape{200});
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_LE(ran.compiled_kernels, 6) << "as many as body and branches have nodes";
}

TEST(StagedLoop, ARunFindsWhatTheLastOneCompiled) {
  CompileOptions load;
  load.import.unrolled_nodes = kUnrolledNodes;
  const onnx::Model model = model_with_if(50);
  const auto staged = StagedModel::make(model, load, {.often = true});
  ASSERT_TRUE(staged.ok()) << staged.error().message;
  ASSERT_TRUE((*staged)->prepare().ok());
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(target::host(), device);
  std::int64_t compiled = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const HostTensor x = random_floats({1, 9}, seed);
    const auto got = (*staged)->run({x});
    ASSERT_TRUE(got.ok()) << got.error().message;
    const auto want = run_eager(model, {{"x", x}}, evaluator);
    ASSERT_TRUE(want.ok()) << want.error().message;
    for (std::size_t i = 0; i < want->size(); ++i)
      EXPECT_EQ(testing::mismatch((*got)[i], (*want)[i], 1e-4), "") << seed << " " << i;
    if (seed == 2) compiled = (*staged)->compiled_kernels();
  }
  EXPECT_GT(compiled, 0);
  EXPECT_EQ((*staged)->compiled_kernels(), compiled);
}

// A loop in a loop, whose lengths follow from data, around a branch that reads both scopes.
TEST(StagedLoop, LoopsAndBranchesInsideEachOther) {
  const onnx::Graph plus = make_graph({}, {make_node("Add", {"v", "x"}, {"r"})}, {"r"});
  const onnx::Graph minus = make_graph({}, {make_node("Sub", {"v", "step"}, {"r"})}, {"r"});
  const onnx::Graph inner = make_graph(
      {value_info("j", DType::kI64, {}), value_info("inner_go", DType::kBool, {}),
       value_info("v", DType::kF32, {3})},
      {make_node("ReduceMax", {"v"}, {"top"}, {{"keepdims", std::int64_t{0}, ""}}),
       make_node("Less", {"top", "limit"}, {"low"}),
       make_node("If", {"low"}, {"next"},
                 {body_attribute("then_branch", plus), body_attribute("else_branch", minus)})},
      {"inner_go", "next"});
  const onnx::Graph outer =
      make_graph({value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {}),
                  value_info("u", DType::kF32, {3})},
                 {make_node("Cast", {"i"}, {"step"}, {{"to", std::int64_t{1}, ""}}),
                  make_node("Loop", {"count", "", "u"}, {"w"}, {body_attribute("body", inner)}),
                  make_node("ReduceSum", {"w"}, {"sum"}, {{"keepdims", std::int64_t{0}, ""}}),
                  make_node("Less", {"sum", "far"}, {"more"})},
                 {"more", "w", "w"});
  const onnx::Model model = make_model(make_graph(
      {value_info("x", DType::kF32, {3}), value_info("n", DType::kI64, {})},
      {make_node("Add", {"n", "one"}, {"count"}),
       make_node("Loop", {"m", "c", "x"}, {"last", "all"}, {body_attribute("body", outer)})},
      {"last", "all"},
      {{"limit", float_tensor({}, {3})},
       {"far", float_tensor({}, {25})},
       {"m", int_tensor({}, {9})},
       {"one", int_tensor({}, {1})},
       {"c", bool_scalar(true)}}));
  for (const std::int64_t n : {0, 2, 5}) {
    const StagedRun ran = expect_like_eager(
        model, {{"x", float_tensor({3}, {1, 0.5, 2})}, {"n", int_tensor({}, {n})}});
    ASSERT_EQ(ran.outputs.size(), 2u);
    EXPECT_EQ(ran.outputs[1].shape()[1], 3);
  }
}

}  // namespace
}  // namespace tessera::app
