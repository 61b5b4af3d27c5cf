#include "tessera/app/bench/check_kernels.h"

#include <functional>
#include <string_view>

#include <gtest/gtest.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/compile/decide_model.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/app/quantize/quantize.h"
#include "tessera/frontend/onnx/model.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/support/temporary_folder.h"

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

using Change = std::function<void(graph::Graph&)>;

// Code of the graph as `change` leaves it, for the graph as it was.
Result<Built> build(const onnx::Model& model, CompileOptions options, const Change& change = {}) {
  options.target = target::code_target(target::host(), 1);
  ModelSource source{Result<onnx::Model>(model)};
  TESSERA_TRY(DecidedModel decided, decide_model(source, options));
  Built out{decided.graph, decided.tasks, {}};
  if (change) change(decided.graph);
  TESSERA_TRY(out.model, compile_decided(decided, options.target, nullptr));
  return out;
}

// All layers narrow.
Result<onnx::Model> quantized(const char* name, Scheme scheme) {
  TESSERA_TRY(const onnx::Model model, load_onnx(name));
  TESSERA_TRY(QuantizedModel made,
              quantize(model, {.samples = {}, .random = 2},
                       {.scheme = scheme, .tolerance = {.at_least = 0}}, {}, {}));
  return std::move(made.model);
}

struct Ran {
  std::vector<HostTensor> outputs;
  KernelsCheck check;
};

Result<Ran> run(const Built& built, std::set<std::string>* agreed = nullptr) {
  runtime::CpuDevice device({.threads = 1});
  exec::ModelRunner runner(built.model, device);
  const std::vector<HostTensor> inputs = random_model_inputs(built.graph, 1);
  for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
  TESSERA_DO(runner.run());
  Ran out;
  for (std::size_t o = 0; o < built.model.output_types.size(); ++o)
    out.outputs.push_back(runner.output(o));
  TESSERA_TRY(out.check, check_kernels(built.graph, built.tasks, built.model, runner, agreed));
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

struct Compared {
  double outputs = 0, kernels = 0;  // errors, of what is allowed
  std::string wrong_node;
};

Compared compare(const Built& right, const Built& wrong) {
  const auto want = run(right), got = run(wrong);
  EXPECT_TRUE(want.ok() && got.ok());
  if (!want.ok() || !got.ok()) return {};
  EXPECT_GT(want->check.kernels, 0);
  EXPECT_LE(want->check.worst, 1) << want->check.worst_node;
  return {worst_output(right.graph, got->outputs, want->outputs), got->check.worst,
          got->check.worst_node};
}

// The weights of one neuron of the first layer have another sign.
void turn_one_neuron(graph::Graph& graph) {
  constexpr std::int64_t kInputs = 784;
  for (graph::Value& value : graph.values) {
    if (!value.is_constant || value.constant.shape().size() != 2) continue;
    const Shape shape = value.constant.shape();
    if (shape[0] != kInputs && shape[1] != kInputs) continue;
    value.constant = value.constant.clone();
    const std::int64_t step = shape[0] == kInputs ? shape[1] : 1;
    for (std::int64_t i = 0; i < kInputs; ++i)
      value.constant.set_float(i * step, -value.constant.get_float(i * step));
    return;
  }
  FAIL() << "no weights of " << kInputs << " inputs";
}

// The outputs of a model of 8-bit floats may differ by a quarter of their range: that is no check.
TEST(CheckKernels, AWrongNeuronOf8BitFloatsIsFound) {
  const auto model = quantized("zoo:mlp", Scheme::kF8);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto right = build(*model, {}), wrong = build(*model, {}, turn_one_neuron);
  ASSERT_TRUE(right.ok() && wrong.ok());
  EXPECT_TRUE(is_narrow(right->graph));
  const Compared c = compare(*right, *wrong);
  EXPECT_LE(c.outputs, 1);
  EXPECT_GT(c.kernels, 1);
  EXPECT_FALSE(c.wrong_node.empty());
}

TEST(CheckKernels, BenchRunsItOn8BitFloats) {
  const auto model = quantized("zoo:mlp", Scheme::kF8);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const TemporaryFolder folder = TemporaryFolder::make("f8").value();
  ASSERT_TRUE(onnx::save_model(*model, folder.path() + "/f8.onnx").ok());
  ModelBenchOptions options;
  options.timing = {.sample_s = 0, .samples = 1, .min_samples = 1, .time_limit_s = 0};
  const auto result = bench_model(folder.path() + "/f8.onnx", options);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_TRUE(result->bench.verified);
  EXPECT_EQ(result->verified_by, "the interpreter, kernel by kernel");
}

// A mean error of a tenth is allowed where products round what they multiply: one scale of one
// block is far below that.
TEST(CheckKernels, AWrongScaleOfRoundedProductsIsFound) {
  const auto model = quantized("zoo:mlp", Scheme::kInt4Weights);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const CompileOptions rounding{.rounding = graph::Rounding::kAlways};
  bool rounds = false;
  const auto right = build(*model, rounding);
  const auto wrong = build(*model, rounding, [&](graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (std::string_view(node.op->name) != "contract_rounded" || rounds) continue;
      rounds = true;
      HostTensor& scales = graph.value(node.inputs[2]).constant;
      scales = scales.clone();
      scales.set_float(0, 2 * scales.get_float(0));
    }
  });
  ASSERT_TRUE(right.ok() && wrong.ok());
  if (!rounds) GTEST_SKIP() << "this machine has no products of bytes";
  EXPECT_TRUE(is_narrow(right->graph));
  const Compared c = compare(*right, *wrong);
  EXPECT_LE(c.outputs, 1);
  EXPECT_GT(c.kernels, 1);
  EXPECT_FALSE(c.wrong_node.empty());
}

TEST(CheckKernels, ThoseThatAgreedAreNotComparedAgain) {
  const auto model = load_onnx("zoo:mlp@quant=qdq");
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto built = build(*model, {});
  ASSERT_TRUE(built.ok()) << built.error().message;
  std::set<std::string> agreed;
  const auto first = run(*built, &agreed);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_GT(first->check.kernels, 1);
  EXPECT_EQ(agreed.size(), built->tasks.tasks.size());
  agreed.erase(built->tasks.tasks.back().key);
  const auto again = run(*built, &agreed);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->check.kernels, 1);
  EXPECT_LE(again->check.worst, 1) << "it reads what the others computed";
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
