// Whole models: compiled, fused and planned code against the node-by-node interpreter.
#include <gtest/gtest.h>

#include "tessera/driver/bench/bench_model.h"
#include "tessera/driver/compile/run_eager.h"
#include "tessera/graph/builder.h"

namespace tessera::driver {
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

// Optimises, compiles and runs `graph`; every output must be near the interpreter's.
void expect_same(Graph graph, bool optimize) {
  std::vector<std::string> names;
  std::vector<graph::TensorType> types;
  for (const ValueId id : graph.inputs) {
    names.push_back(graph.value(id).name);
    types.push_back(graph.type(id));
  }
  const std::vector<HostTensor> inputs = random_model_inputs(names, types, 3);
  const auto want = graph::evaluate(graph, inputs);
  ASSERT_TRUE(want.ok()) << want.error().message;
  if (optimize) {
    const auto passes = graph::optimize(graph, {});
    ASSERT_TRUE(passes.ok()) << passes.error().message;
  }
  const auto model = exec::compile_model(graph, target::host());
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const int threads : {1, 2}) {
    runtime::ThreadPool pool({.threads = threads});
    const auto got = exec::run_model(*model, pool, inputs);
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

Graph attention_network() {
  Net n;
  using Ints = std::vector<std::int64_t>;
  const ValueId x = n.input({1, 9, 16});
  const graph::Attrs labels{
      {"a", std::string("bmk")}, {"b", std::string("kn")}, {"out", std::string("bmn")}};
  const auto heads = [&](ValueId v) {
    const ValueId r = n.add("reshape", {v}, {{"shape", Ints{1, 9, 2, 8}}});
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
            {{"shape", Ints{1, 9, 16}}});
  o = n.add("add", {o, x});
  o = n.add("layernorm", {o, n.weight({16}), n.weight({16})},
            {{"axis", std::int64_t{2}}, {"epsilon", 1e-5}});
  return n.b.finish({o}, {"y"});
}

TEST(Model, AttentionEqualsTheInterpreter) {
  expect_same(attention_network(), false);
  expect_same(attention_network(), true);
}

TEST(Model, HostOperatorsRunBetweenKernels) {
  Net n;
  const ValueId x = n.add("tanh", {n.input({5, 7})});
  const auto top = n.b.add_node("topk", {x},
                                {{"axis", std::int64_t{1}},
                                 {"k", std::int64_t{3}},
                                 {"largest", std::int64_t{1}},
                                 {"sorted", std::int64_t{1}}});
  ASSERT_TRUE(top.ok()) << top.error().message;
  const ValueId y = n.add("exp", {(*top)[0]});
  expect_same(n.b.finish({y, (*top)[1]}, {"values", "indices"}), true);
}

TEST(Model, EmptyTensorsAndOutputsThatAreInputs) {
  Net n;
  const ValueId x = n.input({0, 4}), y = n.input({3});
  const ValueId e = n.add("exp", {x});
  expect_same(n.b.finish({e, y, n.weight({2})}, {"empty", "input", "constant"}), true);
}

TEST(Model, AWrongInputIsNamed) {
  Net n;
  const Graph g = n.b.finish({n.add("exp", {n.input({2, 3})})}, {"y"});
  const auto model = exec::compile_model(g, target::host());
  ASSERT_TRUE(model.ok());
  runtime::ThreadPool pool({.threads = 1});
  const auto got = exec::run_model(*model, pool, {HostTensor(DType::kF32, {3, 2})});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().message, "input x0 must be f32[2,3], not f32[3,2]");
  EXPECT_FALSE(exec::run_model(*model, pool, {}).ok());
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
  runtime::ThreadPool pool({.threads = 1});
  NodeEvaluator evaluator(target::host(), pool);
  const auto out = run_eager(m, {{"x", x}}, evaluator);
  ASSERT_TRUE(out.ok()) << out.error().message;
  ASSERT_EQ((*out)[0].shape(), (Shape{2, 2}));
  EXPECT_EQ((*out)[0].get_int(0), 0);
  EXPECT_EQ((*out)[0].get_int(1), 1);
  EXPECT_EQ((*out)[0].get_int(2), 1);
  EXPECT_EQ((*out)[0].get_int(3), 2);
}

TEST(Eager, AMissingInputIsAnError) {
  runtime::ThreadPool pool({.threads = 1});
  NodeEvaluator evaluator(target::host(), pool);
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

}  // namespace
}  // namespace tessera::driver
