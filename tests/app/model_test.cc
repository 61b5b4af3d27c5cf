// Whole models: compiled, fused and planned code against the node-by-node interpreter.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/compile/load_graph.h"
#include "tessera/app/compile/run_eager.h"
#include "tessera/backend/exec/index_checks.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tests/testing/devices.h"

namespace tessera::app {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;

class Net {
 public:
  GraphBuilder b{"net"};

  ValueId input(const Shape& shape, DType t = DType::kF32) {
    return b.input("x" + std::to_string(inputs_++), {t, shape});
  }
  ValueId weight(const Shape& shape) { return b.constant(random_tensor(DType::kF32, shape, rng_)); }
  ValueId add(std::string_view op, const std::vector<ValueId>& in, const graph::Attrs& attrs = {}) {
    const auto id = b.add_node(op, in, attrs);
    EXPECT_TRUE(id.ok()) << op << ": " << (id.ok() ? "" : id.error().message);
    return id.ok() ? (*id)[0] : 0;
  }
  ValueId conv(ValueId x, std::int64_t co, std::int64_t k, std::int64_t stride, std::int64_t pad,
               std::int64_t group = 1) {
    const std::int64_t ci = b.shape(x)[1];
    using Ints = std::vector<std::int64_t>;
    return add("conv", {x, weight({co, ci / group, k, k})},
               {{"strides", Ints{stride, stride}},
                {"before", Ints{pad, pad}},
                {"after", Ints{pad, pad}},
                {"dilations", Ints{1, 1}},
                {"group", group},
                {"layout", std::string("nchw")}});
  }
  ValueId relu(ValueId x) { return add("max", {x, b.scalar(DType::kF32, 0)}); }

