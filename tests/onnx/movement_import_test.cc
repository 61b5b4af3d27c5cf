#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node_model.h"

namespace tessera::onnx {
namespace {

using testing::attr;
using testing::counting;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::list;
using testing::NodeCase;
using testing::operators_of;
using testing::refusal;
using testing::run_case;
using testing::values_of;
using Integers = std::vector<std::int64_t>;

Shape reshaped(const Shape& x, const Integers& shape, std::int64_t allow_zero = 0) {
  return run_case({.op = "Reshape",
                   .attributes = {attr("allowzero", allow_zero)},
                   .inputs = {counting(x)},
                   .constants = {list(shape)}})
      .at(0)
      .shape();
}

TEST(ImportReshape, ResolvesSpecialDimensions) {
  EXPECT_EQ(reshaped({2, 3, 4}, {0, -1}), (Shape{2, 12}));
  EXPECT_EQ(reshaped({0, 4}, {0, -1}), (Shape{0, 4}));
  EXPECT_EQ(reshaped({0, 4}, {-1, 4}), (Shape{0, 4}));
  EXPECT_EQ(reshaped({0, 4}, {4, 0}, 1), (Shape{4, 0}));
  EXPECT_EQ(reshaped({1}, {}), (Shape{}));
}

TEST(ImportReshape, RefusesWhatDoesNotFit) {
  const auto refused = [](const Integers& shape, std::int64_t allow_zero = 0) {
    return refusal({.op = "Reshape",
                    .attributes = {attr("allowzero", allow_zero)},
                    .inputs = {counting({2, 3})},
                    .constants = {list(shape)}});
  };
  EXPECT_THAT(refused({-1, -1}), HasSubstr("more than one"));
  EXPECT_THAT(refused({4, -1}), HasSubstr("has no value"));
  EXPECT_THAT(refused({0, 0, 0}), HasSubstr("rank 2"));
  EXPECT_THAT(refused({0, -1}, 1), HasSubstr("has no value"));
  EXPECT_THAT(refused({-2, 3}), HasSubstr("-2"));
  EXPECT_NE(refused({INT64_MAX, INT64_MAX}), "");
  EXPECT_NE(refused({7}), "");
}

TEST(ImportTranspose, RefusesWhatIsNoPermutation) {
  for (const Integers& perm :
       {Integers{0, 0}, Integers{1, 2}, Integers{INT64_MIN, 0}, Integers{0}}) {
    EXPECT_NE(
        refusal(
            {.op = "Transpose", .attributes = {attr("perm", perm)}, .inputs = {counting({2, 3})}}),
        "")
        << perm[0];
  }
}

TEST(ImportReshape, OfOpset1TakesAnAttribute) {
  const auto y = run_case({.op = "Reshape",
                           .opset = 4,
                           .attributes = {attr("shape", Integers{3, -1})},
                           .inputs = {counting({2, 3})}});
  EXPECT_EQ(y.at(0).shape(), (Shape{3, 2}));
}

TEST(ImportSqueeze, AxesByAttributeAndByInput) {
  EXPECT_EQ(run_case({.op = "Squeeze",
                      .opset = 11,
                      .attributes = {attr("axes", Integers{-3})},
                      .inputs = {counting({1, 2, 1})}})
                .at(0)
                .shape(),
            (Shape{2, 1}));
  EXPECT_EQ(run_case({.op = "Squeeze", .inputs = {counting({1, 2, 1})}}).at(0).shape(), Shape{2});
  EXPECT_EQ(run_case({.op = "Unsqueeze",
                      .opset = 11,
                      .attributes = {attr("axes", Integers{3, 0})},
                      .inputs = {counting({2, 3})}})
                .at(0)
                .shape(),
            (Shape{1, 2, 3, 1}));
  EXPECT_EQ(run_case({.op = "Unsqueeze", .inputs = {counting({})}, .constants = {list({-1})}})
                .at(0)
                .shape(),
            Shape{1});
  EXPECT_NE(refusal({.op = "Squeeze", .inputs = {counting({2})}, .constants = {list({0})}}), "");
  EXPECT_NE(refusal({.op = "Unsqueeze", .inputs = {counting({2})}, .constants = {list({0, 0})}}),
            "");
  EXPECT_NE(refusal({.op = "Unsqueeze", .inputs = {counting({2})}, .constants = {list({2, 3})}}),
            "");
}

TEST(ImportTile, RepeatsBlocks) {
  const auto tiled = [](const Integers& repeats) {
    return run_case({.op = "Tile", .inputs = {counting({2, 1, 2})}, .constants = {list(repeats)}})
        .at(0);
  };
  EXPECT_THAT(values_of(tiled({1, 2, 2})),
              ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3));
  EXPECT_EQ(tiled({2, 0, 1}).shape(), (Shape{4, 0, 2}));
  EXPECT_EQ(tiled({0, 1, 3}).shape(), (Shape{0, 1, 6}));
  EXPECT_NE(refusal({.op = "Tile", .inputs = {counting({2})}, .constants = {list({-1})}}), "");
  EXPECT_NE(refusal({.op = "Tile", .inputs = {counting({2})}, .constants = {list({INT64_MAX})}}),
            "");
  EXPECT_THAT(values_of(run_case({.op = "Tile",
                                  .opset = 5,
                                  .inputs = {counting({2})},
                                  .constants = {testing::int_tensor({}, {2}),
                                                testing::int_tensor({}, {0})}})
                            .at(0)),
              ElementsAre(0, 1, 0, 1));
}

std::vector<double> sliced(const Integers& starts, const Integers& ends, const Integers& axes,
                           const Integers& steps) {
  return values_of(run_case({.op = "Slice",
                             .inputs = {counting({5})},
                             .constants = {list(starts), list(ends), list(axes), list(steps)}})
                       .at(0));
}

TEST(ImportSlice, ClampsBounds) {
  EXPECT_THAT(sliced({1}, {INT64_MAX}, {0}, {2}), ElementsAre(1, 3));
  EXPECT_THAT(sliced({-2}, {100}, {-1}, {1}), ElementsAre(3, 4));
  EXPECT_THAT(sliced({INT64_MAX}, {INT64_MIN}, {0}, {-2}), ElementsAre(4, 2, 0));
  EXPECT_THAT(sliced({3}, {0}, {0}, {-1}), ElementsAre(3, 2, 1));
  EXPECT_THAT(sliced({3}, {1}, {0}, {1}), ElementsAre());
  EXPECT_THAT(sliced({1}, {3}, {0}, {INT64_MAX}), ElementsAre(1));
  EXPECT_THAT(sliced({3}, {INT64_MIN}, {0}, {INT64_MIN}), ElementsAre(3));
}

TEST(ImportSlice, OfOpset1AndOfEmptyTensors) {
  const auto y = run_case(
      {.op = "Slice",
       .opset = 9,
       .attributes = {attr("starts", Integers{0, -1}), attr("ends", Integers{1, INT64_MAX})},
       .inputs = {counting({2, 3})}});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(2));
  EXPECT_EQ(run_case({.op = "Slice",
                      .inputs = {counting({0, 2})},
                      .constants = {list({0}), list({INT64_MAX})}})
                .at(0)
                .shape(),
            (Shape{0, 2}));
}

