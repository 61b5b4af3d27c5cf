#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/node_runner.h"

namespace tessera::graph {
namespace {

using testing::counting;
using ::testing::ElementsAre;
using testing::expect_agreement;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::refusal;
using testing::values_of;
using Integers = std::vector<std::int64_t>;

TEST(Movement, ReshapeKeepsOrder) {
  Rng rng(1);
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{2, 3, 4}, {6, 4}}, {{6, 4}, {2, 3, 4}}, {{4, 6}, {6, 4}},        {{1, 5, 1}, {5}},
      {{1}, {}},           {{}, {1, 1}},        {{2, 6, 5}, {2, 2, 15}}, {{3, 1, 8}, {3, 2, 1, 4}},
      {{7}, {1, 7, 1}},
  };
  for (const auto& [from, to] : cases) {
    const HostTensor x = random_tensor(DType::kF32, from, rng);
    const auto y = expect_agreement("reshape", {{"shape", to}}, {x});
    EXPECT_EQ(values_of(y.at(0)), values_of(x));
    EXPECT_EQ(y[0].shape(), to);
  }
  EXPECT_THAT(refusal("reshape", {{"shape", Shape{5}}}, {counting({6})}), HasSubstr("cannot"));
  EXPECT_NE(refusal("reshape", {{"shape", Shape{-6}}}, {counting({6})}), "");
  EXPECT_NE(refusal("reshape", {{"shape", Shape{INT64_MAX, 4}}}, {counting({6})}), "");
}

TEST(Movement, ReshapeThatOnlyMergesAxesNeedsNoDivision) {
  te::DagBuilder b("r");
  const ir::Buffer x = b.input("x", DType::kF32, {4, 6, 5});
  const Attrs attrs{{"shape", Shape{4, 2, 3, 5}}};
  const TensorType type{DType::kF32, {4, 6, 5}};
  const NodeView node{attrs, {&type}, {nullptr}};
  const auto out = find_op("reshape")->define(b, "y", node, {x});
  ASSERT_TRUE(out.ok());
  const std::string text = te::to_text(b.build(*out));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("//")));
  EXPECT_THAT(text, HasSubstr("i1 * 3 + i2"));
}

TEST(Movement, Transpose) {
  Rng rng(2);
  for (const DType t : {DType::kBool, DType::kF16, DType::kI32, DType::kF64}) {
    const HostTensor x = random_tensor(t, {3, 2, 4, 5}, rng);
    for (const Integers& perm : {Integers{3, 2, 1, 0}, Integers{0, 2, 3, 1}, Integers{2, 0, 1, 3},
                                 Integers{1, 0, 3, 2}, Integers{0, 1, 2, 3}})
      expect_agreement("transpose", {{"perm", perm}}, {x});
  }
  // Larger than one block of the copy in both directions.
  expect_agreement("transpose", {{"perm", Integers{2, 1, 0}}}, {counting({70, 2, 67})});
  EXPECT_NE(refusal("transpose", {{"perm", Integers{0, 0}}}, {counting({2, 3})}), "");
  EXPECT_NE(refusal("transpose", {{"perm", Integers{0}}}, {counting({2, 3})}), "");
  EXPECT_NE(refusal("transpose", {{"perm", Integers{0, -1}}}, {counting({2, 3})}), "");
}

TEST(Movement, Expand) {
  const auto y = expect_agreement("expand", {{"shape", Shape{2, 3, 2}}}, {counting({3, 1})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2));
  expect_agreement("expand", {{"shape", Shape{4}}}, {counting({})});
  EXPECT_NE(refusal("expand", {{"shape", Shape{4}}}, {counting({3})}), "");
  EXPECT_NE(refusal("expand", {{"shape", Shape{4}}}, {counting({1, 4})}), "");
}

