#include "tessera/backend/exec/index_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/backend/exec/model_runner.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tests/testing/testing.h"

namespace tessera::exec {
namespace {

using graph::GraphBuilder;
using graph::TensorType;
using graph::ValueId;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Integers = std::vector<std::int64_t>;

ValueId table(GraphBuilder& b, const Shape& shape) {
  Rng rng(1);
  return b.constant(random_tensor(DType::kF32, shape, rng), "table");
}

// y = table[ids], ids transposed and flat.
graph::Graph embedding(DType dtype = DType::kI64) {
  GraphBuilder b("embedding");
  b.set_origin("Gather /embed");
  const ValueId ids = b.input("ids", {dtype, {2, 3}});
  const ValueId wide = *b.cast(ids, DType::kI64);
  const ValueId flat = *b.reshape(*b.transpose(wide, {1, 0}), {6});
  const ValueId y = *b.add("gather", {table(b, {7, 4}), flat}, {{"axis", std::int64_t{0}}});
  return b.finish({y}, {"y"});
}

HostTensor integers(DType dtype, const Shape& shape, const Integers& values) {
  HostTensor t(dtype, shape);
  for (std::size_t i = 0; i < values.size(); ++i)
    t.set_int(static_cast<std::int64_t>(i), values[i]);
  return t;
}

TEST(IndexChecks, FindInputsThatAreIndices) {
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    const auto checks = find_index_checks(embedding(dtype));
    ASSERT_EQ(checks.size(), 1u);
    EXPECT_EQ(checks[0].input, 0u);
    EXPECT_THAT(checks[0].sizes, ElementsAre(7));
    EXPECT_EQ(checks[0].node, "Gather /embed");
  }
  EXPECT_TRUE(find_index_checks(embedding(DType::kU8)).empty()) << "not checked: of another type";
}

TEST(IndexChecks, EveryGather) {
  GraphBuilder b("all");
  const ValueId x = b.input("x", {DType::kF32, {5, 6}});
  const ValueId elements = b.input("elements", {DType::kI64, {5, 2}});
  const ValueId tuples = b.input("tuples", {DType::kI64, {4, 2}});
  const ValueId mixed = b.input("mixed", {DType::kI64, {2, 4}});
  const ValueId one = *b.add("gather_elements", {x, elements}, {{"axis", std::int64_t{1}}});
  const ValueId two = *b.add("gather_nd", {x, tuples});
  // Tuples that were transposed are not those of the input.
  const ValueId three = *b.add("gather_nd", {x, *b.transpose(mixed, {1, 0})});
  const ValueId shifted = *b.add("add", {elements, b.scalar(DType::kI64, 1)});
  const ValueId four = *b.add("gather_elements", {x, shifted}, {{"axis", std::int64_t{1}}});
  const auto checks =
      find_index_checks(b.finish({one, two, three, four}, {"one", "two", "three", "four"}));
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[0].input, 1u);
  EXPECT_THAT(checks[0].sizes, ElementsAre(6));
  EXPECT_EQ(checks[1].input, 2u);
  EXPECT_THAT(checks[1].sizes, ElementsAre(5, 6));
}

TEST(IndexChecks, SayNodeAndIndex) {
  const IndexCheck check{0, {5, 6}, "GatherND pick"};
  const TensorType type{DType::kI64, {2, 2}};
  const auto message = [&](const Integers& values) {
    const auto checked =
        check_indices(check, type, "at", integers(DType::kI64, {2, 2}, values).data());
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_EQ(message({4, 5, -5, -6}), "");
  EXPECT_EQ(message({4, 5, 0, 6}),
            "GatherND pick: index 6 (element 3 of input 'at') is outside a dimension of size 6");
  EXPECT_THAT(message({5, 5, 0, 0}), HasSubstr("index 5 (element 0"));
  EXPECT_THAT(message({0, -7, 0, 0}), HasSubstr("index -7"));
  EXPECT_THAT(message({INT64_MIN, 0, 0, 0}), HasSubstr("index -9223372036854775808"));
}

TEST(IndexChecks, ARunIsRefused) {
  runtime::CpuDevice device({.threads = 1});
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    const graph::Graph graph = embedding(dtype);
    const auto model = compile_model(graph, target::host());
    ASSERT_TRUE(model.ok()) << model.error().message;
    ModelRunner runner(*model, device);
    const HostTensor good = integers(dtype, {2, 3}, {0, 6, -7, -1, 3, 5});
    ASSERT_TRUE(runner.set_input(0, good).ok());
    ASSERT_TRUE(runner.run().ok());
    const auto want = graph::evaluate(graph, {good});
    EXPECT_EQ(testing::mismatch(runner.output(0), want->at(0), 0), "");
    ASSERT_TRUE(runner.set_input(0, integers(dtype, {2, 3}, {0, 6, -7, -1, 7, 5})).ok());
    const auto refused = runner.run();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("Gather /embed: index 7 (element 4 of input"));
  }
}

