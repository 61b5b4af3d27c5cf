// Operators without kernels, as functions of the C runtime: bit for bit what the graph's compute.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/frontend/graph/builder.h"
#include "tests/artifact/artifact_fixture.h"
#include "tests/testing/testing.h"

namespace tessera::artifact {
namespace {

using graph::ValueId;
using Tensors = std::vector<HostTensor>;

// Runs the graph as an artifact and node by node.
void expect_same_bits(const graph::Graph& graph, const Tensors& inputs) {
  const std::string folder = fresh_folder() + "/net";
  const auto report = compile_artifact(graph, target::host(), folder, {.name = "net"});
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto loaded = load_artifact(folder, {.threads = 2});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const Tensors want = expected(graph, inputs);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto got = (*loaded)->run(inputs);
    ASSERT_TRUE(got.ok()) << got.error().message;
    ASSERT_EQ(got->size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_EQ(testing::mismatch((*got)[i], want[i], 0), "") << i;
  }
}

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                            DType::kI16, DType::kI32, DType::kI64, DType::kU8,   DType::kU16,
                            DType::kU32, DType::kU64, DType::kBool};

// Few values, so that many are equal; of floats also both zeros, infinities and NaN.
HostTensor repeating(DType dtype, const Shape& shape) {
  Rng rng(3);
  HostTensor t(dtype, shape);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t v = static_cast<std::int64_t>(rng.below(9)) - 4;
    if (!is_float(dtype)) {
      t.set_int(i, v);
    } else {
      t.set_float(i, v == 0 ? (rng.below(2) == 0 ? 0.0 : -0.0) : 0.37 * static_cast<double>(v));
    }
  }
  if (is_float(dtype) && t.size() > 7) {
    t.set_float(1, std::numeric_limits<double>::infinity());
    t.set_float(3, -std::numeric_limits<double>::infinity());
    t.set_float(6, 1e-7);
  }
  return t;
}

TEST(HostOperators, TopKOfAllTypesAxesAndOrders) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t axis : {0, 1, 2}) {
      for (const std::int64_t largest : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} axis {} largest {}", to_text(dtype), axis, largest));
        const Shape shape = {5, 17, 3};
        const std::int64_t k = shape[static_cast<std::size_t>(axis)] / 2 + 1;
        graph::GraphBuilder b("topk");
        const ValueId x = b.input("x", {dtype, shape});
        const auto best =
            *b.add_node("topk", {x}, {{"axis", axis}, {"k", k}, {"largest", largest}});
        expect_same_bits(b.finish({best[0], best[1]}, {"values", "places"}),
                         {repeating(dtype, shape)});
      }
    }
  }
}

TEST(HostOperators, TopKRanksNanFirstAndTakesAllOrNone) {
  HostTensor x = repeating(DType::kF32, {2, 11});
  x.set_float(4, std::nan(""));
  for (const std::int64_t k : {0, 1, 11}) {
    graph::GraphBuilder b("topk");
    const ValueId in = b.input("x", {DType::kF32, {2, 11}});
    const auto best = *b.add_node("topk", {in}, {{"axis", 1}, {"k", k}, {"largest", 1}});
    expect_same_bits(b.finish({best[1]}, {"places"}), {x});
  }
}

// A classifier: kernels before and behind.
TEST(HostOperators, StandBetweenKernels) {
  Rng rng(8);
  graph::GraphBuilder b("head");
  const ValueId x = b.input("x", {DType::kF32, {3, 13}});
  const ValueId w = b.constant(random_tensor(DType::kF32, {13, 29}, rng), "w");
  const ValueId scores = *b.add("contract", {x, w}, {{"a", "mk"}, {"b", "kn"}, {"out", "mn"}});
  const auto best = *b.add_node("topk", {scores}, {{"axis", 1}, {"k", 5}, {"largest", 1}});
  const ValueId y = *b.add("max", {best[0], b.scalar(DType::kF32, 0)});
  const graph::Graph graph = b.finish({y, best[1]}, {"y", "places"});
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile_artifact(graph, target::host(), folder, {.name = "net"}).ok());
  const auto loaded = load_artifact(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const Tensors inputs = {random_tensor(DType::kF32, {3, 13}, rng)};
  const auto got = (*loaded)->run(inputs);
  ASSERT_TRUE(got.ok()) << got.error().message;
  expect_close(*got, expected(graph, inputs));
}

