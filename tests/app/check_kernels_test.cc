#include "tessera/app/bench/check_kernels.h"

#include <gtest/gtest.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/machine/runtime/device/cpu_device.h"

namespace tessera::app {
namespace {

struct Built {
  graph::Graph graph;
  task::TaskGraph tasks;
  exec::CompiledModel model;
};

Result<Built> build(const char* name) {
  const target::Target target = target::code_target(target::host(), 1);
  Built out;
  TESSERA_TRY(out.graph, load_graph(name, CompileOptions{.target = target}));
  TESSERA_TRY(out.tasks, task::extract_tasks(out.graph, {}));
  TESSERA_TRY(out.model, exec::compile_model(out.graph, out.tasks, target));
  return out;
}

struct Ran {
  std::vector<HostTensor> outputs;
  KernelsCheck check;
};

Result<Ran> run(const Built& built) {
  runtime::CpuDevice device({.threads = 1});
  exec::ModelRunner runner(built.model, device);
  const std::vector<HostTensor> inputs = random_model_inputs(built.graph, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
  TESSERA_DO(runner.run());
  Ran out;
  for (std::size_t o = 0; o < built.model.output_types.size(); ++o)
    out.outputs.push_back(runner.output(o));
  TESSERA_TRY(out.check, check_kernels(built.graph, built.tasks, built.model, runner));
  return out;
}

class CheckKernels : public ::testing::TestWithParam<const char*> {};

TEST_P(CheckKernels, AgreeOneByOne) {
  const auto built = build(GetParam());
  ASSERT_TRUE(built.ok()) << built.error().message;
  const auto ran = run(*built);
  ASSERT_TRUE(ran.ok()) << ran.error().message;
  EXPECT_GT(ran->check.kernels, 0);
  EXPECT_LE(ran->check.worst, 1) << ran->check.worst_node;
}

INSTANTIATE_TEST_SUITE_P(Zoo, CheckKernels,
                         ::testing::Values("zoo:mlp", "zoo:mlp@quant=qdq", "zoo:mlp@quant=dynamic",
                                           "zoo:resnet18@size=32,classes=10,quant=qdq",
                                           "zoo:lenet@dtype=f16"));

// Weights that are wrong by one step: the outputs as a whole hardly say so, the kernel does.
TEST(CheckKernels, AWrongKernelIsFoundWhereTheOutputsAgree) {
  auto built = build("zoo:resnet18@size=32,classes=10,quant=qdq");
  ASSERT_TRUE(built.ok()) << built.error().message;
  const auto right = run(*built);
  ASSERT_TRUE(right.ok()) << right.error().message;
  HostTensor* weights = nullptr;
  for (HostTensor& t : built->model.constants) {
    if (size_bytes(t.dtype()) == 1 && (weights == nullptr || t.size() > weights->size()))
      weights = &t;
  }
  if (weights == nullptr) GTEST_SKIP() << "this machine has no products of bytes";
  *weights = weights->clone();
  for (std::int64_t i = 0; i < weights->size(); i += 7)
    weights->set_int(i, weights->get_int(i) ^ 1);
  const auto wrong = run(*built);
  ASSERT_TRUE(wrong.ok()) << wrong.error().message;
  EXPECT_LE(worst_output(built->graph, wrong->outputs, right->outputs), 1);
  EXPECT_GT(wrong->check.worst, 1);
  EXPECT_FALSE(wrong->check.worst_node.empty());
}

TEST(OutputAgreement, CountsNumbersErrorsAndRows) {
  HostTensor want(DType::kF32, {2, 4}), got(DType::kF32, {2, 4});
  for (std::int64_t i = 0; i < 8; ++i) {
    want.set_float(i, static_cast<double>(i));
    got.set_float(i, static_cast<double>(i));
  }
  OutputAgreement a = agreement({got}, {want});
  EXPECT_EQ(a.equal, 1);
  EXPECT_EQ(a.mean_error, 0);
  EXPECT_EQ(a.argmax, 1);
  got.set_float(0, 7);  // of the first row, now the largest; the range is 7
  a = agreement({got}, {want});
  EXPECT_DOUBLE_EQ(a.equal, 7.0 / 8);
  EXPECT_DOUBLE_EQ(a.mean_error, 1.0 / 8);
  EXPECT_DOUBLE_EQ(a.argmax, 0.5);
}

TEST(OutputAgreement, OnlyNetworksWithSmallIntegersAreQuantised) {
  for (const auto& [name, quantised] :
       {std::pair("zoo:mlp", false), std::pair("zoo:mlp@quant=qdq", true),
        std::pair("zoo:mlp@dtype=f16", false)}) {
    const auto built = build(name);
    ASSERT_TRUE(built.ok()) << built.error().message;
    EXPECT_EQ(quantised_outputs(built->graph), std::vector<bool>{quantised}) << name;
  }
}

}  // namespace
}  // namespace tessera::app