 private:
  Rng rng_{7};
  int inputs_ = 0;
};

std::vector<HostTensor> inputs_of(const Graph& graph) {
  std::vector<std::string> names;
  std::vector<graph::TensorType> types;
  for (const ValueId id : graph.inputs) {
    names.push_back(graph.value(id).name);
    types.push_back(graph.type(id));
  }
  return random_model_inputs(names, types, 3);
}

// Optimises, compiles and runs `graph`; every output must be near the interpreter's.
void expect_same(Graph graph, bool optimize) {
  const std::vector<HostTensor> inputs = inputs_of(graph);
  const auto want = graph::evaluate(graph, inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  if (optimize) {
    const auto passes = graph::optimize(graph, {});
    ASSERT_TRUE(passes.ok()) << passes.error().message;
  }
  const auto model = exec::compile_model(graph, target::host());
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const int threads : {1, 2}) {
    runtime::CpuDevice device({.threads = threads});
    const auto got = exec::run_model(*model, device, inputs);
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_EQ(got->size(), want->size());
    EXPECT_LE(worst_output(graph, *got, *want), 1);
  }
}

Graph residual_network() {
  Net n;
  const ValueId x = n.relu(n.conv(n.input({1, 3, 17, 15}), 8, 3, 2, 1));
  const ValueId a = n.relu(n.add("add", {n.conv(x, 8, 3, 1, 1), n.weight({1, 8, 1, 1})}));
  const ValueId y = n.relu(n.add("add", {n.conv(a, 8, 3, 1, 1), x}));
  const ValueId d = n.conv(y, 8, 3, 1, 1, 8);
  const ValueId p = n.add("reduce", {d},
                          {{"kind", std::string("mean")},
                           {"axes", std::vector<std::int64_t>{2, 3}},
                           {"keepdims", std::int64_t{0}}});
  const ValueId logits =
      n.add("contract", {p, n.weight({8, 10})},
            {{"a", std::string("mk")}, {"b", std::string("kn")}, {"out", std::string("mn")}});
  return n.b.finish({n.add("softmax", {logits}, {{"axis", std::int64_t{1}}})}, {"y"});
}

TEST(Model, AConvolutionalNetworkEqualsTheInterpreter) {
  expect_same(residual_network(), false);
  expect_same(residual_network(), true);
}

// Two branches side by side, which the 1x1 convolution behind them reads as one.
Graph fire_network() {
  Net n;
  const ValueId x = n.relu(n.conv(n.input({1, 3, 11, 9}), 8, 3, 2, 1));
  const ValueId both =
      n.add("concat", {n.relu(n.conv(x, 6, 1, 1, 0)), n.relu(n.conv(x, 10, 3, 1, 1))},
            {{"axis", std::int64_t{1}}});
  return n.b.finish({n.conv(both, 5, 1, 1, 0)}, {"y"});
}

Graph attention_network(std::int64_t rows) {
  Net n;
  using Ints = std::vector<std::int64_t>;
  const ValueId x = n.input({1, rows, 16});
  const graph::Attrs labels{
      {"a", std::string("bmk")}, {"b", std::string("kn")}, {"out", std::string("bmn")}};
  const auto heads = [&](ValueId v) {
    const ValueId r = n.add("reshape", {v}, {{"shape", Ints{1, rows, 2, 8}}});
    return n.add("transpose", {r}, {{"perm", Ints{0, 2, 1, 3}}});
  };
  const ValueId q = heads(n.add("contract", {x, n.weight({16, 16})}, labels));
  const ValueId k = heads(n.add("contract", {x, n.weight({16, 16})}, labels));
  const ValueId v = heads(n.add("contract", {x, n.weight({16, 16})}, labels));
  ValueId s =
      n.add("contract", {q, k},
            {{"a", std::string("bhik")}, {"b", std::string("bhjk")}, {"out", std::string("bhij")}});
  s = n.add("softmax", {n.add("mul", {s, n.b.scalar(DType::kF32, 0.3)})},
            {{"axis", std::int64_t{3}}});
  ValueId o =
      n.add("contract", {s, v},
            {{"a", std::string("bhij")}, {"b", std::string("bhjk")}, {"out", std::string("bhik")}});
  o = n.add("reshape", {n.add("transpose", {o}, {{"perm", Ints{0, 2, 1, 3}}})},
            {{"shape", Ints{1, rows, 16}}});
  o = n.add("add", {o, x});
  o = n.add("layernorm", {o, n.weight({16}), n.weight({16})},
            {{"axis", std::int64_t{2}}, {"epsilon", 1e-5}});
  return n.b.finish({o}, {"y"});
}

TEST(Model, AttentionEqualsTheInterpreter) {
  expect_same(attention_network(9), false);
  expect_same(attention_network(9), true);
}

Graph dense_network() {
  Net n;
  const ValueId product =
      n.add("contract", {n.input({3, 24}), n.weight({24, 24})},
            {{"a", std::string("ik")}, {"b", std::string("jk")}, {"out", std::string("ij")}});
  return n.b.finish({n.add("add", {product, n.weight({24})})}, {"y"});
}

Graph top_network() {
  Net n;
  const ValueId x = n.add("tanh", {n.input({5, 7})});
  const auto top = n.b.add_node("topk", {x},
                                {{"axis", std::int64_t{1}},
                                 {"k", std::int64_t{3}},
                                 {"largest", std::int64_t{1}},
                                 {"sorted", std::int64_t{1}}});
  EXPECT_TRUE(top.ok()) << top.error().message;
  const ValueId y = n.add("exp", {(*top)[0]});
  return n.b.finish({y, (*top)[1]}, {"values", "indices"});
}

TEST(Model, HostOperatorsRunBetweenKernels) { expect_same(top_network(), true); }

Graph idle_network() {
  Net n;
  const ValueId x = n.input({0, 4}), y = n.input({3});
  const ValueId e = n.add("exp", {x});
  const ValueId z = n.add("neg", {y});
  return n.b.finish({e, y, n.weight({2}), z, z}, {"empty", "input", "constant", "once", "twice"});
}

TEST(Model, EmptyTensorsAndOutputsThatAreInputs) { expect_same(idle_network(), true); }

// The same on the GPU of the machine, and on what OpenCL has.
class ModelOnGpu : public ::testing::TestWithParam<target::Kind> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<runtime::Device>> device = runtime::open_device(GetParam());
    if (!testing::has_device(to_text(GetParam()), device)) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
  }

  void expect_same(Graph graph, const plan::Decisions& decisions = {}) {
    const std::vector<HostTensor> inputs = inputs_of(graph);
    const auto want = graph::evaluate(graph, inputs);
    ASSERT_TRUE(want.ok()) << want.error().message;
    CompileOptions how;
    how.target = device_->target();
    const auto planned =
        task::apply_plan(std::move(graph), passes_for(how), {}, plan::Decider(decisions));
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    exec::ModelOptions options;
    options.device = device_.get();
    const auto model =
        exec::compile_model(planned->graph, planned->tasks, device_->target(), options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    exec::ModelRunner runner(*model, *device_);
    for (int run = 0; run < 2; ++run) {
      std::vector<HostTensor> got;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto set = runner.set_input(i, inputs[i]);
        ASSERT_TRUE(set.ok()) << set.error().message;
      }
      const auto ran = runner.run();
      ASSERT_TRUE(ran.ok()) << ran.error().message;
      for (std::size_t i = 0; i < want->size(); ++i) got.push_back(runner.output(i));
      EXPECT_LE(worst_output(planned->graph, got, *want), 1);
      // What is timed leaves nothing behind that the next run would see.
      EXPECT_TRUE(runner.time(2).ok());
      const auto steps = runner.profile();
      ASSERT_TRUE(steps.ok()) << steps.error().message;
      EXPECT_EQ(steps->size(), model->steps.size());
    }
  }

  std::unique_ptr<runtime::Device> device_;
};