// y[i, j] = x[i, ids[i, j] + 1], of which the sum could be computed by the kernel that reads x.
graph::Graph shifted() {
  GraphBuilder b("shifted");
  const ValueId x = b.input("x", {DType::kF32, {5, 6}});
  const ValueId ids = b.input("ids", {DType::kI64, {5, 2}});
  b.set_origin("Add /shift");
  const ValueId sum = *b.add("add", {ids, b.scalar(DType::kI64, 1)});
  b.set_origin("GatherElements /pick");
  const ValueId y =
      *b.add("gather_elements", {x, *b.cast(sum, DType::kI32)}, {{"axis", std::int64_t{1}}});
  b.set_origin("Tanh /behind");
  return b.finish({*b.add("tanh", {y})}, {"y"});
}

TEST(IndexChecks, FindIndicesThatTheModelComputes) {
  const graph::Graph graph = shifted();
  const graph::Uses uses = find_uses(graph);
  const std::vector<std::int32_t> nodes = {1, 2};  // without the sum
  const ValueId sum = graph.nodes[0].outputs[0];
  const auto found = find_computed_indices(graph, uses, nodes, std::vector<ValueId>{0, sum});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].value, sum);
  EXPECT_THAT(found[0].what.sizes, ElementsAre(6));
  EXPECT_EQ(found[0].what.node, "GatherElements /pick");
  EXPECT_TRUE(find_computed_indices(graph, uses, nodes, std::vector<ValueId>{0}).empty());
  const graph::Graph outside = embedding();
  const auto last = static_cast<std::int32_t>(outside.nodes.size()) - 1;
  EXPECT_TRUE(find_computed_indices(outside, find_uses(outside), std::vector<std::int32_t>{last},
                                    outside.nodes.back().inputs)
                  .empty())
      << "find_index_checks has it";
}

// An input of another type is not looked at itself, but what a kernel makes of it is.
TEST(IndexChecks, IndicesCastFromOtherInputsAreComputed) {
  runtime::CpuDevice device({.threads = 1});
  for (const DType dtype : {DType::kF32, DType::kI16}) {
    const graph::Graph graph = embedding(dtype);
    const auto model = compile_model(graph, target::host());
    ASSERT_TRUE(model.ok()) << model.error().message;
    ModelRunner runner(*model, device);
    const auto ids = [&](std::int64_t last) {
      HostTensor t(dtype, {2, 3});
      for (std::int64_t i = 0; i < t.size(); ++i) {
        const std::int64_t value = i + 1 == t.size() ? last : i;
        is_float(dtype) ? t.set_float(i, static_cast<double>(value)) : t.set_int(i, value);
      }
      return t;
    };
    ASSERT_TRUE(runner.set_input(0, ids(-7)).ok());
    EXPECT_TRUE(runner.run().ok());
    ASSERT_TRUE(runner.set_input(0, ids(7)).ok());
    const auto refused = runner.run();
    ASSERT_FALSE(refused.ok()) << to_text(dtype);
    EXPECT_THAT(refused.error().message, HasSubstr("Gather /embed: index 7 (element 5 of those"));
  }
}

TEST(IndexChecks, ARunThatComputesAWrongIndexIsRefused) {
  runtime::CpuDevice device({.threads = 1});
  const graph::Graph graph = shifted();
  const auto model = compile_model(graph, target::host());
  ASSERT_TRUE(model.ok()) << model.error().message;
  ModelRunner runner(*model, device);
  Rng rng(3);
  const HostTensor x = random_tensor(DType::kF32, {5, 6}, rng);
  const HostTensor good = integers(DType::kI64, {5, 2}, {0, 4, -7, -1, 3, 2, 1, 0, -2, -3});
  ASSERT_TRUE(runner.set_input(0, x).ok());
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(runner.set_input(1, good).ok());
    ASSERT_TRUE(runner.run().ok());
    const auto want = graph::evaluate(graph, {x, good});
    EXPECT_EQ(testing::mismatch(runner.output(0), want->at(0), 1e-6), "");
    ASSERT_TRUE(
        runner.set_input(1, integers(DType::kI64, {5, 2}, {0, 4, -7, 5, 3, 2, 1, 0, -2, -3})).ok());
    const auto refused = runner.run();
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().message,
              "GatherElements /pick: index 6 (element 3 of those that the model computes) is "
              "outside a dimension of size 6");
  }
}

}  // namespace
}  // namespace tessera::exec
