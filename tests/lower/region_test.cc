// How much of an attached stage is computed, where tails run, and where sums are kept.
#include <algorithm>

#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/builder.h"

namespace tessera::lower {
namespace {

constexpr const char* kConv = "conv2d:N=1,H=10,W=12,CI=4,CO=8,KH=3,KW=3,P=1";

// The shape of the temporary of that name; empty when there is none.
std::vector<std::int64_t> allocated(const ir::Func& func, const std::string& name) {
  std::vector<std::int64_t> shape;
  ir::for_each_stmt(func.body, [&](const ir::Stmt& s) {
    const auto* a = s.as<ir::Allocate>();
    if (a && a->buffer->name == name) shape = a->buffer->shape;
  });
  return shape;
}

int count_ifs(const ir::Func& func) {
  int n = 0;
  ir::for_each_stmt(func.body, [&](const ir::Stmt& s) { n += s.as<ir::If>() ? 1 : 0; });
  return n;
}

int count_selects(const ir::Func& func) {
  int n = 0;
  ir::for_each_expr(func.body, [&](const ir::Expr& e) { n += e.as<ir::Select>() ? 1 : 0; });
  return n;
}

std::vector<std::int64_t> pad_region(const std::string& schedule) {
  const ir::Func func = lower_to(dag_of(kConv), schedule, "build_loop_nest");
  expect_agrees(dag_of(kConv), schedule);
  return allocated(func, "pad");
}

using Extents = std::vector<std::int64_t>;

TEST(Region, HaloOfAConvolution) {
  const std::string tile =
      "split Y oh 2\nsplit Y ow 4\nreorder Y n oh.0 ow.0 kh kw ci oh.1 ow.1 co\n";
  EXPECT_EQ(pad_region(""), (Extents{1, 12, 14, 4}));
  EXPECT_EQ(pad_region("compute_at pad Y n\n"), (Extents{1, 12, 14, 4}));
  EXPECT_EQ(pad_region(tile + "compute_at pad Y oh.0\n"), (Extents{1, 4, 14, 4}));
  EXPECT_EQ(pad_region(tile + "compute_at pad Y ow.0\n"), (Extents{1, 4, 6, 4}));
  EXPECT_EQ(pad_region(tile + "compute_at pad Y kh\n"), (Extents{1, 2, 6, 4}));
  EXPECT_EQ(pad_region(tile + "compute_at pad Y ci\n"), (Extents{1, 2, 4, 1}));
  EXPECT_EQ(pad_region(tile + "compute_at pad Y co\n"), (Extents{1, 1, 1, 1}));
}

TEST(Region, HaloOfTilesThatDoNotDivide) {
  EXPECT_EQ(
      pad_region("split Y oh 3\nreorder Y n oh.0 oh.1 ow co kh kw ci\ncompute_at pad Y oh.0\n"),
      (Extents{1, 5, 14, 4}));
  EXPECT_EQ(
      pad_region(
          "split Y ow 5 tail=peel\nreorder Y n ow.0 oh ow.1 co kh kw ci\ncompute_at pad Y ow.0\n"),
      (Extents{1, 12, 7, 4}));
}

TEST(Region, OfTwoConsumersIsTheirUnion) {
  te::DagBuilder b("two");
  const ir::Buffer x = b.input("X", DType::kI32, {20});
  const ir::Buffer p =
      b.compute("P", {{"i", 20}}, [&](const te::Indices& i) { return te::at(x, i) + 1; });
  const ir::Buffer q =
      b.compute("Q", {{"i", 16}}, [&](const te::Indices& i) { return te::at(p, {i[0] + 1}); });
  const te::Dag dag = b.build({b.compute("Y", {{"i", 16}}, [&](const te::Indices& i) {
    return te::at(p, {i[0] + 4}) * te::at(q, i);
  })});
  const std::string schedule = "split Y i 4\ncompute_at Q Y i.0\ncompute_at P Y i.0\n";
  EXPECT_EQ(allocated(lower_to(dag, schedule, "build_loop_nest"), "P"),
            (Extents{7}));  // i+1 .. i+7
  EXPECT_EQ(allocated(lower_to(dag, schedule, "build_loop_nest"), "Q"), (Extents{4}));
  expect_agrees(dag, schedule);
  expect_refused(dag, "split Y i 4\ncompute_at P Y i.0\n",
                 "stage P is computed at loop i.0 of Y, but Q uses it outside");
  expect_refused(dag, "split Y i 4\ncompute_at Q Y i.0\ncompute_at P Y i.1\n",
                 "stage P is computed at loop i.1 of Y, but Q uses it outside");
}

TEST(Region, AttachedToAStageThatDoesNotReadIt) {
  te::DagBuilder b("apart");
  const ir::Buffer x = b.input("X", DType::kI32, {4});
  const ir::Buffer p =
      b.compute("P", {{"i", 4}}, [&](const te::Indices& i) { return te::at(x, i) + 1; });
  const ir::Buffer q =
      b.compute("Q", {{"i", 4}}, [&](const te::Indices& i) { return te::at(p, i) + 1; });
  const ir::Buffer y =
      b.compute("Y", {{"i", 4}}, [&](const te::Indices& i) { return te::at(x, i) * 2; });
  expect_refused(b.build({q, y}), "compute_at P Y i\n",
                 "stage P is computed at loop i of Y, but Q uses it outside");
}

TEST(Tails, GuardBecomesAShorterLoop) {
  const ir::Func func = lower_to(dag_of("eltwise:N=30,fn=relu"), "split Y i 8\n");
  EXPECT_EQ(count_ifs(func), 0) << ir::to_text(func);
  EXPECT_NE(ir::to_text(func).find("min("), std::string::npos) << ir::to_text(func);
}

TEST(Tails, PeelLeavesNoCondition) {
  const ir::Func func =
      lower_to(dag_of("matmul:M=30,N=31,K=7"),
               "split C i 4 tail=peel\nsplit C j 8 tail=peel\nreorder C i.0 j.0 k i.1 j.1\n");
  EXPECT_EQ(count_ifs(func), 0) << ir::to_text(func);
  EXPECT_EQ(ir::to_text(func).find("min("), std::string::npos) << ir::to_text(func);
}

TEST(Tails, PadGrowsTheStorage) {
  const std::string schedule = "split C j 8 tail=pad\n";
  const te::Dag dag = dag_of("dense:M=3,N=10,K=4");
  EXPECT_EQ(allocated(lower_to(dag, schedule, "build_loop_nest"), "C"), (Extents{3, 16}));
  EXPECT_EQ(count_ifs(lower_to(dag, schedule)), 0);
  expect_agrees(dag, schedule);
}

TEST(Tails, EveryKindAgrees) {
  const te::Dag dag = dag_of("dense:M=7,N=11,K=5");
  for (const char* tail : {"", " tail=peel", " tail=pad"}) {
    for (const char* length : {"2", "3", "4", "8", "16", "3 outer", "16 outer"}) {
      expect_agrees(dag,
                    fmt::format("split C i {0}{1}\nsplit C j {0}{1}\nreorder C i.0 j.0 k i.1 j.1\n",
                                length, tail));
    }
    for (const char* lengths : {"2 3", "3 2", "4 8", "2 3 outer"}) {
      expect_agrees(
          dag,
          fmt::format("split C i {0}{1}\nsplit C j {0}{1}\nreorder C i.0 j.0 i.1 j.1 k i.2 j.2\n",
                      lengths, tail));
    }
  }
}

TEST(Accumulators, MemoryIsNotInitialised) {
  const ir::Func func =
      lower_to(dag_of("matmul:M=4,N=8,K=5"),
               "split C j 4\nreorder C i j.0 k j.1\nannotate C j.1 vectorize\n", "build_loop_nest");
  int stores_to_output = 0;
  ir::for_each_stmt(func.body, [&](const ir::Stmt& s) {
    const auto* store = s.as<ir::Store>();
    if (!store || store->buffer->name != "C") return;
    ++stores_to_output;
    EXPECT_TRUE(store->value.as<ir::Load>())
        << ir::to_text(s);  // the accumulator, not a constant or a sum
  });
  EXPECT_EQ(stores_to_output, 1);
  EXPECT_EQ(allocated(func, "C.acc"), (Extents{4}));
}

TEST(Accumulators, PlainLoopsInsideTheReductionUpdateMemory) {
  const ir::Func func =
      lower_to(dag_of("matmul:M=4,N=8,K=5"), "reorder C i k j\n", "build_loop_nest");
  EXPECT_TRUE(allocated(func, "C.acc").empty()) << ir::to_text(func);
  expect_agrees(dag_of("matmul:M=4,N=8,K=5"), "reorder C i k j\n");
}

TEST(Accumulators, AnEmptyReductionGivesTheIdentity) {
  te::DagBuilder b("empty");
  const ir::Buffer x = b.input("X", DType::kI32, {3});
  const te::Dag dag =
      b.build({b.reduce("Y", te::Reducer::kSum, {{"i", 3}}, {{"r", 0}},
                        [&](const te::Indices& i, const te::Indices&) { return te::at(x, i); })});
  expect_agrees(dag, "");
  expect_agrees(dag, "annotate Y i vectorize\n");
}

TEST(Padding, InteriorRunsWithoutSelects) {
  const ir::Func whole =
      lower_to(dag_of("conv2d:N=1,H=16,W=16,CI=4,CO=4,KH=3,KW=3,P=1"), "", "simplify_loops");
  EXPECT_GT(count_selects(whole), 0);
  const ir::Func cut = lower_to(dag_of("conv2d:N=1,H=16,W=16,CI=4,CO=4,KH=3,KW=3,P=1"), "");
  EXPECT_EQ(count_selects(cut), 0) << ir::to_text(cut);
}

TEST(Pack, StoresEveryElementInItsBlock) {
  HostTensor t(DType::kI16, {5, 3});
  for (std::int64_t i = 0; i < t.size(); ++i) t.set_int(i, i + 1);
  const schedule::Layout layout = schedule::layout_from_text("d0/2 d1 d0%2").value();
  const HostTensor packed = pack(t, layout);
  ASSERT_EQ(packed.shape(), (Shape{3, 3, 2}));
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      const std::int64_t want = i < 5 ? i * 3 + j + 1 : 0;  // the block is filled up with zeros
      EXPECT_EQ(packed.get_int((i / 2 * 3 + j) * 2 + i % 2), want);
    }
  }
}