TEST(Movement, Slice) {
  const auto y = expect_agreement(
      "slice", {{"starts", Integers{1, 3}}, {"steps", Integers{1, -2}}, {"sizes", Integers{2, 2}}},
      {counting({3, 4}, DType::kI64)});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(7, 5, 11, 9));
  // A step of one element may be anything.
  expect_agreement(
      "slice", {{"starts", Integers{2}}, {"steps", Integers{INT64_MIN}}, {"sizes", Integers{1}}},
      {counting({3})});
  const auto slice = [](Integers start, Integers step, Integers size) {
    return refusal("slice", {{"starts", start}, {"steps", step}, {"sizes", size}}, {counting({4})});
  };
  EXPECT_EQ(slice({9}, {1}, {0}), "");
  EXPECT_NE(slice({2}, {1}, {3}), "");
  EXPECT_NE(slice({-1}, {1}, {1}), "");
  EXPECT_NE(slice({1}, {INT64_MAX}, {3}), "");
  EXPECT_NE(slice({1}, {-1}, {3}), "");
  EXPECT_NE(slice({1, 1}, {1, 1}, {1, 1}), "");
}

TEST(Movement, ConcatSkipsEmptyParts) {
  Rng rng(3);
  std::vector<HostTensor> parts;
  for (const std::int64_t n : {2, 0, 1, 3, 1})
    parts.push_back(random_tensor(DType::kI8, {2, n, 3}, rng));
  const auto y = expect_agreement("concat", {{"axis", std::int64_t{1}}}, parts);
  EXPECT_EQ(y.at(0).shape(), (Shape{2, 7, 3}));
  const Attrs axis{{"axis", std::int64_t{1}}};
  EXPECT_NE(refusal("concat", axis, {counting({2, 3}), counting({3, 3})}), "");
  EXPECT_NE(refusal("concat", axis, {counting({2, 3}), counting({2, 3}, DType::kI32)}), "");
  EXPECT_NE(refusal("concat", axis, {counting({2})}), "");
}

TEST(Movement, PadModes) {
  const auto pad = [](const char* mode, std::int64_t before, std::int64_t after) {
    return values_of(
        expect_agreement(
            "pad",
            {{"mode", std::string(mode)}, {"before", Integers{before}}, {"after", Integers{after}}},
            {counting({3})})
            .at(0));
  };
  EXPECT_THAT(pad("constant", 1, 2), ElementsAre(0, 0, 1, 2, 0, 0));
  EXPECT_THAT(pad("edge", 2, 1), ElementsAre(0, 0, 0, 1, 2, 2));
  EXPECT_THAT(pad("reflect", 2, 2), ElementsAre(2, 1, 0, 1, 2, 1, 0));
  EXPECT_THAT(pad("wrap", 2, 3), ElementsAre(1, 2, 0, 1, 2, 0, 1, 2));
  // Longer than the tensor itself.
  EXPECT_THAT(pad("reflect", 0, 5), ElementsAre(0, 1, 2, 1, 0, 1, 2, 1));
  EXPECT_THAT(pad("wrap", 4, 0), ElementsAre(2, 0, 1, 2, 0, 1, 2));
}

TEST(Movement, PadOfEmptyAndSingleAxes) {
  const Attrs attrs{
      {"mode", std::string("constant")}, {"before", Integers{1, 0}}, {"after", Integers{0, 1}}};
  const auto y = expect_agreement("pad", attrs, {counting({0, 2}), floats({}, {7})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(7, 7, 7));
  for (const char* mode : {"reflect", "edge", "wrap"}) {
    const Attrs one{{"mode", std::string(mode)}, {"before", Integers{2}}, {"after", Integers{1}}};
    expect_agreement("pad", one, {ints({1}, {5})});
    EXPECT_NE(refusal("pad", one, {ints({0}, {})}), "") << mode;
  }
  EXPECT_NE(refusal("pad", attrs, {counting({2, 2}), counting({}, DType::kI32)}), "");
  EXPECT_NE(refusal("pad",
                    {{"mode", std::string("constant")},
                     {"before", Integers{INT64_MAX}},
                     {"after", Integers{INT64_MAX}}},
                    {counting({2})}),
            "");
}

}  // namespace
}  // namespace tessera::graph
