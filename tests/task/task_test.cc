#include "tessera/frontend/task/task.h"

#include <gtest/gtest.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/lang/te/canonical.h"

namespace tessera::task {
namespace {

using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;

// Two dense layers of one shape and one of another, with names that differ from call to call.
Graph network(const std::string& name) {
  GraphBuilder b(name);
  ValueId x = b.input(name + "_in", {DType::kF32, {3, 8}});
  for (const std::int64_t out : {8, 8, 5}) {
    const graph::Attrs labels{
        {"a", std::string("mk")}, {"b", std::string("kn")}, {"out", std::string("mn")}};
    HostTensor w(DType::kF32, {8, out});
    const ValueId weights = b.constant(w, name + std::to_string(out));
    const auto m = b.add("contract", {x, weights}, labels);
    const auto y = m.ok() ? b.add("max", {*m, b.scalar(DType::kF32, 0)}) : m;
    EXPECT_TRUE(y.ok());
    x = *y;
  }
  return b.finish({x}, {"y"});
}

TEST(Tasks, EqualGroupsAreOneTaskWithAWeight) {
  const Graph g = network("net");
  const auto tasks = extract_tasks(g);
  ASSERT_TRUE(tasks.ok()) << tasks.error().message;
  ASSERT_EQ(tasks->tasks.size(), 2u);
  EXPECT_EQ(tasks->calls.size(), 3u);
  EXPECT_EQ(tasks->tasks[0].weight, 2);
  EXPECT_EQ(tasks->tasks[1].weight, 1);
  EXPECT_EQ(tasks->tasks[0].name, "contract+max");
  EXPECT_DOUBLE_EQ(tasks->tasks[0].flops, 2.0 * 3 * 8 * 8 + 3 * 8);
}

TEST(Tasks, ScalarsAreImmediatesNotParameters) {
  const Graph g = network("net");
  const auto tasks = extract_tasks(g);
  ASSERT_TRUE(tasks.ok());
  EXPECT_EQ(tasks->tasks[0].dag.inputs.size(), 2u);
  EXPECT_TRUE(tasks->tasks[0].dag.inputs[1].constant);
  EXPECT_EQ(tasks->calls[0].params.size(), 2u);
}

TEST(Tasks, KeysFollowFromTheDefinitionAlone) {
  const auto a = extract_tasks(network("first"));
  const auto b = extract_tasks(network("second"));
  ASSERT_TRUE(a.ok() && b.ok());
  for (std::size_t i = 0; i < a->tasks.size(); ++i) EXPECT_EQ(a->tasks[i].key, b->tasks[i].key);
  EXPECT_NE(a->tasks[0].key, a->tasks[1].key);
}

// A product with bias and residual: the residual may stand first, and the nodes beside each other
// may come in any order.
Graph residual(bool swapped) {
  GraphBuilder b("net");
  const ValueId rest = b.input(swapped ? "other" : "rest", {DType::kF32, {3, 5}});
  const ValueId x = b.input("x", {DType::kF32, {3, 8}});
  const ValueId bias = b.constant(HostTensor(DType::kF32, {5}), "bias");
  const ValueId weights = b.constant(HostTensor(DType::kF32, {8, 5}), "w");
  const graph::Attrs labels{
      {"a", std::string("mk")}, {"b", std::string("kn")}, {"out", std::string("mn")}};
  const auto in_order = [&](ValueId a, ValueId c) {
    return swapped ? std::vector<ValueId>{c, a} : std::vector<ValueId>{a, c};
  };
  const ValueId m = b.add("contract", {x, weights}, labels).value();
  const ValueId biased = b.add("add", in_order(m, bias)).value();
  const ValueId sum = b.add("add", in_order(biased, rest)).value();
  return b.finish({sum}, {"y"});
}

TEST(Tasks, OperandsThatCommuteGiveOneTask) {
  const auto a = extract_tasks(residual(false)), b = extract_tasks(residual(true));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->tasks.size(), 1u);
  EXPECT_EQ(a->tasks[0].key, b->tasks[0].key);
  EXPECT_EQ(te::to_text(a->tasks[0].dag), te::to_text(b->tasks[0].dag));
  // Parameters follow the inputs: of each graph the same roles, whatever their numbers.
  for (const auto* g : {&*a, &*b}) {
    ASSERT_EQ(g->calls[0].params.size(), 4u);
  }
  const Graph swapped = residual(true);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(swapped.type(b->calls[0].params[i]).shape, b->tasks[0].dag.inputs[i].buffer->shape);
  }
}

