// Loops that are too long to unroll: one body, compiled once, for all steps.
#include "tessera/app/compile/run_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/app/compile/run_split.h"
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

Result<SplitRun> run_in_parts(const onnx::Model& model, const Values& in,
                              const onnx::ImportOptions& import = {}) {
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(target::host(), device);
  CompileOptions load;
  load.import = import;
  load.import.unrolled_nodes = kUnrolledNodes;
  return run_split(model, in, evaluator, device, load);
}

// Runs it with bodies that are compiled, and node by node.
SplitRun expect_like_eager(const onnx::Model& model, const Values& in) {
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

TEST(RunLoop, AScanCompilesItsBodyOnce) {
  const SplitRun ran =
      expect_like_eager(scan_model(400, {}, {400, 8}),
                        {{"x", random_floats({400, 8}, 1)}, {"start", random_floats({1, 8}, 2)}});
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_LE(ran.compiled_kernels, 6) << "as many as the body has nodes, not the steps";
  EXPECT_EQ(ran.host_nodes, 1);
  ASSERT_EQ(ran.outputs.size(), 3u);
  EXPECT_EQ(ran.outputs[1].shape(), (Shape{400, 1, 1}));
  EXPECT_EQ(ran.outputs[2].shape(), (Shape{400, 1, 8}));
}

TEST(RunLoop, AxesAndDirectionsOfAScan) {
  const Values in = {{"x", random_floats({8, 300}, 1)}, {"start", random_floats({1, 8}, 2)}};
  const SplitRun ran =
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

TEST(RunLoop, ALoopCountsAndEndsByItsCondition) {
  const Values in = {{"x", float_tensor({4}, {1, 2, 3, 4})}};
  const SplitRun all = expect_like_eager(loop_model("n", "", 20000), in);
  EXPECT_EQ(all.outputs[1].shape(), Shape{500}) << "without a condition, that of the body is idle";
  EXPECT_GT(all.compiled_kernels, 0);
  const SplitRun ended = expect_like_eager(loop_model("n", "c", 20000), in);
  EXPECT_EQ(ended.outputs[1].shape(), Shape{284});
  EXPECT_GT(ended.compiled_kernels, 0);
  const SplitRun soon = expect_like_eager(loop_model("", "c", 400), in);
  EXPECT_EQ(soon.outputs[1].shape(), Shape{40});
  EXPECT_EQ(soon.compiled_kernels, 0) << "too few steps to be worth a compiler";
}

TEST(RunLoop, TooManyStepsAreRefused) {
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

TEST(RunLoop, ShapesThatChangeFromStepToStepRunNodeByNode) {
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
  const SplitRun ran = expect_like_eager(model, {{"x", float_tensor({2}, {1, 2})}});
  EXPECT_EQ(ran.outputs[0].shape(), Shape{68});
  EXPECT_EQ(ran.compiled_kernels, 0);
}

TEST(RunLoop, SequencesRunNodeByNode) {
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
  const SplitRun ran = expect_like_eager(model, {{"x", float_tensor({2}, {1, 2})}});
  EXPECT_EQ(ran.outputs[0].shape(), Shape{800});
}

}  // namespace
}  // namespace tessera::app
