// Loops replaced by instructions on tile registers.
#include <gtest/gtest.h>

#include "schedule_case.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/builder.h"
#include "tests/amx_trap/host_with_tiles.h"

namespace tessera::lower {
namespace {

using te::at;
using te::Indices;

constexpr auto kI8 = DType::kI8, kU8 = DType::kU8, kBF16 = DType::kBF16;

// Y[i, j] = narrow(max(C[i, j], 0)), C[i, j] = sum over k of wide(A[i, k]) * wide(B[k, j]).
te::Dag product(DType a_type, DType b_type, std::int64_t m, std::int64_t n, std::int64_t k,
                bool epilogue) {
  const DType wide = is_float(a_type) ? DType::kF32 : DType::kI32;
  te::DagBuilder b("product");
  const ir::Buffer x = b.input("A", a_type, {m, k});
  const ir::Buffer w = b.constant("B", b_type, {k, n});
  const ir::Buffer c =
      b.reduce("C", te::Reducer::kSum, {{"i", m}, {"j", n}}, {{"k", k}},
               [&](const Indices& i, const Indices& r) {
                 return ir::cast(wide, at(x, {i[0], r[0]})) * ir::cast(wide, at(w, {r[0], i[1]}));
               });
  if (!epilogue) return b.build({c});
  return b.build({b.compute("Y", {{"i", m}, {"j", n}}, [&](const Indices& i) {
    return ir::max(at(c, {i[0], i[1]}), ir::zero({wide, 1}));
  })});
}

struct Tiles {
  int rows = 16, row_tiles = 2, column_tiles = 2, depth = 32;
};

std::string schedule(DType type, const Tiles& t, bool epilogue) {
  const int group = 4 / size_bytes(type);
  const std::string name = is_float(type) ? "tile16x16x32" : "tile16x16x64";
  std::string out = fmt::format("layout B d1/16 d0/{0} d1%16 d0%{0}\n", group);
  if (epilogue) {
    out += fmt::format(
        "split Y i {0} tail=peel\nsplit Y j {1} tail=peel\nreorder Y i.0 j.0 i.1 j.1\nannotate Y "
        "j.1 "
        "vectorize\nannotate Y i.0 parallel\ncompute_at C Y j.0\nsplit C i {2} tail=peel\nsplit C "
        "j 16 "
        "tail=peel\nsplit C k {3} {4}\nreorder C k.0 i.0 j.0 i.1 j.1 k.1 k.2\nannotate C i.0 "
        "unroll\nannotate C j.0 unroll\nannotate C j.1 vectorize\ntensorize C i.1 {5}\n",
        t.rows * t.row_tiles, 16 * t.column_tiles, t.rows, t.depth / group, group, name);
    return out;
  }
  return out + fmt::format(
                   "split C i {0} {1} tail=peel\nsplit C j {2} 16 tail=peel\nsplit C k {3} "
                   "{4}\nreorder C "
                   "i.0 j.0 k.0 i.1 j.1 i.2 j.2 k.1 k.2\nannotate C i.0 parallel\nannotate C i.1 "
                   "unroll\nannotate C j.1 unroll\nannotate C j.2 vectorize\ntensorize C i.2 "
                   "{5}\n",
                   t.row_tiles, t.rows, t.column_tiles, t.depth / group, group, name);
}

void expect_tiles(const te::Dag& dag, const std::string& text) {
  const std::string lowered = ir::to_text(lower_to(dag, text));
  for (const char* call : {"tile_zero(", "tile_load(", "tile_dot(", "tile_store("})
    EXPECT_NE(lowered.find(call), std::string::npos) << lowered;
  EXPECT_EQ(lowered.find("cast<"), std::string::npos) << "not all products are tiles: " << lowered;
  const std::optional<target::Target> tiles = testing::host_with_tiles();
  const target::Target target = tiles.value_or(target::host());
  expect_agrees(dag, text, 1, {.compile = tiles.has_value(), .target = &target});
  if (!tiles) GTEST_SKIP() << "interpreted only: no AMX and no handler for it";
}

struct Case {
  const char* name;
  DType a, b;
  std::int64_t m, n, k;
  Tiles tiles;
};

class TilesOf : public ::testing::TestWithParam<Case> {};

TEST_P(TilesOf, SumsAlone) {
  const Case& c = GetParam();
  expect_tiles(product(c.a, c.b, c.m, c.n, c.k, false), schedule(c.a, c.tiles, false));
}

TEST_P(TilesOf, SumsOfAnEpilogue) {
  const Case& c = GetParam();
  expect_tiles(product(c.a, c.b, c.m, c.n, c.k, true), schedule(c.a, c.tiles, true));
}

INSTANTIATE_TEST_SUITE_P(
    All, TilesOf,
    ::testing::Values(
        Case{"Bf16", kBF16, kBF16, 64, 64, 64, {}},
        Case{"SignedBytes", kI8, kI8, 32, 32, 128, {.depth = 64}},
        Case{"UnsignedLeft", kU8, kI8, 32, 32, 64, {.depth = 64}},
        Case{"UnsignedRight", kI8, kU8, 32, 32, 64, {.depth = 64}},
        Case{"UnsignedBytes", kU8, kU8, 32, 32, 64, {.depth = 64}},
        Case{"RowsLeft", kBF16, kBF16, 49, 32, 32, {.rows = 13}},
        Case{"OneRowLeft", kBF16, kBF16, 33, 32, 32, {}},
        Case{"ColumnsLeft", kBF16, kBF16, 32, 72, 32, {}},
        Case{"OneColumnLeft", kBF16, kBF16, 32, 33, 32, {}},
        Case{"BothLeft", kI8, kU8, 23, 43, 48, {.rows = 7, .depth = 48}},
        Case{"ShortSums", kBF16, kBF16, 32, 32, 24, {.depth = 24}},
        Case{"OneRowOfTiles",
             kBF16,
             kBF16,
             14,
             64,
             96,
             {.rows = 14, .row_tiles = 1, .column_tiles = 4}},
        Case{"OneColumnOfTiles", kBF16, kBF16, 64, 16, 96, {.row_tiles = 4, .column_tiles = 1}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(TensorizeTiles, RefusesWhatIsNoProductOfTiles) {
  const te::Dag dag = product(kBF16, kBF16, 64, 64, 64, false);
  expect_refused(dag, schedule(kBF16, {.row_tiles = 4}, false), "more sums than tile registers");
  expect_refused(dag, schedule(kBF16, {.depth = 64}, false),
                 "a tile has at most 16 x 16 sums of 32 products");
  std::string text = schedule(kBF16, {}, false);
  text.erase(0, text.find('\n') + 1);
  expect_refused(dag, text, "an operand is not packed in the order of the loops");
  expect_refused(product(kI8, kI8, 64, 64, 64, false), schedule(kBF16, {}, false),
                 "the factors are not casts of what it multiplies");
  expect_refused(dag, "tensorize C i tile16x16x32\n", "is not the outermost of a nest");
}

}  // namespace
}  // namespace tessera::lower