TEST_P(ModelOnGpu, AConvolutionalNetwork) { expect_same(residual_network()); }
TEST_P(ModelOnGpu, TransformedConvolutions) {
  expect_same(residual_network(), {{"convolutions", "winograd4"}});
}
TEST_P(ModelOnGpu, ConcatenationsInTheKernelsThatReadThem) { expect_same(fire_network()); }
TEST_P(ModelOnGpu, Attention) { expect_same(attention_network(9)); }
// Sums that only some threads add to, over several barriers.
TEST_P(ModelOnGpu, RowsThatDoNotFillATile) { expect_same(dense_network()); }
TEST_P(ModelOnGpu, HostOperatorsRunBetweenKernels) { expect_same(top_network()); }
TEST_P(ModelOnGpu, OutputsWithoutAKernel) { expect_same(idle_network()); }

INSTANTIATE_TEST_SUITE_P(Gpu, ModelOnGpu,
                         ::testing::Values(target::Kind::kCuda, target::Kind::kOpenCl),
                         [](const auto& kind) { return std::string(target::to_text(kind.param)); });

// A device of this process with so many bytes.
class SmallDevice final : public runtime::Device {
 public:
  explicit SmallDevice(std::size_t bytes) : left_(bytes) {}
  const target::Target& target() const override { return device_.target(); }
  runtime::DeviceFeatures features() const override { return device_.features(); }
  Result<void*> allocate(std::size_t bytes) override {
    if (bytes > left_) return make_error(ErrorCode::kRunFailed, "no memory for {} bytes", bytes);
    left_ -= bytes;
    return device_.allocate(bytes);
  }
  void free(void* memory) override { device_.free(memory); }
  Result<void*> part(void* memory, std::size_t offset, std::size_t bytes) override {
    return device_.part(memory, offset, bytes);
  }
  Result<void> fill(void* memory, std::uint8_t value, std::size_t bytes) override {
    return device_.fill(memory, value, bytes);
  }
  Result<void> upload(void* to, const void* from, std::size_t bytes) override {
    return device_.upload(to, from, bytes);
  }
  Result<void> download(void* to, void* from, std::size_t bytes) override {
    return device_.download(to, from, bytes);
  }
  Result<std::unique_ptr<runtime::LoadedCode>> load(const runtime::Binary& binary) override {
    return device_.load(binary);
  }
  Result<void> launch(runtime::LoadedCode& code, std::span<void* const> memory) override {
    return device_.launch(code, memory);
  }
  Result<void> synchronise() override { return device_.synchronise(); }
  Result<std::unique_ptr<runtime::Recording>> record(std::vector<runtime::Call> calls,
                                                     const runtime::RecordingPlan& plan) override {
    return device_.record(std::move(calls), plan);
  }
  Result<void> replay(runtime::Recording& recording) override { return device_.replay(recording); }
  Result<double> time_replays(runtime::Recording& recording, int replays) override {
    return device_.time_replays(recording, replays);
  }

 private:
  runtime::CpuDevice device_{runtime::PoolOptions{.threads = 1}};
  std::size_t left_;
};

TEST(Model, ADeviceWithTooLittleMemoryIsAnError) {
  const Graph g = residual_network();
  exec::ModelOptions options;
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{4000}, std::size_t{1} << 20}) {
    SmallDevice device(bytes);
    options.device = &device;
    const auto model = exec::compile_model(g, target::host(), options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto got = exec::run_model(*model, device, inputs_of(g));
    EXPECT_EQ(got.ok(), bytes == 1 << 20);
    if (got.ok()) continue;
    EXPECT_EQ(got.error().code, ErrorCode::kRunFailed);
    EXPECT_TRUE(got.error().message.starts_with("no memory for ")) << got.error().message;
  }
}

