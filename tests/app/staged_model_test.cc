// Models of which a part waits for data: the rest of them is compiled.
#include "tessera/app/compile/staged_model.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/app/compile/known_part.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tests/onnx/model_builder.h"
#include "tests/testing/testing.h"

namespace tessera::app {
namespace {

using onnx::Attribute;
using onnx::testing::body_attribute;
using onnx::testing::float_tensor;
using onnx::testing::int_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using onnx::testing::value_info;
using Integers = std::vector<std::int64_t>;

HostTensor random_floats(const Shape& shape, std::uint64_t seed) {
  Rng rng(seed);
  return random_tensor(DType::kF32, shape, rng);
}

// features = Conv(x), scores = sums of channels, flat: f32[1024]. 75 MFLOP.
std::vector<onnx::Node> backbone() {
  return {make_node("Conv", {"x", "k"}, {"c"}, {{"pads", Integers{1, 1, 1, 1}, ""}}),
          make_node("Relu", {"c"}, {"features"}),
          make_node("ReduceSum", {"features", "channels"}, {"s"}),
          make_node("Reshape", {"s", "line"}, {"flat"})};
}

std::vector<onnx::Initializer> weights() {
  return {{"k", random_floats({64, 64, 3, 3}, 5)},
          {"channels", int_tensor({1}, {1})},
          {"line", int_tensor({1}, {1024})},
          {"limit", float_tensor({}, {220})},
          {"minus", int_tensor({1}, {-1})},
          {"zero", int_tensor({1}, {0})},
          {"one", int_tensor({1}, {1})}};
}

onnx::Model with_backbone(const std::vector<onnx::Node>& more,
                          const std::vector<std::string>& outputs) {
  std::vector<onnx::Node> nodes = backbone();
  nodes.insert(nodes.end(), more.begin(), more.end());
  return make_model(
      make_graph({value_info("x", DType::kF32, {1, 64, 32, 32})}, nodes, outputs, weights()));
}

std::map<std::string, HostTensor> image() { return {{"x", random_floats({1, 64, 32, 32}, 7)}}; }

// Runs it in parts and compares with the same node by node.
StagedRun expect_like_eager(const onnx::Model& model, const std::map<std::string, HostTensor>& in) {
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(target::host(), device);
  EXPECT_EQ(load_graph(model, {}).error().code, ErrorCode::kDataDependent);
  const auto want = run_eager(model, in, evaluator);
  EXPECT_TRUE(want.ok()) << want.error().message;
  auto got = run_staged(model, in, {});
  EXPECT_TRUE(got.ok()) << got.error().message;
  if (!got.ok() || !want.ok()) return {};
  EXPECT_EQ(got->outputs.size(), want->size());
  for (std::size_t i = 0; i < want->size(); ++i) {
    EXPECT_EQ(testing::mismatch(got->outputs[i], (*want)[i], 1e-3), "") << i;
  }
  return std::move(*got);
}

TEST(StagedModel, TheBackboneOfADetectorIsCompiled) {
  const StagedRun ran =
      expect_like_eager(with_backbone({make_node("Greater", {"flat", "limit"}, {"hit"}),
                                       make_node("NonZero", {"hit"}, {"found"}),
                                       make_node("Reshape", {"found", "minus"}, {"at"}),
                                       make_node("Gather", {"flat", "at"}, {"best"})},
                                      {"best", "at", "features"}),
                        image());
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_EQ(ran.host_nodes, 1) << "NonZero alone";
  EXPECT_EQ(ran.model_nodes, 8);
}

TEST(StagedModel, NonMaximumSuppression) {
  onnx::Model model = with_backbone(
      {make_node("Reshape", {"flat", "as_boxes"}, {"boxes"}),
       make_node("Slice", {"flat", "zero", "many", "zero"}, {"first"}),
       make_node("Reshape", {"first", "as_scores"}, {"scores"}),
       make_node("NonMaxSuppression", {"boxes", "scores", "most", "overlap"}, {"picked"}),
       make_node("Gather", {"picked", "two"}, {"rows"}, {{"axis", std::int64_t{1}, ""}}),
       make_node("Gather", {"boxes", "rows"}, {"kept"}, {{"axis", std::int64_t{1}, ""}})},
      {"picked", "kept"});
  model.graph.initializers.push_back({"as_boxes", int_tensor({3}, {1, 256, 4})});
  model.graph.initializers.push_back({"many", int_tensor({1}, {256})});
  model.graph.initializers.push_back({"as_scores", int_tensor({3}, {1, 1, 256})});
  model.graph.initializers.push_back({"most", int_tensor({1}, {20})});
  model.graph.initializers.push_back({"overlap", float_tensor({1}, {0.5})});
  model.graph.initializers.push_back({"two", int_tensor({}, {2})});
  const StagedRun ran = expect_like_eager(model, image());
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_EQ(ran.host_nodes, 1);
}

TEST(StagedModel, WhatComesAfterDataIsCompiledForItsShape) {
  // The rows that are kept go through a product with as much work as the backbone.
  onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {512, 256})},
                 {make_node("ReduceSum", {"x", "one"}, {"s"}, {{"keepdims", std::int64_t{0}, ""}}),
                  make_node("Greater", {"s", "limit"}, {"hit"}),
                  make_node("Compress", {"x", "hit"}, {"rows"}, {{"axis", std::int64_t{0}, ""}}),
                  make_node("MatMul", {"rows", "w"}, {"y"})},
                 {"y"},
                 {{"w", random_floats({256, 512}, 3)},
                  {"one", int_tensor({1}, {1})},
                  {"limit", float_tensor({}, {0})}}));
  const StagedRun ran = expect_like_eager(model, {{"x", random_floats({512, 256}, 4)}});
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_EQ(ran.host_nodes, 1);
}