TEST(ImportSlice, Refuses) {
  const auto refused = [](const Integers& starts, const Integers& axes, const Integers& steps) {
    return refusal({.op = "Slice",
                    .inputs = {counting({5})},
                    .constants = {list(starts), list({2, 2}), list(axes), list(steps)}});
  };
  EXPECT_THAT(refused({0, 0}, {0, 0}, {1, 1}), HasSubstr("twice"));
  EXPECT_THAT(refused({0, 0}, {0, 1}, {1, 1}), HasSubstr("rank 1"));
  EXPECT_THAT(refused({0, 0}, {0, 1}, {0, 1}), HasSubstr("zero"));
  EXPECT_THAT(refused({0}, {0, 1}, {1, 1}), HasSubstr("one length"));
  const auto unknown =
      testing::import_case({.op = "Slice", .inputs = {counting({5}), list({0}), list({1})}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kDataDependent);
}

TEST(ImportSplit, InEveryForm) {
  const auto sizes = [](const NodeCase& c) {
    Integers list;
    for (const HostTensor& part : run_case(c)) list.push_back(part.shape()[0]);
    return list;
  };
  const HostTensor x = counting({7});
  EXPECT_THAT(sizes({.op = "Split",
                     .opset = 11,
                     .attributes = {attr("split", Integers{3, 0, 4})},
                     .inputs = {x},
                     .outputs = 3}),
              ElementsAre(3, 0, 4));
  EXPECT_THAT(sizes({.op = "Split", .inputs = {x}, .constants = {list({6, 1})}, .outputs = 2}),
              ElementsAre(6, 1));
  EXPECT_THAT(sizes({.op = "Split",
                     .opset = 18,
                     .attributes = {attr("num_outputs", std::int64_t{3})},
                     .inputs = {x},
                     .outputs = 3}),
              ElementsAre(3, 3, 1));
  EXPECT_THAT(refusal({.op = "Split", .inputs = {x}, .outputs = 2}), HasSubstr("equal parts"));
  EXPECT_NE(refusal({.op = "Split", .inputs = {x}, .constants = {list({6, 2})}, .outputs = 2}), "");
  EXPECT_NE(refusal({.op = "Split", .inputs = {x}, .constants = {list({3, 3})}, .outputs = 2}), "");
  EXPECT_NE(refusal({.op = "Split", .inputs = {x}, .constants = {list({9, -2})}, .outputs = 2}),
            "");
}

TEST(ImportConcat, DefaultAxisOfOpset1) {
  EXPECT_EQ(run_case({.op = "Concat", .opset = 3, .inputs = {counting({2, 1}), counting({2, 2})}})
                .at(0)
                .shape(),
            (Shape{2, 3}));
  EXPECT_NE(refusal({.op = "Concat", .opset = 4, .inputs = {counting({2, 1}), counting({2, 2})}}),
            "");
}

TEST(ImportPad, OldForms) {
  const auto y = run_case({.op = "Pad",
                           .opset = 2,
                           .attributes = {attr("pads", Integers{1, 0}), attr("value", 9.0f)},
                           .inputs = {counting({2})}});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(9, 0, 1));
  EXPECT_THAT(values_of(run_case({.op = "Pad",
                                  .opset = 1,
                                  .attributes = {attr("paddings", Integers{0, 1})},
                                  .inputs = {counting({2})}})
                            .at(0)),
              ElementsAre(0, 1, 0));
}

