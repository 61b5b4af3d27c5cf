// Flows that commands call: one run of any model, stages as text, artifacts, what follows a tuning.
#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/app/bench/model_inputs.h"
#include "tessera/app/bench/write_artifact.h"
#include "tessera/app/compile/run_once.h"
#include "tessera/app/compile/stage_text.h"
#include "tessera/app/tune/after_tuning.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"
#include "tests/onnx/model_builder.h"

namespace tessera::app {
namespace {

using onnx::testing::float_tensor;
using onnx::testing::make_graph;
using onnx::testing::make_model;
using onnx::testing::make_node;
using onnx::testing::value_info;

Result<std::vector<HostTensor>> random_inputs(const std::vector<std::string>& names,
                                              const std::vector<graph::TensorType>& types,
                                              const exec::CompiledModel*) {
  return random_model_inputs(names, types, 1);
}

TEST(RunOnce, RunsAWholeModel) {
  ModelSource source("zoo:mlp@hidden=32");
  const auto ran = run_once(source, {}, random_inputs);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->names.size(), 1u);
  EXPECT_EQ(ran->tensors.size(), 1u);
  EXPECT_EQ(ran->plan_digest.size(), 16u);
}

TEST(RunOnce, RunsAModelInPartsWhereShapesFollowFromData) {
  ModelSource source(Result<onnx::Model>(make_model(make_graph(
      {value_info("x", DType::kF32, {4})}, {make_node("NonZero", {"x"}, {"n"})}, {"n"}))));
  CompileOptions options;
  std::string noted;
  options.note = [&](const std::string& line) { noted = line; };
  const auto give = [](const std::vector<std::string>& names, const std::vector<graph::TensorType>&,
                       const exec::CompiledModel* model) -> Result<std::vector<HostTensor>> {
    EXPECT_EQ(names, (std::vector<std::string>{"x"}));
    EXPECT_EQ(model, nullptr);
    return std::vector<HostTensor>{float_tensor({4}, {0, 1, 0, 2})};
  };
  const auto ran = run_once(source, options, give);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_EQ(ran->tensors.at(0).shape(), (Shape{1, 2}));
  EXPECT_EQ(ran->plan_digest, "");
  EXPECT_TRUE(noted.starts_with("1 of 1 nodes ran on the host: ")) << noted;
}

TEST(RunOnce, InputsThatNobodyGivesAreAnError) {
  ModelSource source("zoo:mlp@hidden=32");
  const auto refused = run_once(source, {}, [](const auto&, const auto&, const auto*) {
    return Result<std::vector<HostTensor>>(make_error(ErrorCode::kInvalidArgument, "none"));
  });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "none");
}

TEST(StageText, ShowsAnyStageOfAKernel) {
  const te::Dag dag = te::make_dag(te::parse_op_spec("matmul:M=8,N=8,K=8").value()).value();
  for (const char* stage : {"te", "schedule", "ir", "llvm", "asm"}) {
    const auto shown = kernel_stage(dag, target::host(), {.stage = stage});
    ASSERT_TRUE(shown.ok()) << stage << ": " << shown.error().message;
    EXPECT_NE(shown->text, "") << stage;
  }
  const auto lowered = kernel_stage(dag, target::host(), {});
  ASSERT_TRUE(lowered.ok());
  EXPECT_FALSE(lowered->times.empty());
  const auto absent = kernel_stage(dag, target::host(), {.schedule_file = "/no/such/file"});
  EXPECT_EQ(absent.error().code, ErrorCode::kIo);
}

TEST(StageText, ShowsLoopsThatTheTargetCannotRun) {
  const te::Dag dag = te::make_dag(te::parse_op_spec("matmul:M=8,N=8,K=8").value()).value();
  const TemporaryFolder folder = TemporaryFolder::make("stages").value();
  const std::string file = folder.path() + "/wide.txt";
  ASSERT_TRUE(write_file(file, {"annotate C i threadIdx.y\nannotate C j threadIdx.x\n"}).ok());
  target::Target small = target::find_target("h200").value();
  small.gpu.block_threads = 32;
  const auto loops = kernel_stage(dag, small, {.stage = "ir", .schedule_file = file});
  ASSERT_TRUE(loops.ok()) << loops.error().message;
  EXPECT_NE(loops->text.find("block tx in 8, ty in 8"), std::string::npos) << loops->text;
  const auto code = kernel_stage(dag, small, {.stage = "ptx", .schedule_file = file});
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.error().message, "launch C needs 64 threads in a block; the device has 32");
}