TEST(StagedModel, BranchesThatReadOuterValues) {
  onnx::Graph dark = make_graph({}, {make_node("Neg", {"features"}, {"r"})}, {"r"});
  onnx::Graph light = make_graph({}, {make_node("Add", {"features", "limit"}, {"r"})}, {"r"});
  const StagedRun ran = expect_like_eager(
      with_backbone(
          {make_node("ReduceMax", {"flat"}, {"top"}, {{"keepdims", std::int64_t{0}, ""}}),
           make_node("Greater", {"top", "limit"}, {"go"}),
           make_node("If", {"go"}, {"y"},
                     {body_attribute("then_branch", light), body_attribute("else_branch", dark)})},
          {"y"}),
      image());
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_EQ(ran.host_nodes, 1);
}

TEST(StagedModel, SequencesThatWaitForDataStayTogether) {
  const StagedRun ran = expect_like_eager(
      with_backbone({make_node("SequenceConstruct", {"flat", "s"}, {"both"}),
                     make_node("ReduceMax", {"flat"}, {"top"}, {{"keepdims", std::int64_t{0}, ""}}),
                     make_node("Greater", {"top", "limit"}, {"go"}),
                     make_node("Cast", {"go"}, {"index"}, {{"to", std::int64_t{7}, ""}}),
                     make_node("SequenceAt", {"both", "index"}, {"y"})},
                    {"y"}),
      image());
  EXPECT_GT(ran.compiled_kernels, 0);
  EXPECT_EQ(ran.host_nodes, 2);
}

TEST(StagedModel, SmallModelsAreNotWorthACompiler) {
  const onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {2, 3})},
                 {make_node("Neg", {"x"}, {"n"}), make_node("NonZero", {"n"}, {"y"})}, {"y"}));
  const StagedRun ran = expect_like_eager(model, {{"x", float_tensor({2, 3}, {0, 1, 0, 2, 0, 3})}});
  EXPECT_EQ(ran.compiled_kernels, 0);
  EXPECT_EQ(ran.host_nodes, 1);
}

TEST(StagedModel, InputsThatAreReadByHostNodesAlone) {
  const onnx::Model model = make_model(make_graph(
      {value_info("x", DType::kF32, {4})}, {make_node("NonZero", {"x"}, {"y"})}, {"y", "x"}));
  const StagedRun ran = expect_like_eager(model, {{"x", float_tensor({4}, {0, 1, 0, 2})}});
  ASSERT_EQ(ran.outputs.size(), 2u);
  EXPECT_EQ(ran.outputs[1].get_float(3), 2);
}