TEST(ImportPad, NegativePadsCropAndAxesSelect) {
  const auto y =
      run_case({.op = "Pad",
                .opset = 18,
                .inputs = {counting({2, 4})},
                .constants = {list({-1, 2}), testing::float_tensor({}, {5}), list({1})}});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(1, 2, 3, 5, 5, 5, 6, 7, 5, 5));
  EXPECT_THAT(values_of(run_case({.op = "Pad",
                                  .opset = 19,
                                  .attributes = {attr("mode", std::string("wrap"))},
                                  .inputs = {counting({3}, DType::kI64)},
                                  .constants = {list({2, 1})}})
                            .at(0)),
              ElementsAre(1, 2, 0, 1, 2, 0));
  EXPECT_NE(refusal({.op = "Pad", .inputs = {counting({3})}, .constants = {list({-2, -2})}}), "");
  EXPECT_NE(refusal({.op = "Pad", .inputs = {counting({3})}, .constants = {list({INT64_MIN, 0})}}),
            "");
  EXPECT_NE(refusal({.op = "Pad", .inputs = {counting({3})}, .constants = {list({1})}}), "");
}

TEST(ImportCenterCropPad, SplitsTheDifference) {
  const auto y = run_case({.op = "CenterCropPad",
                           .opset = 18,
                           .attributes = {attr("axes", Integers{-1})},
                           .inputs = {counting({1, 4})},
                           .constants = {list({7})}});
  EXPECT_THAT(values_of(y.at(0)), ElementsAre(0, 0, 1, 2, 3, 0, 0));
  EXPECT_THAT(values_of(run_case({.op = "CenterCropPad",
                                  .opset = 18,
                                  .inputs = {counting({6})},
                                  .constants = {list({3})}})
                            .at(0)),
              ElementsAre(1, 2, 3));
}

TEST(ImportMovement, NoNodeWhereNothingMoves) {
  const HostTensor x = counting({2, 3});
  EXPECT_THAT(operators_of({.op = "Slice", .inputs = {x}, .constants = {list({0}), list({9})}}),
              ElementsAre());
  EXPECT_THAT(operators_of({.op = "Expand", .inputs = {x}, .constants = {list({1, 1})}}),
              ElementsAre());
  EXPECT_THAT(operators_of({.op = "Pad", .inputs = {x}, .constants = {list({0, 0, 0, 0})}}),
              ElementsAre());
  EXPECT_THAT(operators_of({.op = "Tile", .inputs = {x}, .constants = {list({1, 1})}}),
              ElementsAre());
}

TEST(ImportSpaceToDepth, BothOrdersOfChannels) {
  const auto run = [](const char* mode) {
    return values_of(run_case(
        {.op = "SpaceToDepth",
         .opset = 28,
         .attributes = {attr("blocksize", std::int64_t{2}), attr("mode", std::string(mode))},
         .inputs = {counting({1, 2, 2, 2})}})[0]);
  };
  EXPECT_EQ(run("DCR"), (std::vector<double>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(run("CRD"), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_NE(
      refusal({.op = "SpaceToDepth",
               .attributes = {attr("blocksize", std::int64_t{2}), attr("mode", std::string("D"))},
               .inputs = {counting({1, 2, 2, 2})}})
          .find("mode 'D'"),
      std::string::npos);
}

}  // namespace
}  // namespace tessera::onnx