TEST(Model, CodeForAnotherMachineIsRefused) {
  const target::Target h200 = target::find_target("h200").value();
  const Graph g = residual_network();
  const auto nowhere = exec::compile_model(g, h200);
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(nowhere.error().message, "code for h200 does not run on this machine");
  runtime::CpuDevice device({.threads = 1});
  exec::ModelOptions options;
  options.device = &device;
  EXPECT_EQ(exec::compile_model(g, h200, options).error().message,
            "code for h200 does not run on this machine");
}

TEST(Model, AWrongInputIsNamed) {
  Net n;
  const Graph g = n.b.finish({n.add("exp", {n.input({2, 3})})}, {"y"});
  const auto model = exec::compile_model(g, target::host());
  ASSERT_TRUE(model.ok());
  runtime::CpuDevice device({.threads = 1});
  const auto got = exec::run_model(*model, device, {HostTensor(DType::kF32, {3, 2})});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().message, "input x0 must be f32[2,3], not f32[3,2]");
  EXPECT_FALSE(exec::run_model(*model, device, {}).ok());
}

TEST(Model, TheMemoryOfARunStaysNearTheLargestLiveSet) {
  Graph g = residual_network();
  ASSERT_TRUE(graph::optimize(g, {}).ok());
  const auto model = exec::compile_model(g, target::host());
  ASSERT_TRUE(model.ok());
  EXPECT_LE(static_cast<double>(model->arena_bytes), 1.2 * static_cast<double>(model->live_bytes));
}

// y = NonZero(x): the size of the result is known only with the data.
onnx::Model nonzero_model() {
  onnx::Model m;
  m.opsets[""] = 13;
  m.graph.inputs = {{"x", "f32", true, {{2, ""}, {3, ""}}}};
  m.graph.outputs = {{"y", "i64", false, {}}};
  m.graph.nodes = {{.name = "find", .op_type = "NonZero", .inputs = {"x"}, .outputs = {"y"}}};
  return m;
}

TEST(Eager, DataDependentModelsRunNodeByNode) {
  const onnx::Model m = nonzero_model();
  EXPECT_EQ(load_graph(m, {}).error().code, ErrorCode::kDataDependent);
  HostTensor x(DType::kF32, {2, 3});
  x.set_float(1, 2);
  x.set_float(5, -1);
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(target::host(), device);
  const auto out = run_eager(m, {{"x", x}}, evaluator);
  ASSERT_TRUE(out.ok()) << out.error().message;
  ASSERT_EQ((*out)[0].shape(), (Shape{2, 2}));
  EXPECT_EQ((*out)[0].get_int(0), 0);
  EXPECT_EQ((*out)[0].get_int(1), 1);
  EXPECT_EQ((*out)[0].get_int(2), 1);
  EXPECT_EQ((*out)[0].get_int(3), 2);
}

TEST(Eager, AMissingInputIsAnError) {
  runtime::CpuDevice device({.threads = 1});
  NodeEvaluator evaluator(target::host(), device);
  EXPECT_FALSE(run_eager(nonzero_model(), {}, evaluator).ok());
}

TEST(RangeError, NanInfinityAndShapes) {
  HostTensor a(DType::kF32, {2}), b(DType::kF32, {2});
  a.set_float(0, 10);
  b.set_float(0, 10);
  EXPECT_EQ(range_error(a, b), 0);
  a.set_float(1, 0.1);
  EXPECT_NEAR(range_error(a, b), 0.01, 1e-6);
  a.set_float(1, NAN);
  EXPECT_TRUE(std::isinf(range_error(a, b)));
  b.set_float(1, NAN);
  EXPECT_EQ(range_error(a, b), 0);
  a.set_float(0, NAN);
  b.set_float(0, NAN);
  EXPECT_TRUE(std::isinf(range_error(a, b))) << "verifies nothing";
  EXPECT_EQ(range_error(HostTensor(DType::kF32, {0}), HostTensor(DType::kF32, {0})), 0);
  EXPECT_TRUE(std::isinf(range_error(a, HostTensor(DType::kF32, {3}))));
}