TEST(Pack, InPartsIsTheSame) {
  Rng rng(5);
  for (const Shape& shape : {Shape{7, 5, 6}, Shape{11}, Shape{4, 0, 3}, Shape{1, 1, 9}}) {
    const HostTensor x = random_tensor(DType::kF32, shape, rng);
    const char* text = shape.size() == 1 ? "d0/4 d0%4" : "d2/4 d0/3 d1 d0%3 d2%4";
    const schedule::Layout layout = schedule::layout_from_text(text).value();
    const HostTensor whole = pack(x, layout);
    const Packer packer(x, layout);
    HostTensor parts = packer.make();
    // Last part first.
    for (std::size_t end = packer.rows(); end > 0;) {
      const std::size_t begin = end > 4 ? end - 4 : 0;
      packer.copy(begin, end, parts);
      end = begin;
    }
    ASSERT_EQ(parts.shape(), whole.shape());
    EXPECT_EQ(std::memcmp(parts.data(), whole.data(), whole.bytes()), 0) << to_text(shape);
  }
}

TEST(Pack, KeepsEveryType) {
  for (const DType t : {DType::kBool, DType::kI8, DType::kU8, DType::kI64, DType::kU64, DType::kF16,
                        DType::kBF16, DType::kF64}) {
    Rng rng(3);
    const HostTensor x = random_tensor(t, {4, 6}, rng);
    const HostTensor packed = pack(x, schedule::layout_from_text("d1 d0").value());
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 6; ++j) {
        if (is_float(t)) {
          EXPECT_EQ(packed.get_float(j * 4 + i), x.get_float(i * 6 + j));
        } else {
          EXPECT_EQ(packed.get_int(j * 4 + i), x.get_int(i * 6 + j));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::lower
