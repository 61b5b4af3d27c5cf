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
using testing::import_case;
using testing::int_tensor;
using testing::list;
using testing::NodeCase;
using testing::operators_of;
using testing::refusal;
using testing::run_case;
using testing::values_of;

TEST(ImportGather, ConstantProgressionsAreSlices) {
  const auto gathered = [](const HostTensor& indices, std::int64_t axis) {
    return NodeCase{.op = "Gather",
                    .attributes = {attr("axis", axis)},
                    .inputs = {counting({3, 4})},
                    .constants = {indices}};
  };
  const NodeCase scalar = gathered(int_tensor({}, {-1}), 0);
  EXPECT_THAT(operators_of(scalar), ElementsAre("slice", "reshape"));
  EXPECT_THAT(values_of(run_case(scalar).at(0)), ElementsAre(8, 9, 10, 11));
  const NodeCase reversed = gathered(int_tensor({2, 1}, {3, 1}), 1);
  EXPECT_THAT(operators_of(reversed), ElementsAre("slice", "reshape"));
  EXPECT_THAT(values_of(run_case(reversed).at(0)), ElementsAre(3, 1, 7, 5, 11, 9));
  EXPECT_THAT(operators_of(gathered(list({0, 0}), 0)), ElementsAre("gather"));
  EXPECT_EQ(run_case(gathered(list({}), 0)).at(0).shape(), (Shape{0, 4}));
  EXPECT_THAT(refusal(gathered(list({3}), 0)), HasSubstr("index 3"));
  EXPECT_THAT(refusal(gathered(list({0}), 2)), HasSubstr("axis 2"));
}

TEST(ImportScatter, KnownPositionsNeedNoHost) {
  const HostTensor x = counting({4, 2}), updates = float_tensor({2, 2}, {-1, -2, -3, -4});
  const auto rows = [&](const std::vector<std::int64_t>& at) {
    return NodeCase{
        .op = "ScatterND", .inputs = {x}, .constants = {int_tensor({2, 1}, at), updates}};
  };
  EXPECT_THAT(operators_of(rows({1, 2})), ElementsAre("slice", "slice", "concat"));
  EXPECT_THAT(values_of(run_case(rows({1, 2})).at(0)), ElementsAre(0, 1, -1, -2, -3, -4, 6, 7));
  EXPECT_THAT(operators_of(rows({3, 0})), ElementsAre("concat", "gather"));
  EXPECT_THAT(values_of(run_case(rows({-1, 0})).at(0)), ElementsAre(-3, -4, 2, 3, 4, 5, -1, -2));
  EXPECT_THAT(values_of(run_case(rows({2, 2})).at(0)), ElementsAre(0, 1, 2, 3, -3, -4, 6, 7));
  EXPECT_THAT(refusal(rows({0, 4})), HasSubstr("index 4"));
  EXPECT_THAT(refusal(rows({0, -5})), HasSubstr("outside"));
  const NodeCase elements{
      .op = "ScatterElements",
      .attributes = {attr("axis", std::int64_t{-1})},
      .inputs = {x},
      .constants = {int_tensor({2, 1}, {1, -2}), float_tensor({2, 1}, {-7, -8})}};
  EXPECT_THAT(values_of(run_case(elements).at(0)), ElementsAre(0, -7, -8, 3, 4, 5, 6, 7));
}

TEST(ImportScatter, CombinesOnTheHost) {
  const auto scatter = [](const char* op, std::int64_t opset, const char* reduction) {
    return NodeCase{.op = op,
                    .opset = opset,
                    .attributes = {attr("reduction", std::string(reduction))},
                    .inputs = {counting({3}), int_tensor({2}, {1, 1}), float_tensor({2}, {5, 7})}};
  };
  EXPECT_THAT(values_of(run_case(scatter("ScatterElements", 16, "add")).at(0)),
              ElementsAre(0, 13, 2));
  EXPECT_THAT(values_of(run_case(scatter("ScatterElements", 18, "max")).at(0)),
              ElementsAre(0, 7, 2));
  EXPECT_THAT(operators_of(scatter("ScatterElements", 18, "min")), ElementsAre("scatter_elements"));
  EXPECT_NE(refusal(scatter("ScatterElements", 18, "mean")), "");
}