// Groups that are written alike share what is known of the first.
TEST(Tasks, ParametersOfEqualGroupsFollowEachGroup) {
  GraphBuilder b("net");
  std::vector<ValueId> outputs;
  std::vector<std::vector<ValueId>> pairs;
  for (const std::string name : {"a", "b", "c"}) {
    const ValueId x = b.input(name, {DType::kF32, {3, 8}});
    const ValueId w = b.constant(HostTensor(DType::kF32, {8}), name + "w");
    pairs.push_back({x, w});
    outputs.push_back(b.add("add", {w, x}).value());  // the order of the task is the other one
  }
  const auto tasks = extract_tasks(b.finish(outputs, {"x", "y", "z"}));
  ASSERT_TRUE(tasks.ok()) << tasks.error().message;
  ASSERT_EQ(tasks->tasks.size(), 1u);
  ASSERT_EQ(tasks->calls.size(), 3u);
  EXPECT_EQ(tasks->tasks[0].weight, 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(tasks->calls[i].params, pairs[i]);
}

TEST(Tasks, KeysAreThoseOfTheCanonicalForm) {
  const auto tasks = extract_tasks(residual(true));
  ASSERT_TRUE(tasks.ok());
  const te::Dag& dag = tasks->tasks[0].dag;
  EXPECT_EQ(te::to_text(te::canonicalize(dag).dag), te::to_text(dag));
  EXPECT_EQ(key_of(dag), tasks->tasks[0].key);
}

// Records, datasets and weights name tasks by their keys: these must not change.
TEST(Tasks, KeysAreThoseOfEarlierVersions) {
  const auto key = [](const std::string& text) {
    const Result<te::Dag> dag = te::dag_from_text(text);
    return dag.ok() ? key_of(*dag) : dag.error().message;
  };
  // A choice among inputs.
  EXPECT_EQ(key("dag slice+slice+concat\n"
                "  input p0: f32[1, 28, 28, 58]\n  input p1: f32[1, 28, 28, 58]\n"
                "  stage slice: f32[1, 28, 28, 29]\n"
                "    slice[i0, i1, i2, i3] = p0[i0, i1, i2, i3 + 29]\n"
                "  stage slice_2: f32[1, 28, 28, 29]\n"
                "    slice_2[i0, i1, i2, i3] = p1[i0, i1, i2, i3 + 29]\n"
                "  stage concat: f32[1, 28, 28, 58]\n"
                "    concat[i0, i1, i2, i3] = select(i3 < 29, slice[i0, i1, i2, i3], "
                "slice_2[i0, i1, i2, i3 - 29])\n"
                "  output concat\n"),
            "3d47d7bf3af4875d");
  // Operands that commute, in either order.
  const auto residual_of = [](const std::string& first, const std::string& second) {
    return "dag contract+add+add\n"
           "  input p0: f32[1, 128, 256]\n  constant p1: f32[256, 256]\n"
           "  constant p2: f32[256]\n  input p3: f32[1, 128, 256]\n"
           "  stage contract: f32[1, 128, 256]\n"
           "    contract[b, i, j] = sum(k in 256) p0[b, i, k] * p1[k, j]\n"
           "  stage add: f32[1, 128, 256]\n    add[i0, i1, i2] = " +
           first + "\n  stage add_2: f32[1, 128, 256]\n    add_2[i0, i1, i2] = " + second +
           "\n  output add_2\n";
  };
  EXPECT_EQ(key(residual_of("contract[0, i1, i2] + p2[i2]", "add[0, i1, i2] + p3[0, i1, i2]")),
            "118f6d0e321d7689");
  EXPECT_EQ(key(residual_of("p2[i2] + contract[0, i1, i2]", "p3[0, i1, i2] + add[0, i1, i2]")),
            "118f6d0e321d7689");
}

}  // namespace
}  // namespace tessera::task