// The first output is a u8 image times 0.5; the second was rounded to f16 on the way.
TEST(WorstOutput, EachOutputHasTheBoundOfItsOwnAncestry) {
  graph::GraphBuilder b("two");
  const ValueId x = b.input("x", {DType::kU8, {4}});
  const ValueId y =
      b.add("mul", {b.cast(x, DType::kF32).value(), b.scalar(DType::kF32, 0.5)}).value();
  const ValueId z = b.cast(b.cast(y, DType::kF16).value(), DType::kF32).value();
  const Graph graph = b.finish({y, z}, {"y", "z"});
  const auto differ = [&](double first, double second) {
    HostTensor want(DType::kF32, {4}), a(DType::kF32, {4}), c(DType::kF32, {4});
    for (HostTensor* t : {&want, &a, &c}) t->set_float(0, 1);
    a.set_float(1, first);
    c.set_float(1, second);
    return worst_output(graph, {a, c}, {want, want});
  };
  EXPECT_EQ(differ(0, 0), 0);
  EXPECT_LE(differ(7e-6, 3.8e-3), 1);
  EXPECT_GT(differ(8e-6, 0), 1) << "an image of bytes is exact";
  EXPECT_GT(differ(0, 4e-3), 1) << "one value of f16 is no half-precision network";
}

// A detector that sees nothing: values near 1e-6, which one way computes as 1/2 - 1/2.
TEST(WorstOutput, SmallValuesOfASigmoidMayDifferByItsRoundings) {
  graph::GraphBuilder b("seen");
  const ValueId x = b.input("x", {DType::kF32, {2}});
  const ValueId y = b.add("sigmoid", {x}).value();
  const Graph seen = b.finish({y}, {"y"});
  graph::GraphBuilder c("tanh");
  const Graph other = c.finish({c.add("tanh", {c.input("x", {DType::kF32, {2}})}).value()}, {"y"});
  HostTensor want(DType::kF32, {2}), got(DType::kF32, {2});
  want.set_float(0, 1e-6);
  got.set_float(0, 1e-6 + 0x1p-23);
  EXPECT_EQ(worst_output(seen, {got}, {want}), 0);
  EXPECT_GT(worst_output(other, {got}, {want}), 1);
  got.set_float(0, 2e-6);
  EXPECT_GT(worst_output(seen, {got}, {want}), 1) << "roundings, not everything small";
}

TEST(WorstOutput, WhatIsNoNumberProvesNothing) {
  graph::GraphBuilder b("two");
  const ValueId x = b.input("x", {DType::kF32, {1}});
  const Graph graph = b.finish({b.add("neg", {x}).value(), b.add("exp", {x}).value()}, {"y", "z"});
  HostTensor nan(DType::kF32, {1}), one(DType::kF32, {1}), two(DType::kF32, {1});
  nan.set_float(0, NAN);
  one.set_float(0, 1);
  two.set_float(0, 2);
  EXPECT_TRUE(std::isinf(worst_output(graph, {nan, one}, {nan, one})));
  EXPECT_TRUE(agree_but_for_no_numbers(graph, {nan, one}, {nan, one}));
  EXPECT_FALSE(agree_but_for_no_numbers(graph, {nan, one}, {nan, two}));
  EXPECT_FALSE(agree_but_for_no_numbers(graph, {nan, one}, {one, one}));
  EXPECT_FALSE(agree_but_for_no_numbers(graph, {one, one}, {one, two}));
}

TEST(RandomModelInputs, LengthsAreThoseOfTheSequences) {
  const std::vector<HostTensor> inputs =
      random_model_inputs({"ids", "input_lengths", "mask"},
                          {{DType::kI64, {2, 40}}, {DType::kI64, {2}}, {DType::kI64, {2, 40}}}, 1);
  EXPECT_EQ(inputs[1].get_int(0), 40);
  EXPECT_EQ(inputs[1].get_int(1), 40);
  EXPECT_LE(inputs[0].get_int(5), 1);
  EXPECT_EQ(inputs[2].get_int(7), 1);
}

// Words of the whole vocabulary, segments of the two that there are.
TEST(RandomModelInputs, ChooseAmongAllRowsOfTheirTables) {
  const auto graph = load_graph("zoo:bert_tiny", {});
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  std::vector<std::int64_t> limits(graph->inputs.size(), 0);
  for (const exec::IndexCheck& check : exec::find_index_checks(*graph))
    limits[check.input] = *std::min_element(check.sizes.begin(), check.sizes.end());
  const std::vector<HostTensor> inputs = random_model_inputs(*graph, 1);
  bool words = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (limits[i] < 1000) continue;
    words = true;
    std::set<std::int64_t> seen;
    for (std::int64_t k = 0; k < inputs[i].size(); ++k) {
      const std::int64_t id = inputs[i].get_int(k);
      ASSERT_TRUE(id >= 0 && id < limits[i]);
      seen.insert(id);
    }
    EXPECT_GT(std::ssize(seen), inputs[i].size() / 2);
  }
  EXPECT_TRUE(words);
}

}  // namespace
}  // namespace tessera::app