// Nodes that import turns into a second name of the input x: f32[4].
struct Renaming {
  const char* what;
  onnx::Node node;
};
std::vector<Renaming> renamings() {
  const onnx::Graph input = make_graph({}, {}, {"x"});
  const onnx::Graph other = make_graph({}, {make_node("Neg", {"x"}, {"r"})}, {"r"});
  return {{"identity", make_node("Identity", {"x"}, {"t"})},
          {"cast", make_node("Cast", {"x"}, {"t"}, {{"to", std::int64_t{1}, ""}})},
          {"pad", make_node("Pad", {"x", "no_pads"}, {"t"})},
          {"reshape", make_node("Reshape", {"x", "minus"}, {"t"})},
          {"slice", make_node("Slice", {"x", "start", "end"}, {"t"})},
          {"dropout", make_node("Dropout", {"x"}, {"t"})},
          {"if", make_node("If", {"yes"}, {"t"},
                           {body_attribute("then_branch", input),
                            body_attribute("else_branch", other)})}};
}

TEST(StagedModel, SecondNamesOfInputsReachNodesThatWaitForData) {
  for (const Renaming& renaming : renamings()) {
    SCOPED_TRACE(renaming.what);
    const std::vector<onnx::Initializer> constants = {{"no_pads", int_tensor({2}, {0, 0})},
                                                      {"minus", int_tensor({1}, {-1})},
                                                      {"start", int_tensor({1}, {0})},
                                                      {"end", int_tensor({1}, {4})},
                                                      {"yes", onnx::testing::bool_scalar(true)}};
    // The node that waits reads the second name alone, then both, then by way of a third name.
    for (const std::vector<onnx::Node>& readers : std::vector<std::vector<onnx::Node>>{
             {make_node("NonZero", {"t"}, {"y"})},
             {make_node("Cast", {"x"}, {"hit"}, {{"to", std::int64_t{9}, ""}}),
              make_node("Compress", {"t", "hit"}, {"y"})},
             {make_node("Identity", {"t"}, {"u"}), make_node("NonZero", {"u"}, {"n"}),
              make_node("Reshape", {"n", "minus"}, {"at"}),
              make_node("Gather", {"t", "at"}, {"y"})}}) {
      std::vector<onnx::Node> nodes = {renaming.node};
      nodes.insert(nodes.end(), readers.begin(), readers.end());
      expect_like_eager(
          make_model(make_graph({value_info("x", DType::kF32, {4})}, nodes, {"y", "t"}, constants)),
          {{"x", float_tensor({4}, {0, 1, 0, 2})}});
    }
  }
}

