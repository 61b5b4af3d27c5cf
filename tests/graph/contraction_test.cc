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

Attrs labels(const char* a, const char* b, const char* out) {
  return {{"a", std::string(a)}, {"b", std::string(b)}, {"out", std::string(out)}};
}

Numbers contract(const Attrs& attrs, const HostTensor& a, const HostTensor& b) {
  const auto y = run_node("contract", attrs, {a, b});
  EXPECT_TRUE(y.ok()) << y.error().message;
  return y.ok() ? values_of((*y)[0]) : Numbers{};
}

TEST(Contract, PartsOfOperands) {
  const HostTensor a = floats({2, 3}, {1, 2, 0, 3, 4, 0}), b = floats({2, 2}, {5, 6, 7, 8});
  Attrs attrs = labels("ik", "kj", "ij");
  attrs.set("a_starts", std::vector<std::int64_t>{1, 0});
  attrs.set("a_sizes", std::vector<std::int64_t>{1, 2});
  EXPECT_EQ(contract(attrs, a, b), (Numbers{43, 50}));
  attrs.set("b_starts", std::vector<std::int64_t>{0, 1});
  attrs.set("b_sizes", std::vector<std::int64_t>{2, 1});
  EXPECT_EQ(contract(attrs, a, b), (Numbers{50}));
  attrs.set("b_starts", std::vector<std::int64_t>{0, 2});
  EXPECT_NE(refusal("contract", attrs, {a, b}).find("a part 2+1 of an axis of size 2"),
            std::string::npos);
  attrs.set("b_starts", std::vector<std::int64_t>{0});
  EXPECT_NE(refusal("contract", attrs, {a, b}).find("a part of rank 1"), std::string::npos);
}

TEST(Contract, MatrixProductsInAnyStorage) {
  const HostTensor a = floats({2, 2}, {1, 2, 3, 4}), b = floats({2, 2}, {5, 6, 7, 8});
  EXPECT_EQ(contract(labels("ik", "kj", "ij"), a, b), (Numbers{19, 22, 43, 50}));
  EXPECT_EQ(contract(labels("ki", "jk", "ij"), a, b), (Numbers{23, 31, 34, 46}));
  EXPECT_EQ(contract(labels("ik", "kj", "ji"), a, b), (Numbers{19, 43, 22, 50}));
}

TEST(Contract, LabelsOfOneOperandBroadcastOrAreSummed) {
  const HostTensor a = floats({2}, {1, 2}), b = floats({3}, {1, 10, 100});
  EXPECT_EQ(contract(labels("i", "j", "ij"), a, b), (Numbers{1, 10, 100, 2, 20, 200}));
  EXPECT_EQ(contract(labels("i", "j", "j"), a, b), (Numbers{3, 30, 300}));
  EXPECT_EQ(contract(labels("i", "j", ""), a, b), (Numbers{333}));
}

TEST(Contract, TypesOfTheSum) {
  const Attrs dot = labels("k", "k", "");
  const auto mixed = run_node(
      "contract", dot, {ints({2}, {255, 255}, DType::kU8), ints({2}, {-128, 1}, DType::kI8)});
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ((*mixed)[0].dtype(), DType::kI32);
  EXPECT_EQ((*mixed)[0].get_int(0), 255 * -127);
  const auto half =
      run_node("contract", dot,
               {floats({3}, {2048, 1, 1}, DType::kF16), floats({3}, {1, 1, 1}, DType::kF16)});
  ASSERT_TRUE(half.ok());
  EXPECT_EQ((*half)[0].dtype(), DType::kF16);
  EXPECT_EQ((*half)[0].get_float(0), 2050);
  const auto wide = run_node("contract", dot, {ints({1}, {1 << 20}), ints({1}, {1 << 20})});
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ((*wide)[0].get_int(0), std::int64_t{1} << 40);
}

TEST(Contract, EmptySumIsZero) {
  EXPECT_EQ(contract(labels("ik", "kj", "ij"), floats({1, 0}, {}), floats({0, 2}, {})),
            (Numbers{0, 0}));
}

TEST(Contract, Refusals) {
  const HostTensor m = counting({2, 3});
  EXPECT_NE(refusal("contract", labels("i", "kj", "ij"), {m, m}).find("labels i for"),
            std::string::npos);
  EXPECT_NE(refusal("contract", labels("ii", "kj", "ij"), {m, m}).find("label i repeats"),
            std::string::npos);
  EXPECT_NE(refusal("contract", labels("ik", "kj", "ij"), {m, m})
                .find("product of 2x3 (ik) and 2x3 (kj): label k is 3 and 2"),
            std::string::npos);
  EXPECT_NE(refusal("contract", labels("ik", "jk", "iz"), {m, m}).find("label z of the output"),
            std::string::npos);
  EXPECT_NE(refusal("contract", labels("ik", "jk", "ii"), {m, m}).find("label i repeats"),
            std::string::npos);
  EXPECT_NE(refusal("contract", labels("i.", "jk", "ij"), {m, m}).find("'.' is not a letter"),
            std::string::npos);
  EXPECT_NE(refusal("contract", labels("ik", "jk", "ij"), {m, counting({2, 3}, DType::kI32)})
                .find("no product of f32 and i32"),
            std::string::npos);
}

TEST(Det, OfABatch) {
  const auto y = run_node("det", {}, {floats({2, 2, 2}, {0, 1, 2, 3, 2, 4, 1, 2})});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(values_of((*y)[0]), (Numbers{-2, 0}));
  const auto empty = run_node("det", {}, {floats({0, 0}, {})});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ((*empty)[0].get_float(0), 1);
  EXPECT_NE(refusal("det", {}, {counting({2, 3})}).find("square"), std::string::npos);
}

}  // namespace
}  // namespace tessera::graph
