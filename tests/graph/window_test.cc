// Pools: what the ONNX backend cases do not cover.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/graph/node_runner.h"

namespace tessera::graph {
namespace {

using testing::counting;
using testing::floats;
using testing::ints;
using testing::refusal;
using testing::run_node;
using testing::values_of;
using Numbers = std::vector<double>;

Attrs pool(const char* kind, const Shape& kernel, const char* layout = "nchw") {
  return {{"kind", std::string(kind)}, {"kernel", kernel}, {"layout", std::string(layout)}};
}

Numbers run_pool(const Attrs& attrs, const HostTensor& x) {
  const auto y = run_node("pool", attrs, {x});
  EXPECT_TRUE(y.ok()) << y.error().message;
  return y.ok() ? values_of((*y)[0]) : Numbers{};
}

TEST(Pool, LayoutsAgree) {
  EXPECT_EQ(run_pool(pool("max", {2}), floats({1, 2, 3}, {1, 5, 2, 9, 7, 8})),
            (Numbers{5, 5, 9, 8}));
  EXPECT_EQ(run_pool(pool("max", {2}, "nhwc"), floats({1, 3, 2}, {1, 9, 5, 7, 2, 8})),
            (Numbers{5, 9, 5, 8}));
}

TEST(Pool, SumKeepsIntegers) {
  const auto y = run_node("pool", pool("sum", {3}), {ints({1, 1, 4}, {1, 2, 3, 4}, DType::kI32)});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].dtype(), DType::kI32);
  EXPECT_EQ((*y)[0].get_int(1), 9);
}

TEST(Pool, AverageCountsWhatItIsAskedTo) {
  Attrs attrs = pool("avg", {3});
  attrs.set("before", Shape{1});
  attrs.set("after", Shape{2});
  const HostTensor x = floats({1, 1, 3}, {3, 6, 9});
  EXPECT_EQ(run_pool(attrs, x), (Numbers{4.5, 6, 7.5, 9}));
  attrs.set("include_pad", std::int64_t{1});
  EXPECT_EQ(run_pool(attrs, x), (Numbers{3, 6, 5, 3}));
  attrs.set("uncounted", Shape{1});  // the last element exists for rounding up only
  EXPECT_EQ(run_pool(attrs, x), (Numbers{3, 6, 5, 4.5}));
}

TEST(Pool, DilatedAverageSkipsPadding) {
  Attrs attrs = pool("avg", {2});
  attrs.set("dilations", Shape{2});
  attrs.set("before", Shape{2});
  attrs.set("after", Shape{1});
  // Windows at -2, -1, 0 reach elements 0, 1, 2 of 3; the last of them is x[0] and x[2].
  EXPECT_EQ(run_pool(attrs, floats({1, 1, 3}, {2, 4, 8})), (Numbers{2, 4, 5, 4}));
}

TEST(Pool, WindowInThePaddingIsZeroOrLowest) {
  Attrs attrs = pool("avg", {1});
  attrs.set("before", Shape{1});
  EXPECT_EQ(run_pool(attrs, floats({1, 1, 1}, {5})), (Numbers{0, 5}));
  attrs.set("kind", std::string("max"));
  EXPECT_EQ(run_pool(attrs, floats({1, 1, 1}, {5})),
            (Numbers{-std::numeric_limits<double>::infinity(), 5}));
}

TEST(Pool, Refusals) {
  EXPECT_NE(refusal("pool", pool("min", {2}), {counting({1, 1, 3})}).find("pool min"),
            std::string::npos);
  EXPECT_NE(refusal("pool", pool("avg", {2}), {counting({1, 1, 3}, DType::kI8)}).find("of i8"),
            std::string::npos);
  EXPECT_NE(refusal("pool", pool("max", {2, 2}), {counting({1, 1, 3})}).find("kernel has 2"),
            std::string::npos);
  EXPECT_NE(refusal("pool", pool("max", {4}), {counting({1, 1, 3})}).find("covers 4"),
            std::string::npos);
  EXPECT_NE(refusal("pool", pool("max", {1}), {counting({1, 3})}).find("image"), std::string::npos);
}

std::vector<std::int64_t> indices(const Attrs& attrs, const HostTensor& x) {
  const auto y = run_node("max_pool_indices", attrs, {x});
  EXPECT_TRUE(y.ok()) << y.error().message;
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; y.ok() && i < (*y)[1].size(); ++i) out.push_back((*y)[1].get_int(i));
  return out;
}

TEST(MaxPoolIndices, CountPositionsOfChannelsFirstInBothLayouts) {
  using Indices = std::vector<std::int64_t>;
  const Attrs first{{"kernel", Shape{1, 2}}, {"layout", std::string("nchw")}};
  const Attrs last{{"kernel", Shape{1, 2}}, {"layout", std::string("nhwc")}};
  EXPECT_EQ(indices(first, floats({1, 2, 1, 2}, {1, 2, 4, 3})), (Indices{1, 2}));
  EXPECT_EQ(indices(last, floats({1, 1, 2, 2}, {1, 4, 2, 3})), (Indices{1, 2}));
}

TEST(MaxPoolIndices, TiesAndPadding) {
  using Indices = std::vector<std::int64_t>;
  const double low = -std::numeric_limits<double>::infinity();
  const Attrs attrs{{"kernel", Shape{3}}, {"before", Shape{1}}, {"layout", std::string("nchw")}};
  EXPECT_EQ(indices(attrs, floats({1, 1, 3}, {4, 4, 4})), (Indices{0, 0}));
  EXPECT_EQ(indices(attrs, floats({1, 1, 3}, {low, low, low})), (Indices{0, 0}));
}

TEST(MaxPoolIndices, ANanWinsOverNumbersAsInMaxPool) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Attrs attrs{{"kernel", Shape{3}}, {"before", Shape{1}}, {"layout", std::string("nchw")}};
  const HostTensor x = floats({1, 1, 5}, {1, nan, 9, nan, nan});
  EXPECT_EQ(indices(attrs, x), (std::vector<std::int64_t>{1, 1, 1, 3}));
  Attrs max = attrs;
  max.set("kind", std::string("max"));
  for (const double v : run_pool(max, x)) EXPECT_TRUE(std::isnan(v));
  const auto y = run_node("max_pool_indices", attrs, {x});
  for (const double v : values_of((*y)[0])) EXPECT_TRUE(std::isnan(v));
}

TEST(MaxPoolIndices, ColumnMajor) {
  const Attrs attrs{
      {"kernel", Shape{2, 3}}, {"column_major", std::int64_t{1}}, {"layout", std::string("nchw")}};
  EXPECT_EQ(indices(attrs, floats({1, 1, 2, 3}, {0, 9, 0, 0, 0, 0})),
            (std::vector<std::int64_t>{2}));
}

}  // namespace
}  // namespace tessera::graph