HostTensor places(const Shape& shape, std::int64_t size, DType dtype = DType::kI64) {
  Rng rng(4);
  HostTensor t(dtype, shape);
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.set_int(i, static_cast<std::int64_t>(rng.below(2 * size)) - size);
  return t;
}

TEST(HostOperators, ScatterElementsOfAllTypesAndReductions) {
  for (const DType dtype : kTypes) {
    for (const char* reduction : {"none", "add", "mul", "min", "max"}) {
      for (const std::int64_t axis : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} {} axis {}", to_text(dtype), reduction, axis));
        const Shape shape = {7, 5}, some = axis == 0 ? Shape{9, 3} : Shape{6, 11};
        graph::GraphBuilder b("scatter");
        const ValueId x = b.input("x", {dtype, shape}), updates = b.input("u", {dtype, some});
        const ValueId by = b.input("i", {axis == 0 ? DType::kI64 : DType::kI32, some});
        const ValueId y = *b.add("scatter_elements", {x, by, updates},
                                 {{"axis", axis}, {"reduction", std::string(reduction)}});
        Rng rng(11);
        expect_same_bits(b.finish({y}, {"y"}),
                         {random_tensor(dtype, shape, rng), random_tensor(dtype, some, rng),
                          places(some, shape[static_cast<std::size_t>(axis)],
                                 axis == 0 ? DType::kI64 : DType::kI32)});
      }
    }
  }
}

TEST(HostOperators, ScatterNdOfRowsAndElements) {
  for (const char* reduction : {"none", "add", "max"}) {
    for (const std::int64_t depth : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} depth {}", reduction, depth));
      const Shape shape = {3, 3, 3}, by_shape = {2, 5, depth};
      Shape updates = {2, 5};
      updates.insert(updates.end(), shape.begin() + depth, shape.end());
      graph::GraphBuilder b("scatter");
      const ValueId x = b.input("x", {DType::kF32, shape}),
                    u = b.input("u", {DType::kF32, updates});
      const ValueId by = b.input("i", {DType::kI64, by_shape});
      const ValueId y = *b.add("scatter_nd", {x, by, u}, {{"reduction", std::string(reduction)}});
      Rng rng(12);
      expect_same_bits(b.finish({y}, {"y"}),
                       {random_tensor(DType::kF32, shape, rng),
                        random_tensor(DType::kF32, updates, rng), places(by_shape, 3)});
    }
  }
}

TEST(HostOperators, WrongIndicesAreRefusedWithTheNode) {
  graph::GraphBuilder b("scatter");
  b.set_origin("ScatterElements /head/put");
  const ValueId x = b.input("x", {DType::kF32, {4}}), u = b.input("u", {DType::kF32, {2}});
  const ValueId by = b.input("i", {DType::kI64, {2}});
  const ValueId y = *b.add("scatter_elements", {x, by, u},
                           {{"axis", std::int64_t{0}}, {"reduction", std::string("none")}});
  const std::string folder = fresh_folder() + "/net";
  ASSERT_TRUE(compile_artifact(b.finish({y}, {"y"}), target::host(), folder, {.name = "net"}).ok());
  const auto loaded = load_artifact(folder);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  HostTensor wrong(DType::kI64, {2});
  wrong.set_int(1, 4);
  const auto got =
      (*loaded)->run({HostTensor(DType::kF32, {4}), HostTensor(DType::kF32, {2}), wrong});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(got.error().message.find(
                "ScatterElements /head/put: index 4 is outside a dimension of size 4"),
            std::string::npos)
      << got.error().message;
}

TEST(HostOperators, FloatsOfAByteAreRefused) {
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    graph::GraphBuilder b("topk");
    b.set_origin("TopK /head/topk");
    const ValueId x = b.input("x", {dtype, {2, 11}});
    const auto best = *b.add_node("topk", {x}, {{"axis", 1}, {"k", 3}, {"largest", 1}});
    const auto report = compile_artifact(b.finish({best[1]}, {"places"}), target::host(),
                                         fresh_folder() + "/net", {.name = "net"});
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(report.error().message.find("TopK /head/topk"), std::string::npos)
        << report.error().message;
  }
}

}  // namespace
}  // namespace tessera::artifact