TEST(StageText, RefusesStagesOfOtherTargetsAndUnknownPasses) {
  EXPECT_TRUE(check_stage({.stage = "asm"}, target::host()).ok());
  EXPECT_EQ(check_stage({.stage = "ptx"}, target::host()).error().message,
            "--stage ptx is of cuda targets; host is none");
  const auto unknown = check_stage({.stop_after = "no_such_pass"}, target::host());
  ASSERT_FALSE(unknown.ok());
  EXPECT_TRUE(unknown.error().message.starts_with("no pass 'no_such_pass'"));
}

TEST(StageText, ShowsTheGraphOfAModel) {
  const auto whole = graph_stage("zoo:lenet", {}, {.stage = "graph"});
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  const auto first = graph_stage("zoo:lenet", {}, {.stage = "graph", .stop_after = "fold_scales"});
  ASSERT_TRUE(first.ok());
  EXPECT_LT(first->times.size(), whole->times.size());
  EXPECT_NE(first->text, whole->text);
}

TEST(WriteArtifact, IsComparedWithItsModel) {
  const TemporaryFolder folder = TemporaryFolder::make("artifact").value();
  ModelSource source("zoo:mlp@hidden=32");
  artifact::ArtifactOptions options;
  options.emit = artifact::Emit::kObject;  // needs no C compiler, and cannot be loaded
  const auto object = write_artifact(source, {}, folder.path() + "/object", options, true);
  ASSERT_TRUE(object.ok()) << object.error().message;
  EXPECT_GT(object->tasks, 0u);
  ASSERT_TRUE(object->check.has_value());
  EXPECT_NE(object->check->not_compared, "");
  EXPECT_FALSE(object->check->wrong());
  const auto unchecked = write_artifact(source, {}, folder.path() + "/object", options, false);
  ASSERT_TRUE(unchecked.ok());
  EXPECT_FALSE(unchecked->check.has_value());
  ModelSource absent("zoo:nothing");
  const auto refused = write_artifact(absent, {}, folder.path() + "/none", options, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("nothing"), std::string::npos);
}

TEST(AfterTuning, KeepsAShareOfTheBudget) {
  EXPECT_EQ(after_tuning_s(0, 1, {"ort"}), 0) << "there is no budget";
  EXPECT_DOUBLE_EQ(after_tuning_s(100, 1, {}), 1) << "the peak alone";
  EXPECT_GT(after_tuning_s(100, 1, {"ort"}), 1);
  EXPECT_DOUBLE_EQ(after_tuning_s(2, 1, {"ort"}), 0.02) << "peers would take too much";
  TuneDeadline deadline;
  EXPECT_TRUE(deadline.has_room(1e9)) << "there is no budget";
  deadline.budget_s = 10;
  EXPECT_TRUE(deadline.has_room(1));
  EXPECT_FALSE(deadline.has_room(11));
}

TEST(AfterTuning, ModelsWithoutTimeLeftAreNamed) {
  TuneOptions options;
  options.target = target::host();
  options.subjects = {{"zoo:mlp", false, {}}, {"matmul:M=8,N=8,K=8", true, {}}};
  plan::Plan plan;
  plan.target = target::to_text(target::host());
  TuneDeadline deadline;
  deadline.budget_s = 1e-3;
  std::vector<std::string> left_out;
  PeerCallbacks callbacks;
  callbacks.left_out = [&](const std::string& model) { left_out.push_back(model); };
  EXPECT_TRUE(compare_peers(options, plan, {"ort"}, 1, deadline, callbacks).empty());
  EXPECT_EQ(left_out, (std::vector<std::string>{"zoo:mlp"}));
}

TEST(AfterTuning, ADatasheetTellsThePeakOfAGpu) {
  EXPECT_GT(peak_gflops(target::find_target("h200").value(), 1, 1), 1e4);
}

}  // namespace
}  // namespace tessera::app