TEST(StagedModel, WhatIsNotSupportedIsRefused) {
  onnx::Model model = make_model(make_graph(
      {value_info("x", DType::kF32, {4})},
      {make_node("NonZero", {"x"}, {"n"}), make_node("Mystery", {"x"}, {"y"})}, {"n", "y"}));
  const auto refused = run_staged(model, {{"x", float_tensor({4}, {0, 1, 0, 2})}}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

// Every run finds another number of rows, and the last nodes take their shape from data.
TEST(StagedModel, RunsAgainAndAgainWithOtherData) {
  const onnx::Model model = make_model(make_graph(
      {value_info("x", DType::kF32, {7, 3}), value_info("cut", DType::kI64, {1})},
      {make_node("ReduceSum", {"x", "one"}, {"s"}, {{"keepdims", std::int64_t{0}, ""}}),
       make_node("Greater", {"s", "zero"}, {"hit"}),
       make_node("Compress", {"x", "hit"}, {"rows"}, {{"axis", std::int64_t{0}, ""}}),
       make_node("MatMul", {"rows", "w"}, {"y"}), make_node("Add", {"cut", "one"}, {"length"}),
       make_node("Slice", {"x", "start", "length"}, {"head"}), make_node("Neg", {"head"}, {"z"})},
      {"y", "z"},
      {{"w", random_floats({3, 5}, 3)},
       {"one", int_tensor({1}, {1})},
       {"start", int_tensor({1}, {0})},
       {"zero", float_tensor({}, {0})}}));
  const auto staged = StagedModel::make(model, {}, {.threads = 2, .often = true});
  ASSERT_TRUE(staged.ok()) << staged.error().message;
  const auto prepared = (*staged)->prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(target::host(), device);
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    const HostTensor x = random_floats({7, 3}, seed),
                     cut = int_tensor({1}, {static_cast<std::int64_t>(seed % 4)});
    const auto got = (*staged)->run({x, cut});
    ASSERT_TRUE(got.ok()) << got.error().message;
    const auto want = run_eager(model, {{"x", x}, {"cut", cut}}, evaluator);
    ASSERT_TRUE(want.ok()) << want.error().message;
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_EQ(testing::mismatch((*got)[i], (*want)[i], 1e-4), "") << i;
    EXPECT_EQ((*got)[1].shape()[0], static_cast<std::int64_t>(seed % 4) + 1);
  }
  const auto wrong = (*staged)->run({random_floats({7, 2}, 1), int_tensor({1}, {1})});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(wrong.error().message, "input x must be f32[7,3], not f32[7,2]");
  EXPECT_FALSE((*staged)->run({}).ok());
}

TEST(StagedModel, OutputsAreAsTheModelDeclaresThem) {
  onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {4})}, {make_node("NonZero", {"x"}, {"y"})}, {"y"}));
  const auto outputs_of = [&] { return (*StagedModel::make(model, {}))->outputs(); };
  const auto unknown = outputs_of();
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnsupported);
  model.graph.outputs = {{"y", "i64", false, {}}};
  EXPECT_FALSE((*outputs_of())[0].ranked);
  model.graph.outputs = {{"y", "i64", true, {{1, ""}, {-1, "found"}}}};
  EXPECT_EQ((*outputs_of())[0].shape, (Shape{1, -1}));
}

TEST(StagedModel, IsForThisMachineOnly) {
  CompileOptions options;
  options.target = *target::find_target(target::host().arch == target::Arch::kX86_64 ? "neoverse-v1"
                                                                                     : "haswell");
  const onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {4})}, {make_node("NonZero", {"x"}, {"y"})}, {"y"}));
  const auto made = StagedModel::make(model, options);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
}

// What comes before data is a model of its own, whose tasks are those of the first section.
TEST(KnownPart, IsAFileThatCanBeTuned) {
  const std::string folder = ::testing::TempDir() + "known_part";
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/detector.onnx", part_path = folder + "/part.onnx";
  ASSERT_TRUE(onnx::save_model(with_backbone({make_node("Greater", {"flat", "limit"}, {"hit"}),
                                              make_node("NonZero", {"hit"}, {"found"}),
                                              make_node("Reshape", {"found", "minus"}, {"at"}),
                                              make_node("Gather", {"flat", "at"}, {"best"})},
                                             {"best", "features"}),
                               path)
                  .ok());
  const auto part = known_part(path, {}, part_path);
  ASSERT_TRUE(part.ok()) << part.error().message;
  EXPECT_EQ(part->spec, part_path);
  EXPECT_EQ(part->nodes, 5u);
  EXPECT_EQ(part->model_nodes, 8u);
  EXPECT_NE(part->reason.find("NonZero"), std::string::npos) << part->reason;
  const auto graph = load_graph(part_path, {});
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->inputs.size(), 1u);
  EXPECT_EQ(graph->outputs.size(), 3u);
  const auto whole = known_part("zoo:mlp", {}, part_path);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->spec, "zoo:mlp");
  EXPECT_EQ(whole->reason, "");
}

TEST(KnownPart, IsRefusedWhereNothingComesBefore) {
  const std::string path = ::testing::TempDir() + "nothing_known.onnx";
  onnx::Model model = make_model(
      make_graph({value_info("x", DType::kF32, {4})}, {make_node("NonZero", {"x"}, {"y"})}, {"y"}));
  ASSERT_TRUE(onnx::save_model(model, path).ok());
  const auto part = known_part(path, {}, path + ".part");
  ASSERT_FALSE(part.ok());
  EXPECT_EQ(part.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

}  // namespace
}  // namespace tessera::app