TEST(ImportOneHot, NegativePositionsByOpset) {
  const auto one_hot = [](std::int64_t opset) {
    return values_of(run_case({.op = "OneHot",
                               .opset = opset,
                               .inputs = {list({-1, 1, 3})},
                               .constants = {int_tensor({}, {3}), list({2, 8})}})
                         .at(0));
  };
  EXPECT_THAT(one_hot(11), ElementsAre(2, 2, 8, 2, 8, 2, 2, 2, 2));
  EXPECT_THAT(one_hot(9), ElementsAre(2, 2, 2, 2, 8, 2, 2, 2, 2));
  const auto refused = [](const HostTensor& depth, const HostTensor& values) {
    return refusal({.op = "OneHot", .inputs = {list({0})}, .constants = {depth, values}});
  };
  EXPECT_NE(refused(int_tensor({}, {0}), list({0, 1})), "");
  EXPECT_NE(refused(list({1, 2}), list({0, 1})), "");
  EXPECT_NE(refused(float_tensor({}, {1e30}), list({0, 1})), "");
  EXPECT_NE(refused(int_tensor({}, {2}), list({0, 1, 2})), "");
}

TEST(ImportCompress, NeedsTheCondition) {
  HostTensor keep(DType::kBool, {3});
  keep.set_int(0, 1);
  keep.set_int(2, 1);
  const NodeCase flat{.op = "Compress", .inputs = {counting({2, 2})}, .constants = {keep}};
  EXPECT_THAT(values_of(run_case(flat).at(0)), ElementsAre(0, 2));
  const auto unknown = import_case({.op = "Compress", .inputs = {counting({2, 2}), keep}});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kDataDependent);
  EXPECT_NE(refusal({.op = "Compress",
                     .attributes = {attr("axis", std::int64_t{0})},
                     .inputs = {counting({2, 2})},
                     .constants = {keep}}),
            "");
}

TEST(ImportTensorScatter, WritesFromTheStartByDefault) {
  const NodeCase c{.op = "TensorScatter",
                   .opset = 24,
                   .inputs = {counting({1, 3, 1}), float_tensor({1, 2, 1}, {8, 9})}};
  EXPECT_THAT(values_of(run_case(c).at(0)), ElementsAre(8, 9, 2));
}

TEST(ImportTopK, InEveryForm) {
  const HostTensor x = float_tensor({1, 4}, {3, 1, 4, 2});
  const NodeCase first{.op = "TopK",
                       .opset = 9,
                       .attributes = {attr("k", std::int64_t{2})},
                       .inputs = {x},
                       .outputs = 2};
  EXPECT_THAT(values_of(run_case(first).at(1)), ElementsAre(2, 0));
  const NodeCase smallest{.op = "TopK",
                          .opset = 11,
                          .attributes = {attr("largest", std::int64_t{0})},
                          .inputs = {x},
                          .constants = {list({2})},
                          .outputs = 2};
  EXPECT_THAT(values_of(run_case(smallest).at(0)), ElementsAre(1, 2));
  EXPECT_NE(refusal({.op = "TopK", .inputs = {x}, .constants = {list({5})}, .outputs = 2}), "");
}

TEST(ImportHost, OutputsOfUnknownSizeNeedData) {
  for (const char* op : {"NonZero", "Unique"}) {
    const auto graph = import_case({.op = op, .inputs = {counting({4})}});
    ASSERT_FALSE(graph.ok());
    EXPECT_EQ(graph.error().code, ErrorCode::kDataDependent) << graph.error().message;
  }
}

TEST(ImportMaxUnpool, Refuses) {
  const auto refused = [](std::vector<std::int64_t> kernel, std::vector<std::int64_t> strides) {
    return refusal({.op = "MaxUnpool",
                    .attributes = {attr("kernel_shape", kernel), attr("strides", strides)},
                    .inputs = {counting({1, 1, 2}), int_tensor({1, 1, 2}, {0, 2})}});
  };
  EXPECT_EQ(refused({2}, {2}), "");
  EXPECT_NE(refused({2, 2}, {2}), "");
  EXPECT_NE(refused({INT64_MAX}, {2}), "");
  EXPECT_NE(refused({2}, {-2}), "");
}

TEST(Indexing, CumulativeProducts) {
  const HostTensor x = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto run = [&](std::int64_t axis, std::int64_t exclusive, std::int64_t reverse) {
    return values_of(
        run_case({.op = "CumProd",
                  .opset = 26,
                  .attributes = {attr("exclusive", exclusive), attr("reverse", reverse)},
                  .inputs = {x},
                  .constants = {int_tensor({}, {axis})}})[0]);
  };
  using Numbers = std::vector<double>;
  EXPECT_EQ(run(1, 0, 0), (Numbers{1, 2, 6, 4, 20, 120}));
  EXPECT_EQ(run(-1, 1, 0), (Numbers{1, 1, 2, 1, 4, 20}));
  EXPECT_EQ(run(0, 0, 1), (Numbers{4, 10, 18, 4, 5, 6}));
  EXPECT_EQ(run(1, 1, 1), (Numbers{6, 3, 1, 30, 6, 1}));
}

}  // namespace
}  // namespace tessera::onnx
