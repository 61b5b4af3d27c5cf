// Matrix products: shapes, integer forms and equations that the backend cases do not cover.
#include <gtest/gtest.h>

#include "tests/onnx/node_model.h"

namespace tessera::onnx::testing {
namespace {

using Numbers = std::vector<double>;

HostTensor bytes(const Shape& shape, const std::vector<std::int64_t>& values, DType t) {
  HostTensor out(t, shape);
  for (std::size_t i = 0; i < values.size(); ++i)
    out.set_int(static_cast<std::int64_t>(i), values[i]);
  return out;
}

Shape matmul_shape(const Shape& a, const Shape& b) {
  return run_case({.op = "MatMul", .inputs = {counting(a), counting(b)}})[0].shape();
}

TEST(MatMul, BroadcastsLikeNumPy) {
  EXPECT_EQ(matmul_shape({3}, {3}), (Shape{}));
  EXPECT_EQ(matmul_shape({3}, {3, 2}), (Shape{2}));
  EXPECT_EQ(matmul_shape({4, 2, 3}, {3}), (Shape{4, 2}));
  EXPECT_EQ(matmul_shape({3}, {4, 3, 2}), (Shape{4, 2}));
  EXPECT_EQ(matmul_shape({5, 1, 2, 3}, {4, 3, 2}), (Shape{5, 4, 2, 2}));
  EXPECT_EQ(matmul_shape({1, 2, 3}, {1, 3, 2}), (Shape{1, 2, 2}));
  EXPECT_EQ(matmul_shape({0, 2, 3}, {3, 2}), (Shape{0, 2, 2}));
  EXPECT_EQ(matmul_shape({2, 0}, {0, 2}), (Shape{2, 2}));
}

TEST(MatMul, BroadcastBatchHasTheRightValues) {
  const auto y =
      run_case({.op = "MatMul", .inputs = {counting({2, 1, 1, 2}), counting({3, 2, 1})}});
  EXPECT_EQ(values_of(y[0]), (Numbers{1, 3, 5, 3, 13, 23}));
}

TEST(MatMul, OneContractionWithoutReshapeWhereNothingIsBroadcast) {
  EXPECT_EQ(operators_of({.op = "MatMul", .inputs = {counting({2, 2, 3}), counting({2, 3, 2})}}),
            (std::vector<std::string>{"contract"}));
}

TEST(MatMul, Refusals) {
  for (const auto& [a, b] :
       {std::pair<Shape, Shape>{{2, 3}, {2, 3}}, {{}, {2}}, {{2, 2, 2}, {3, 2, 2}}}) {
    EXPECT_NE(
        refusal({.op = "MatMul", .inputs = {counting(a), counting(b)}}).find("matrix product"),
        std::string::npos);
  }
}

TEST(Gemm, RefusesABiasThatWouldGrowTheResult) {
  EXPECT_NE(
      refusal({.op = "Gemm", .inputs = {counting({1, 2}), counting({2, 3}), counting({4, 3})}})
          .find("does not broadcast"),
      std::string::npos);
  EXPECT_NE(refusal({.op = "Gemm", .inputs = {counting({2}), counting({2, 3})}}).find("matrices"),
            std::string::npos);
}

TEST(MatMulInteger, ZeroPointsPerRowAndColumn) {
  const auto a = bytes({2, 2}, {1, 2, 3, 4}, DType::kU8),
             b = bytes({2, 2}, {5, 6, 7, 8}, DType::kI8);
  const auto y =
      run_case({.op = "MatMulInteger",
                .inputs = {a, b, bytes({2}, {1, 2}, DType::kU8), bytes({2}, {-1, 3}, DType::kI8)}});
  EXPECT_EQ(y[0].dtype(), DType::kI32);
  // (0 1; 1 2) (6 3; 8 5)
  EXPECT_EQ(values_of(y[0]), (Numbers{8, 5, 22, 13}));
}

TEST(MatMulInteger, ConstantWeightsLoseTheirZeroPoint) {
  NodeCase c{.op = "MatMulInteger",
             .inputs = {bytes({1, 2}, {200, 100}, DType::kU8)},
             .constants = {bytes({2, 1}, {130, 120}, DType::kU8), bytes({}, {0}, DType::kU8),
                           bytes({}, {128}, DType::kU8)}};
  EXPECT_EQ(operators_of(c), (std::vector<std::string>{"contract"}));
  EXPECT_EQ(values_of(run_case(c)[0]), (Numbers{200 * 2 - 100 * 8}));
}

TEST(MatMulInteger, Vectors) {
  const auto y =
      run_case({.op = "MatMulInteger",
                .inputs = {bytes({2}, {1, 2}, DType::kU8), bytes({2}, {3, 4}, DType::kU8)}});
  EXPECT_EQ(y[0].shape(), (Shape{}));
  EXPECT_EQ(y[0].get_int(0), 11);
}

Numbers einsum(const std::string& equation, std::vector<HostTensor> inputs) {
  return values_of(run_case({.op = "Einsum",
                             .attributes = {attr("equation", equation)},
                             .inputs = std::move(inputs)})[0]);
}

TEST(Einsum, OperandsFromOneToThree) {
  const HostTensor m = counting({2, 2});  // 0 1; 2 3
  EXPECT_EQ(einsum("ij->ji", {m}), (Numbers{0, 2, 1, 3}));
  EXPECT_EQ(einsum("ii", {m}), (Numbers{3}));
  EXPECT_EQ(einsum("ii->i", {m}), (Numbers{0, 3}));
  EXPECT_EQ(einsum("ba", {m}), (Numbers{0, 2, 1, 3}));
  EXPECT_EQ(einsum("ij,jk", {m, m}), (Numbers{2, 3, 6, 11}));
  EXPECT_EQ(einsum(" i j , jk , k -> i ", {m, m, counting({2}, DType::kF32, 1)}), (Numbers{8, 28}));
  EXPECT_EQ(einsum("i,j->", {counting({2}, DType::kF32, 1), counting({2}, DType::kF32, 1)}),
            (Numbers{9}));
  EXPECT_EQ(einsum("iji->j", {counting({2, 2, 2})}), (Numbers{0 + 5, 2 + 7}));
}

TEST(Einsum, Ellipsis) {
  EXPECT_EQ(einsum("...ij,...jk->...ik", {counting({2, 1, 2}), counting({2, 1})}), (Numbers{1, 3}));
  EXPECT_EQ(einsum("i...->...", {counting({2, 2})}), (Numbers{2, 4}));
  EXPECT_EQ(einsum("...,...->...", {counting({2, 1}), counting({1, 2}, DType::kF32, 1)}),
            (Numbers{0, 0, 1, 2}));
}

TEST(Einsum, BytesWrap) {
  const auto y = run_case({.op = "Einsum",
                           .attributes = {attr("equation", std::string("i,i->"))},
                           .inputs = {bytes({1}, {100}, DType::kI8), bytes({1}, {3}, DType::kI8)}});
  EXPECT_EQ(y[0].dtype(), DType::kI8);
  EXPECT_EQ(y[0].get_int(0), 300 - 256);
}

TEST(Einsum, Refusals) {
  const auto refused = [](const std::string& equation, std::vector<HostTensor> inputs) {
    return refusal(
        {.op = "Einsum", .attributes = {attr("equation", equation)}, .inputs = std::move(inputs)});
  };
  const HostTensor m = counting({2, 3});
  EXPECT_NE(refused("ij,jk", {m}).find("2 terms for 1 inputs"), std::string::npos);
  EXPECT_NE(refused("i1->i", {m}).find("not a term"), std::string::npos);
  EXPECT_NE(refused("i->i", {m}).find("does not fit rank"), std::string::npos);
  EXPECT_NE(refused("ij->iz", {m}).find("label z"), std::string::npos);
  EXPECT_NE(refused("ii->i", {m}).find("two sizes"), std::string::npos);
  EXPECT_NE(refused("ij,ij->i", {m, counting({3, 2})}).find("label i is 2 and 3"),
            std::string::npos);
  EXPECT_NE(refused("i......->i", {m}).find("not a term"), std::string::npos);
}

}  // namespace
}  // namespace tessera::onnx::testing
