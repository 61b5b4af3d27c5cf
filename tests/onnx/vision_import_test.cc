#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_model.h"

namespace tessera::onnx {
namespace {

using testing::attr;
using testing::counting;
using ::testing::ElementsAre;
using testing::float_tensor;
using ::testing::HasSubstr;
using testing::list;
using testing::NodeCase;
using testing::operators_of;
using testing::refusal;
using testing::run_case;
using testing::values_of;
using Integers = std::vector<std::int64_t>;

HostTensor scales(const std::vector<double>& values) {
  return float_tensor({static_cast<std::int64_t>(values.size())}, values);
}

void expect_near(const HostTensor& got, const Shape& shape, const std::vector<double>& want) {
  EXPECT_EQ(tessera::testing::mismatch(got, float_tensor(shape, want),
                                       tessera::testing::tolerance(DType::kF32, 16)),
            "");
}

// X, no roi, scales.
NodeCase by_scales(const HostTensor& x, const std::vector<double>& factors,
                   std::vector<Attribute> attributes, std::int64_t opset = 19) {
  return {.op = "Resize",
          .opset = opset,
          .attributes = std::move(attributes),
          .inputs = {x},
          .constants = {scales(factors)},
          .omitted_before = 1};
}

// X, no roi, no scales, sizes.
NodeCase by_sizes(const HostTensor& x, const Integers& sizes, std::vector<Attribute> attributes) {
  return {.op = "Resize",
          .opset = 19,
          .attributes = std::move(attributes),
          .inputs = {x},
          .constants = {list(sizes)},
          .omitted_before = 2};
}

Attribute word(const char* name, const char* value) { return attr(name, std::string(value)); }

TEST(ImportResize, NearestByWholeFactorsIsIndexArithmetic) {
  const HostTensor x = counting({1, 1, 2, 4});
  EXPECT_THAT(operators_of(by_scales(x, {1, 1, 2, 3}, {})), ElementsAre("upsample"));
  EXPECT_THAT(operators_of(by_scales(x, {1, 1, 1, 0.5},
                                     {word("coordinate_transformation_mode", "asymmetric"),
                                      word("nearest_mode", "floor")})),
              ElementsAre("slice"));
  EXPECT_THAT(operators_of(by_scales(x, {1, 1, 1, 1.5}, {})), ElementsAre("resize"));
  EXPECT_THAT(operators_of(by_scales(x, {1, 1, 1, 1}, {word("mode", "linear")})), ElementsAre());
}

TEST(ImportResize, ScalesOfSinglePrecision) {
  // 1 / 0.33333334 is less than 3 unless it is taken as the quotient of the sizes.
  const NodeCase c = by_scales(
      counting({9}), {0.33333334},
      {word("coordinate_transformation_mode", "asymmetric"), word("nearest_mode", "floor")});
  EXPECT_THAT(values_of(run_case(c).at(0)), ElementsAre(0, 3, 6));
}

TEST(ImportResize, LinearIsOneStepCubicOnePerAxis) {
  const HostTensor x = counting({1, 1, 4, 4});
  EXPECT_THAT(operators_of(by_scales(x, {1, 1, 2, 2}, {word("mode", "linear")})),
              ElementsAre("resize"));
  EXPECT_THAT(operators_of(by_scales(x, {1, 1, 2, 2}, {word("mode", "cubic")})),
              ElementsAre("resize", "resize"));
}

TEST(ImportResize, Antialias) {
  const HostTensor x = counting({1, 1, 4, 4}, DType::kF32, 1);
  const Attribute on = attr("antialias", std::int64_t{1});
  expect_near(run_case(by_scales(x, {1, 1, 0.6, 0.6}, {word("mode", "linear"), on})).at(0),
              {1, 1, 2, 2}, {2.875, 4.5, 9.375, 11});
  expect_near(run_case(by_scales(x, {1, 1, 0.6, 0.6}, {word("mode", "cubic"), on})).at(0),
              {1, 1, 2, 2}, {2.5180721, 4.2858863, 9.589329, 11.357142});
  expect_near(
      run_case(by_sizes(x, {1, 1, 3, 3}, {word("mode", "linear"), on})).at(0), {1, 1, 3, 3},
      {2.3636363, 3.590909, 4.818182, 7.2727275, 8.5, 9.727273, 12.181818, 13.409091, 14.636364});
}

TEST(ImportResize, HalfPixelSymmetric) {
  const Attribute symmetric = word("coordinate_transformation_mode", "half_pixel_symmetric");
  expect_near(run_case(by_scales(counting({1, 1, 1, 4}, DType::kF32, 1), {1, 1, 1, 0.6},
                                 {word("mode", "linear"), symmetric}))
                  .at(0),
              {1, 1, 1, 2}, {1.6666667, 3.3333333});
  expect_near(run_case(by_scales(counting({1, 2}, DType::kF32, 1), {1, 2.94},
                                 {word("mode", "linear"), symmetric}))
                  .at(0),
              {1, 5}, {1, 1.15986395, 1.5, 1.84013605, 2});
}

TEST(ImportResize, KeepsTheAspectRatio) {
  const HostTensor x = counting({1, 1, 2, 2});
  const auto shape = [&](const char* policy) {
    return run_case(
               by_sizes(x, {7, 8},
                        {attr("axes", Integers{2, 3}), word("keep_aspect_ratio_policy", policy)}))
        .at(0)
        .shape();
  };
  EXPECT_EQ(shape("not_larger"), (Shape{1, 1, 7, 7}));
  EXPECT_EQ(shape("not_smaller"), (Shape{1, 1, 8, 8}));
  EXPECT_EQ(shape("stretch"), (Shape{1, 1, 7, 8}));
  EXPECT_NE(
      refusal(by_sizes(x, {7, 8},
                       {attr("axes", Integers{2, 3}), word("keep_aspect_ratio_policy", "fit")})),
      "");
}

TEST(ImportResize, ExtrapolatesOutsideTheRegion) {
  const NodeCase c{.op = "Resize",
                   .opset = 13,
                   .attributes = {word("mode", "linear"),
                                  word("coordinate_transformation_mode", "tf_crop_and_resize"),
                                  attr("extrapolation_value", 9.0f)},
                   .inputs = {counting({3})},
                   .constants = {scales({0.5, 1.5}), scales({}), list({3})}};
  EXPECT_THAT(values_of(run_case(c).at(0)), ElementsAre(1, 2, 9));
}

TEST(ImportResize, OtherElementTypes) {
  const std::vector<Attribute> linear = {word("mode", "linear"),
                                         word("coordinate_transformation_mode", "asymmetric")};
  const auto bytes = run_case(by_scales(counting({3}, DType::kU8, 10), {2}, linear));
  EXPECT_THAT(values_of(bytes.at(0)), ElementsAre(10, 10, 11, 11, 12, 12));
  const auto halves = run_case(by_scales(counting({2}, DType::kF16), {2}, linear));
  EXPECT_THAT(values_of(halves.at(0)), ElementsAre(0, 0.5, 1, 1));
  const auto doubles = run_case(by_scales(counting({2}, DType::kF64), {2}, linear));
  EXPECT_THAT(values_of(doubles.at(0)), ElementsAre(0, 0.5, 1, 1));
}

TEST(ImportResize, OddSizes) {
  EXPECT_EQ(run_case(by_sizes(counting({1, 3}), {1, 0}, {})).at(0).shape(), (Shape{1, 0}));
  EXPECT_EQ(run_case(by_sizes(counting({0, 3}), {0, 2}, {})).at(0).shape(), (Shape{0, 2}));
  EXPECT_NE(refusal(by_sizes(counting({0, 3}), {1, 3}, {})), "");
  EXPECT_NE(refusal(by_sizes(counting({3}), {-1}, {})), "");
  EXPECT_NE(refusal(by_sizes(counting({3}), {INT64_MAX}, {})), "");
  EXPECT_THAT(refusal(by_sizes(counting({3}), {std::int64_t{1} << 40}, {})), HasSubstr("weights"));
  EXPECT_NE(refusal(by_sizes(counting({3}), {1, 1}, {})), "");
  EXPECT_NE(refusal(by_scales(counting({3}), {NAN}, {})), "");
  EXPECT_NE(refusal(by_scales(counting({3}), {-1}, {})), "");
  EXPECT_NE(refusal(by_scales(counting({3}), {1e30}, {})), "");
  EXPECT_NE(refusal({.op = "Resize", .inputs = {counting({3})}}), "");
  EXPECT_THAT(refusal(by_scales(counting({3}), {2}, {word("mode", "area")})), HasSubstr("area"));
  EXPECT_NE(refusal(by_scales(counting({3}), {2}, {word("nearest_mode", "up")})), "");
  EXPECT_NE(
      refusal(by_scales(counting({3}), {2}, {word("coordinate_transformation_mode", "centre")})),
      "");
}

TEST(ImportUpsample, AllVersions) {
  const NodeCase attribute{.op = "Upsample",
                           .opset = 7,
                           .attributes = {attr("scales", std::vector<float>{1, 2})},
                           .inputs = {counting({1, 2})}};
  EXPECT_THAT(values_of(run_case(attribute).at(0)), ElementsAre(0, 0, 1, 1));
  for (const auto& [op, opset] : {std::pair("Upsample", 9), std::pair("Resize", 10)}) {
    const NodeCase input{.op = op,
                         .opset = opset,
                         .attributes = {word("mode", "linear")},
                         .inputs = {counting({1, 2})},
                         .constants = {scales({1, 2})}};
    EXPECT_THAT(values_of(run_case(input).at(0)), ElementsAre(0, 0.5, 1, 1));
  }
}

TEST(ImportAffineGrid, IdentityGivesPixelCentres) {
  const NodeCase c{.op = "AffineGrid",
                   .opset = 20,
                   .inputs = {float_tensor({1, 2, 3}, {1, 0, 0, 0, 1, 0})},
                   .constants = {list({1, 1, 2, 1})}};
  EXPECT_THAT(values_of(run_case(c).at(0)), ElementsAre(0, -0.5, 0, 0.5));
  EXPECT_NE(refusal({.op = "AffineGrid",
                     .opset = 20,
                     .inputs = {counting({1, 2, 3})},
                     .constants = {list({1, 1, 2, 2, 2})}}),
            "");
}

TEST(ImportCol2Im, PadsAndStrides) {
  const NodeCase c{.op = "Col2Im",
                   .opset = 18,
                   .attributes = {attr("pads", Integers{1, 1}), attr("strides", Integers{2})},
                   .inputs = {counting({1, 2, 2}, DType::kF32, 1)},
                   .constants = {list({2}), list({2})}};
  // Blocks start at -1 and 1: pixel 0 is the second of block 0, pixel 1 the first of block 1.
  EXPECT_THAT(values_of(run_case(c).at(0)), ElementsAre(3, 2));
}

}  // namespace
}  // namespace tessera::onnx
