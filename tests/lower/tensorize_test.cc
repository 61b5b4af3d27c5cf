// Loops replaced by one instruction: dot4, dot2, mma2x8, mma2x4.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/builder.h"

namespace tessera::lower {
namespace {

using te::at;
using te::Indices;

// C[i, j] = sum over k of wide(A[i, k]) * wide(B[k, j]), B constant.
te::Dag product(DType a_type, DType b_type, DType wide, std::int64_t m, std::int64_t n,
                std::int64_t k) {
  te::DagBuilder b("product");
  const ir::Buffer x = b.input("A", a_type, {m, k});
  const ir::Buffer w = b.constant("B", b_type, {k, n});
  return b.build(
      {b.reduce("C", te::Reducer::kSum, {{"i", m}, {"j", n}}, {{"k", k}},
                [&](const Indices& i, const Indices& r) {
                  return ir::cast(wide, at(x, {i[0], r[0]})) * ir::cast(wide, at(w, {r[0], i[1]}));
                })});
}

te::Dag i8_product(std::int64_t m = 6, std::int64_t n = 8, std::int64_t k = 16) {
  return product(DType::kI8, DType::kI8, DType::kI32, m, n, k);
}
te::Dag bf16_product(std::int64_t m = 6, std::int64_t n = 8, std::int64_t k = 16) {
  return product(DType::kBF16, DType::kBF16, DType::kF32, m, n, k);
}

constexpr const char* kDot4 =
    "split C j 4\nsplit C k 4\nlayout B d1/4 d0/4 d1%4 d0%4\nreorder C i j.0 k.0 j.1 "
    "k.1\ntensorize C j.1 dot4\n";
constexpr const char* kDot2 =
    "split C j 4\nsplit C k 2\nlayout B d1/4 d0/2 d1%4 d0%2\nreorder C i j.0 k.0 j.1 "
    "k.1\ntensorize C j.1 dot2\n";

// Rows of A are packed in pairs by a copy, columns of B by its layout.
std::string mma(int depth, const std::string& name) {
  return fmt::format(
      "cache_read A local C\nlayout A.local d0/2 d1/{0} d0%2 d1%{0}\nlayout B d1/2 d0/{0} d1%2 "
      "d0%{0}\n"
      "split C i 2\nsplit C j 2\nsplit C k {0}\nreorder C i.0 j.0 k.0 i.1 j.1 k.1\nannotate C j.1 "
      "unroll\n"
      "tensorize C i.1 {1}\n",
      depth, name);
}

void expect_uses(const te::Dag& dag, const std::string& schedule, const std::string& call) {
  const std::string text = ir::to_text(lower_to(dag, schedule));
  EXPECT_NE(text.find(call + "("), std::string::npos) << text;
  expect_agrees(dag, schedule);
}

TEST(Tensorize, Dot4) {
  expect_uses(i8_product(), kDot4, "dot4");
  expect_uses(product(DType::kU8, DType::kU8, DType::kI32, 3, 4, 8), kDot4, "dot4");
}

TEST(Tensorize, Dot4WithSeveralAccumulators) {
  expect_uses(i8_product(8, 16, 32),
              "split C i 4\nsplit C j 2 4\nsplit C k 4\nlayout B d1/8 d0/4 d1/4%2 d1%4 d0%4\n"
              "reorder C i.0 j.0 k.0 i.1 j.1 j.2 k.1\nannotate C i.1 unroll\nannotate C j.1 "
              "unroll\ntensorize C j.2 dot4\n",
              "dot4");
}

// C[i, j] = sum over k of i32(A[i, k]) * i32(B[k, j] >> shift & 15), shift 4 or, `uneven`, k mod 5.
te::Dag halves_product(bool uneven) {
  te::DagBuilder b("product");
  const ir::Buffer x = b.input("A", DType::kI8, {6, 16});
  const ir::Buffer w = b.constant("B", DType::kU8, {16, 8});
  const auto value = [&](const Indices& i, const Indices& r) {
    const ir::Expr shift = uneven ? ir::floor_mod(r[0], ir::int_imm(5)) : ir::int_imm(4);
    const ir::Expr high =
        ir::Binary::make(ir::BinaryOp::kShr, at(w, {r[0], i[1]}), ir::cast(DType::kU8, shift));
    const ir::Expr half =
        ir::Binary::make(ir::BinaryOp::kAnd, high, ir::int_like({DType::kU8}, 15));
    return ir::cast(DType::kI32, at(x, {i[0], r[0]})) * ir::cast(DType::kI32, half);
  };
  return b.build({b.reduce("C", te::Reducer::kSum, {{"i", 6}, {"j", 8}}, {{"k", 16}}, value)});
}

TEST(Tensorize, Dot4OfHalvesOfBytes) {
  expect_uses(halves_product(false), kDot4, "dot4");
  expect_refused(halves_product(true), kDot4, "the factors are not casts of i8 or u8 to i32");
}

TEST(Tensorize, RefusesComparisonsOfBytes) {
  te::DagBuilder b("product");
  const ir::Buffer x = b.input("A", DType::kI8, {6, 16});
  const ir::Buffer w = b.constant("B", DType::kU8, {16, 8});
  const auto value = [&](const Indices& i, const Indices& r) {
    const ir::Expr small = ir::lt(at(w, {r[0], i[1]}), ir::int_like({DType::kU8}, 3));
    return ir::cast(DType::kI32, at(x, {i[0], r[0]})) * ir::cast(DType::kI32, small);
  };
  expect_refused(
      b.build({b.reduce("C", te::Reducer::kSum, {{"i", 6}, {"j", 8}}, {{"k", 16}}, value)}), kDot4,
      "the factors are not casts of i8 or u8 to i32");
}

// What is left of a tile is an instruction of fewer lanes, where there are several and where the
// sums are stored by another stage.
TEST(Tensorize, TheRestOfAVectorIsAShorterOne) {
  const std::string schedule =
      "split C i 3\nsplit C j 2 8 tail=peel\nsplit C k 4\nlayout B d1/16 d0/4 d1%16 d0%4\n"
      "reorder C i.0 j.0 k.0 i.1 j.1 j.2 k.1\nannotate C i.1 unroll\nannotate C j.1 unroll\n"
      "tensorize C j.2 dot4\n";
  for (const std::int64_t columns : {20, 28, 12}) {
    const te::Dag dag = i8_product(6, columns, 32);
    const std::string text = ir::to_text(lower_to(dag, schedule));
    EXPECT_NE(text.find("1, 4)] = dot4("), std::string::npos) << text;
    EXPECT_NE(text.find("1, 8)] = dot4("), std::string::npos) << text;
    EXPECT_EQ(text.find("k.1"), std::string::npos) << text;  // no product by itself
    expect_agrees(dag, schedule);
  }
}

TEST(Tensorize, Dot2) { expect_uses(bf16_product(), kDot2, "dot2"); }

TEST(Tensorize, Mma2x8) {
  expect_uses(i8_product(), mma(8, "mma2x8"), "mma2x8");
  expect_uses(product(DType::kU8, DType::kU8, DType::kI32, 4, 6, 24), mma(8, "mma2x8"), "mma2x8");
}

TEST(Tensorize, Mma2x4) { expect_uses(bf16_product(), mma(4, "mma2x4"), "mma2x4"); }

TEST(Tensorize, RefusesOperandsInAnotherOrder) {
  expect_refused(i8_product(),
                 "split C j 4\nsplit C k 4\nreorder C i j.0 k.0 j.1 k.1\ntensorize C j.1 dot4\n",
                 "tensorize dot4: an operand is not packed in the order of the loops");
  std::string unpacked = mma(8, "mma2x8");
  unpacked.erase(0, unpacked.find("layout B"));
  expect_refused(i8_product(), unpacked,
                 "tensorize mma2x8: an operand is not packed in rows of the tile");
}

TEST(Tensorize, RefusesAnotherDepth) {
  expect_refused(i8_product(),
                 "split C j 4\nsplit C k 8\nlayout B d1/4 d0/8 d1%4 d0%8\nreorder C i j.0 k.0 j.1 "
                 "k.1\ntensorize C j.1 dot4\n",
                 "the reduce loop must have 4 iterations");
  expect_refused(i8_product(), mma(4, "mma2x8"), "the loops must be 2, 2, 8");
}

TEST(Tensorize, RefusesOtherTypes) {
  expect_refused(bf16_product(), kDot4, "the factors are not casts of i8 or u8 to i32");
  expect_refused(i8_product(), kDot2, "the factors are not casts of bf16 or bf16 to f32");
}

TEST(Tensorize, RefusesAnotherBody) {
  te::DagBuilder b("max");
  const ir::Buffer x = b.input("A", DType::kI32, {4, 8});
  const te::Dag dag = b.build({b.reduce("C", te::Reducer::kMax, {{"j", 4}}, {{"k", 8}},
                                        [&](const Indices& i, const Indices& r) {
                                          return at(x, {i[0], r[0]});
                                        })});
  expect_refused(dag, "split C k 4\nreorder C k.0 j k.1\ntensorize C j dot4\n",
                 "the body is not acc = acc + a * b");
}

TEST(Tensorize, RefusesTheWrongNumberOfLoops) {
  expect_refused(i8_product(), "reorder C k j i\ntensorize C i dot4\n",
                 "the number of loops inside is wrong");
}

TEST(Tensorize, RefusesALoopThatHoldsNoReduction) {
  expect_refused(i8_product(), "tensorize C i dot4\n",
                 "loop i is not the outermost of a nest that updates accumulators");
}

}  // namespace
}  // namespace tessera::lower
