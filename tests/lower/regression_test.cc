// Cases that once computed something else, each as small as it could be made.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/te/builder.h"

namespace tessera::lower {
namespace {

using te::at;
using te::DagBuilder;
using te::Indices;
using te::Reducer;

TEST(Regression, ReductionWithoutReduceLoops) {
  DagBuilder b("sum");
  const ir::Buffer x = b.input("X", DType::kI32, {5});
  const ir::Buffer y = b.reduce("Y", Reducer::kSum, {{"i", 5}}, {},
                                [&](const Indices& i, const Indices&) { return at(x, i); });
  const auto [best, where] = b.arg_reduce(
      "Z", Reducer::kArgMax, {{"i", 5}}, {},
      [&](const Indices& i, const Indices&) { return std::make_pair(at(y, i), ir::int_imm(3)); });
  const te::Dag dag = b.build({y, best, where});
  expect_agrees(dag, "");
  expect_agrees(dag, "split Z i 2\nannotate Z i.1 vectorize\n");
}

// W[i] = P[4 - i] + 1; Y copies W.
te::Dag reversed() {
  DagBuilder b("reversed");
  const ir::Buffer x = b.input("X", DType::kI32, {13});
  const ir::Buffer p = b.compute("P", {{"i", 13}}, [&](const Indices& i) { return at(x, i) + 1; });
  const ir::Buffer w = b.compute(
      "W", {{"i", 13}}, [&](const Indices& i) { return at(p, {ir::int_imm(12) - i[0]}) + 1; });
  return b.build({b.compute("Y", {{"i", 13}}, [&](const Indices& i) { return at(w, i); })});
}

TEST(Regression, PaddedStageReadsDownwards) {
  expect_agrees(reversed(), "split W i 3 outer tail=pad\n");
}

TEST(Regression, ProducerInsideAPaddedStage) {
  expect_agrees(reversed(), "split W i 4 tail=pad\ncompute_at P W i.0\n");
  expect_agrees(reversed(), "split W i 4 tail=pad\ncompute_at P W i.1\n");
  expect_agrees(reversed(), "split W i 4 tail=pad\ncompute_at P W i.1\nsplit P i 2 tail=pad\n");
}

TEST(Regression, RFactorOfASplitLongerThanItsLoop) {
  DagBuilder b("sum");
  const ir::Buffer x = b.input("X", DType::kI32, {3, 6});
  const te::Dag dag = b.build({b.reduce("Y", Reducer::kSum, {{"i", 3}}, {{"r", 6}},
                                        [&](const Indices& i, const Indices& r) {
                                          return at(x, {i[0], r[0]});
                                        })});
  expect_agrees(dag, "split Y r 7 tail=peel\nrfactor Y r.1 1\n");
  expect_agrees(dag, "split Y r 4\nrfactor Y r.0 0\nsplit Y.rf i 2\nannotate Y.rf i.1 vectorize\n");
  expect_agrees(dag, "split Y r 5 outer\nrfactor Y r.1 1\n");
}

TEST(Regression, LayoutOfASecondOutput) {
  DagBuilder b("argmax");
  const ir::Buffer x = b.input("X", DType::kF32, {8, 6, 5});
  const auto [best, where] = b.arg_reduce("M", Reducer::kArgMax, {{"i", 8}, {"j", 6}}, {{"r", 5}},
                                          [&](const Indices& i, const Indices& r) {
                                            return std::make_pair(at(x, {i[0], i[1], r[0]}), r[0]);
                                          });
  const ir::Buffer index = where;
  const te::Dag dag = b.build(
      {best, b.compute("Y", {{"i", 8}, {"j", 6}}, [&](const Indices& i) { return at(index, i); })});
  expect_agrees(dag, "layout M.index d1%4 d0%3 d1/4 d0/3\n");
  expect_agrees(dag, "reorder M r i j\nlayout M.index d1 d0\n");
}

te::Dag scaled_rows() {
  DagBuilder b("scaled");
  const ir::Buffer x = b.input("X", DType::kF32, {16, 16});
  const ir::Buffer s = b.compute("S", {{"i", 16}}, [&](const Indices& i) {
    return at(x, {i[0], i[0]});
  });
  return b.build({b.compute("Y", {{"i", 16}, {"j", 16}},
                            [&](const Indices& i) { return at(x, i) * at(s, {i[0]}); })});
}

TEST(Regression, PrefetchInsideAVectorizedLoop) {
  expect_agrees(scaled_rows(), "reorder Y j i\nprefetch Y i X 2\nannotate Y i vectorize\n");
  expect_agrees(scaled_rows(),
                "cache_write Y local\nprefetch Y.local j X 1\nannotate Y i vectorize\ncompute_at "
                "Y.local Y j\n");
}

TEST(Regression, PrefetchOfATensorMadeFurtherIn) {
  expect_agrees(scaled_rows(), "compute_at S Y j\nprefetch Y i S 3\n");
}

TEST(Regression, ParallelInsideVectorizedIsRefused) {
  expect_refused(scaled_rows(), "annotate Y i vectorize\nannotate Y j parallel\n",
                 "parallel loop j of Y runs inside vectorized loop i of Y");
  expect_refused(scaled_rows(), "annotate Y j vectorize\ncompute_at S Y j\nannotate S i parallel\n",
                 "parallel loop i of S runs inside vectorized loop j of Y");
}

te::Dag gathered() {
  DagBuilder b("gathered");
  const ir::Buffer x = b.input("X", DType::kI32, {9, 4});
  const ir::Buffer idx = b.input("idx", DType::kI64, {7});
  const ir::Buffer p =
      b.compute("P", {{"i", 9}, {"c", 4}}, [&](const Indices& i) { return at(x, i) + 1; });
  return b.build({b.compute("Y", {{"i", 7}, {"c", 4}}, [&](const Indices& i) {
    return at(p, {at(idx, {i[0]}), i[1]});
  })});
}

TEST(Regression, ProducerReadThroughAnIndex) {
  expect_agrees(gathered(), "compute_at P Y c\n", 9);
  expect_agrees(gathered(), "compute_at P Y c\ncache_read idx local Y\n", 9);
  expect_agrees(gathered(), "cache_read idx local Y\ncompute_at idx.local Y i\nprefetch Y i P 4\n",
                9);
}

// The identity of argmax is the lowest i64: a difference compared with it must not be rearranged.
TEST(Regression, DataOfI64MayWrap) {
  DagBuilder b("argmax");
  const ir::Buffer x = b.input("X", DType::kI64, {4});
  const ir::Buffer w = b.input("W", DType::kI64, {4});
  const auto [best, where] = b.arg_reduce(
      "M", Reducer::kArgMax, {{"i", 4}}, {{"r", 1}}, [&](const Indices& i, const Indices& r) {
        return std::make_pair(ir::min(ir::int_imm(1), at(x, i)) - at(w, i), r[0]);
      });
  expect_agrees(b.build({best, where}), "");
}

// Both halves of a loop that is cut in two allocate the same buffer; a hoisted address must not
// outlive the first.
TEST(Regression, OneBufferAllocatedTwice) {
  DagBuilder b("twice");
  const ir::Buffer x = b.input("X", DType::kI32, {4});
  const ir::Buffer p = b.compute("P", {{"i", 4}, {"j", 5}}, [&](const Indices& i) {
    const ir::Expr at_x = i[0] + i[1] - 2;
    return ir::select(ir::logical_and(ir::le(ir::int_imm(0), at_x), ir::lt(at_x, ir::int_imm(4))),
                      at(x, {at_x}), ir::imm(DType::kI32, 9));
  });
  const te::Dag dag = b.build({b.compute("Y", {{"i", 7}, {"j", 4}}, [&](const Indices& i) {
    return at(p, {i[1], ir::min(i[0], ir::int_imm(4))}) + at(p, {i[1], i[1]});
  })});
  expect_agrees(dag, "compute_at P Y j\n");
  expect_agrees(dag, "compute_at P Y j\nannotate Y i parallel\n");
}

// `|` evaluates both sides: the left one must not remove what keeps the reads of the right one
// within bounds.
TEST(Regression, ReadsInsideADisjunction) {
  DagBuilder b("disjunction");
  const ir::Buffer x = b.input("X", DType::kI32, {13});
  const te::Dag dag = b.build({b.compute("Y", {{"i", 13}}, [&](const Indices& i) {
    const ir::Expr far = i[0] * 2;
    const ir::Expr read =
        ir::select(ir::lt(far, ir::int_imm(13)), at(x, {far}), ir::imm(DType::kI32, 1));
    return ir::select(
        ir::logical_or(ir::le(ir::int_imm(3), i[0]), ir::le(ir::imm(DType::kI32, 2), read)),
        at(x, i), ir::imm(DType::kI32, 5));
  })});
  expect_agrees(dag, "");
}

// A peeled tail of one iteration leaves the loop inside it as the outermost one of that part.
TEST(Regression, PeeledTailOfOneIteration) {
  DagBuilder b("sum");
  const ir::Buffer x = b.input("X", DType::kF32, {3, 11});
  const te::Dag dag =
      b.build({b.reduce("Y", Reducer::kSum, {}, {{"r", 3}, {"q", 11}},
                        [&](const Indices&, const Indices& r) { return at(x, r); })});
  expect_agrees(dag, "split Y q 3 tail=peel\nrfactor Y q.0 0\n");
  expect_agrees(dag, "split Y q 3 tail=peel\nreorder Y q.0 r q.1\n");
  expect_agrees(dag, "split Y q 5 tail=peel\nsplit Y r 2 tail=peel\nreorder Y q.0 r.0 q.1 r.1\n");
}

}  // namespace
}  // namespace tessera::lower
