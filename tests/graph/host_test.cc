#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/node_runner.h"

namespace tessera::graph {
namespace {

using testing::counting;
using ::testing::ElementsAre;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::refusal;
using testing::run_node;
using testing::Tensors;
using testing::values_of;

Tensors run(const std::string& op, const Attrs& attrs, const Tensors& inputs) {
  const auto result = run_node(op, attrs, inputs);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? *result : Tensors{};
}

Attrs topk_attrs(std::int64_t axis, std::int64_t k, bool largest) {
  return {{"axis", axis}, {"k", k}, {"largest", std::int64_t{largest}}};
}

TEST(Host, TopkBreaksTiesByIndex) {
  const Tensors y = run("topk", topk_attrs(1, 3, true), {floats({1, 5}, {1, 3, 3, -0.0, 0})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(3, 3, 1));
  EXPECT_THAT(values_of(y[1]), ElementsAre(1, 2, 0));
  const Tensors z = run("topk", topk_attrs(0, 2, false), {floats({3, 2}, {0, 5, -0.0, 4, 1, 4})});
  EXPECT_THAT(values_of(z.at(1)), ElementsAre(0, 1, 1, 2));
}

TEST(Host, TopkOrdersNanAndUnsigned) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const HostTensor x = floats({4}, {nan, -inf, inf, 2}, DType::kF16);
  EXPECT_THAT(values_of(run("topk", topk_attrs(0, 4, true), {x}).at(1)), ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(values_of(run("topk", topk_attrs(0, 4, false), {x}).at(1)), ElementsAre(1, 3, 2, 0));
  const HostTensor u = ints({2}, {1, -1}, DType::kU64);
  EXPECT_THAT(values_of(run("topk", topk_attrs(0, 1, true), {u}).at(1)), ElementsAre(1));
}

TEST(Host, TopkOfNothing) {
  EXPECT_EQ(run("topk", topk_attrs(1, 0, true), {counting({2, 3})}).at(0).shape(), (Shape{2, 0}));
  EXPECT_EQ(run("topk", topk_attrs(1, 2, true), {counting({0, 3})}).at(0).shape(), (Shape{0, 2}));
  EXPECT_THAT(refusal("topk", topk_attrs(0, 4, true), {counting({3})}), HasSubstr("best 4 of 3"));
  EXPECT_NE(refusal("topk", topk_attrs(0, -1, true), {counting({3})}), "");
}

TEST(Host, ScatterElementsCombines) {
  const HostTensor x = floats({4}, {1, 2, 3, 4}), at = ints({3}, {1, -3, 3}),
                   updates = floats({3}, {5, 1, 3});
  const auto scatter = [&](const char* reduction) {
    const Attrs attrs{{"axis", std::int64_t{0}}, {"reduction", std::string(reduction)}};
    return values_of(run("scatter_elements", attrs, {x, at, updates}).at(0));
  };
  EXPECT_THAT(scatter("none"), ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(scatter("add"), ElementsAre(1, 8, 3, 7));
  EXPECT_THAT(scatter("mul"), ElementsAre(1, 10, 3, 12));
  EXPECT_THAT(scatter("min"), ElementsAre(1, 1, 3, 3));
  EXPECT_THAT(scatter("max"), ElementsAre(1, 5, 3, 4));
  const Attrs bad{{"axis", std::int64_t{0}}, {"reduction", std::string("mean")}};
  EXPECT_THAT(refusal("scatter_elements", bad, {x, at, updates}), HasSubstr("mean"));
  const Attrs none{{"axis", std::int64_t{0}}, {"reduction", std::string("none")}};
  EXPECT_NE(refusal("scatter_elements", none, {x, ints({3}, {0, 4, 0}), updates}), "");
  EXPECT_FALSE(run_node("scatter_elements", none, {x, ints({1}, {9}), floats({1}, {0})}).ok());
}

TEST(Host, ScatterNdWritesSlices) {
  const Attrs add{{"reduction", std::string("add")}};
  const Tensors y = run("scatter_nd", add,
                        {counting({3, 2}, DType::kI32), ints({2, 1}, {0, -3}),
                         ints({2, 2}, {10, 20, 1, 2}, DType::kI32)});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(11, 23, 2, 3, 4, 5));
  EXPECT_NE(refusal("scatter_nd", add, {counting({3, 2}), ints({1, 3}, {0, 0, 0}), counting({1})}),
            "");
  EXPECT_NE(refusal("scatter_nd", add, {counting({3, 2}), ints({1, 1}, {0}), counting({1})}), "");
  EXPECT_FALSE(run_node("scatter_nd", add, {counting({3}), ints({1, 1}, {3}), counting({1})}).ok());
}

TEST(Host, NonzeroOfAnyRank) {
  const Tensors y = run("nonzero", {}, {floats({2, 2}, {0, -1, std::nan(""), 0})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(run("nonzero", {}, {floats({}, {3})}).at(0).shape(), (Shape{1, 1}));
  EXPECT_EQ(run("nonzero", {}, {counting({0, 2})}).at(0).shape(), (Shape{2, 0}));
}

TEST(Host, UniqueInOrderOfAppearance) {
  const Attrs attrs{{"sorted", std::int64_t{0}}};
  const Tensors y = run("unique", attrs, {ints({2, 3}, {5, 2, 5, 2, 9, 5})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(5, 2, 9));
  EXPECT_THAT(values_of(y[1]), ElementsAre(0, 1, 4));
  EXPECT_THAT(values_of(y[2]), ElementsAre(0, 1, 0, 1, 2, 0));
  EXPECT_THAT(values_of(y[3]), ElementsAre(3, 2, 1));
  const Tensors none = run("unique", attrs, {ints({0}, {})});
  EXPECT_EQ(none.at(0).shape(), (Shape{0}));
}

Attrs nms_attrs(std::int64_t most, double iou) {
  return {{"max_per_class", most},
          {"iou_threshold", iou},
          {"score_threshold", 0.0},
          {"center_point_box", std::int64_t{0}}};
}

TEST(Host, SuppressionKeepsOverlapAtTheThreshold) {
  const HostTensor boxes = floats({1, 3, 4}, {0, 0, 1, 2, 0, 1, 1, 3, 0, 0, 1, 2});
  const HostTensor scores = floats({1, 1, 3}, {0.5, 0.9, 0.5});
  // Boxes 0 and 1 share 1 of 3; boxes 0 and 2 are equal, so the earlier one stays.
  Tensors y = run("non_max_suppression", nms_attrs(9, 1.0 / 3), {boxes, scores});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(0, 0, 1, 0, 0, 0));
  y = run("non_max_suppression", nms_attrs(9, 0.3), {boxes, scores});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(0, 0, 1));
  EXPECT_EQ(run("non_max_suppression", nms_attrs(0, 0.3), {boxes, scores}).at(0).shape(),
            (Shape{0, 3}));
  EXPECT_NE(refusal("non_max_suppression", nms_attrs(1, 0), {counting({1, 3, 3}), scores}), "");
}

Attrs roi_attrs(std::int64_t ratio, const char* mode) {
  return {{"height", std::int64_t{1}}, {"width", std::int64_t{2}},
          {"sampling_ratio", ratio},   {"spatial_scale", 1.0},
          {"mode", std::string(mode)}, {"half_pixel", std::int64_t{1}}};
}

TEST(Host, RoiAlignSamplesBetweenPixels) {
  const HostTensor x = counting({1, 1, 4, 4});
  const HostTensor roi = floats({1, 4}, {1, 1, 3, 2}), image = ints({1}, {0});
  // Bins [0.5, 1.5] and [1.5, 2.5] by [0.5, 1.5]; their middles are the pixels (1, 1) and (1, 2).
  EXPECT_THAT(values_of(run("roi_align", roi_attrs(1, "avg"), {x, roi, image}).at(0)),
              ElementsAre(5, 6));
  EXPECT_THAT(values_of(run("roi_align", roi_attrs(1, "max"), {x, roi, image}).at(0)),
              ElementsAre(5, 6));
  EXPECT_FALSE(run_node("roi_align", roi_attrs(1, "avg"), {x, roi, ints({1}, {1})}).ok());
  const HostTensor huge = floats({1, 4}, {-1e30, -1e30, 1e30, 1e30});
  EXPECT_FALSE(run_node("roi_align", roi_attrs(0, "avg"), {x, huge, image}).ok());
  const HostTensor odd = floats({1, 4}, {std::nan(""), 0, 1, 1});
  EXPECT_TRUE(run_node("roi_align", roi_attrs(0, "avg"), {x, odd, image}).ok());
}

TEST(Host, RoiMaxOfEmptyBinIsZero) {
  const Attrs attrs{
      {"height", std::int64_t{1}}, {"width", std::int64_t{2}}, {"spatial_scale", 0.5}};
  const HostTensor x = counting({1, 1, 4, 4});
  const Tensors y = run("roi_max", attrs, {x, floats({2, 5}, {0, 0, 2, 6, 6, 0, 40, 0, 44, 0})});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(13, 15, 0, 0));
  EXPECT_FALSE(run_node("roi_max", attrs, {x, floats({1, 5}, {1, 0, 0, 1, 1})}).ok());
}

}  // namespace
}  // namespace tessera::graph
