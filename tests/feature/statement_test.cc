// The 164 statement features against values worked out by hand.
#include <set>

#include <gtest/gtest.h>

#include "feature_case.h"
#include "tessera/scheduling/feature/feature_set.h"

namespace tessera::feature {
namespace {

constexpr double kNear = 1e-3;

// The published example: 128 x 256 x 64, nothing split.
class NaiveProduct : public ::testing::Test {
 protected:
  NaiveProduct() {
    const auto rows = rows_of(state_of(product_dag(128, 256, 64), ""), FeatureKind::kStatement);
    EXPECT_EQ(rows.size(), 1u);
    row = rows.at(0);
  }
  // The slot of a tensor, told by its distinct bytes.
  std::string slot(double unique_bytes) {
    const int n = slot_with(row, "unique_bytes", log_of(unique_bytes));
    EXPECT_GE(n, 0) << unique_bytes;
    return fmt::format("B{}.", n);
  }
  void expect_slot(double unique_bytes, double lines, double stride, double distance,
                   double distance_bytes, double count) {
    const std::string s = slot(unique_bytes);
    EXPECT_NEAR(row[s + "bytes"], log_of(8388608), kNear);
    EXPECT_NEAR(row[s + "lines"], log_of(lines), kNear);
    EXPECT_NEAR(row[s + "stride"], log_of(stride), kNear);
    EXPECT_NEAR(row[s + "reuse_dis_iter"], log_of(distance), kNear);
    EXPECT_NEAR(row[s + "reuse_dis_bytes"], log_of(distance_bytes), kNear);
    EXPECT_NEAR(row[s + "reuse_ct"], log_of(count), kNear);
    EXPECT_EQ(row[s + "reuse_loop"], 1);
    EXPECT_EQ(row[s + "reuse_serial"] + row[s + "reuse_none"], 0);
    EXPECT_NEAR(row[s + "bytes_d_reuse_ct"], log_of(8388608 / count), kNear);
  }
  NamedRow row;
};

// Mended: the original never sees a multiply-add and counts 2,097,152 of each of its halves.
TEST_F(NaiveProduct, Operations) {
  EXPECT_NEAR(row["float_mad"], 21.0, kNear);
  EXPECT_EQ(row["float_addsub"] + row["float_mul"] + row["float_math_func"], 0);
  EXPECT_EQ(row["int_addsub"] + row["int_mul"] + row["select_op"] + row["bool_op"], 0);
}

TEST_F(NaiveProduct, Loops) {
  EXPECT_NEAR(row["num_loops"], 2.0, kNear);
  EXPECT_NEAR(row["outer_prod"], log_of(2097152), kNear);
  EXPECT_EQ(row["alloc_size"] + row["alloc_prod"], 0);
  EXPECT_EQ(row["alloc_outer_prod"] + row["alloc_inner_prod"], 0);
  EXPECT_EQ(row["vec_type_none"] + row["unroll_type_none"] + row["parallel_type_none"], 3);
  EXPECT_EQ(row["auto_unroll_max_step"], 0);
}

TEST_F(NaiveProduct, ResultIsReusedByTheSum) {
  expect_slot(131072, 2048, 0, 1, 12, 64);
  EXPECT_EQ(row[slot(131072) + "acc_read_write"], 1);
}

TEST_F(NaiveProduct, RowsAreReusedAcrossColumns) {
  expect_slot(32768, 131072, 1, 64, 516, 256);
  EXPECT_EQ(row[slot(32768) + "acc_read"], 1);
}

// Mended: the original counts the initial value of C beside its update and says 67,840.
TEST_F(NaiveProduct, ColumnsAreReusedAcrossRows) {
  expect_slot(65536, 2097152, 256, 16384, 66816, 128);
}

// Mended: lines of 64 bytes that the region itself covers, whatever was visited last.
TEST_F(NaiveProduct, DistinctLines) {
  EXPECT_NEAR(row[slot(131072) + "unique_lines"], log_of(131072 / 64), kNear);
  EXPECT_NEAR(row[slot(32768) + "unique_lines"], log_of(32768 / 64), kNear);
  EXPECT_NEAR(row[slot(65536) + "unique_lines"], log_of(65536 / 64), kNear);
}

// Mended: operations over bytes where the original divides their logarithms. Inside k are 128
// operations on 516 bytes, inside j 32,768 on 66,816, in all 4,194,304 on 229,376.
TEST_F(NaiveProduct, IntensityCurve) {
  EXPECT_NEAR(row["arith_intensity_curve_0"], log_of(128.0 / 516), kNear);
  EXPECT_NEAR(row["arith_intensity_curve_2"], log_of(128.0 / 516), kNear);
  // log2 of the operations is 7, 15 and 22: sample 4 of 22 * 0.4 = 8.8 lies between the first two.
  const double inner = 128.0 / 516, middle = 32768.0 / 66816;
  EXPECT_NEAR(row["arith_intensity_curve_3"], log_of(inner + (middle - inner) * 1.8 / 8), kNear);
  EXPECT_NEAR(row["arith_intensity_curve_9"], log_of(4194304.0 / 229376), kNear);
}

// i = 8, j = 2 x 16, k = 16 with B packed in panels of 16 columns.
TEST(Statement, PackedTileWorkedOutByHand) {
  const auto rows = rows_of(state_of(product_dag(8, 32, 16),
                                     "layout B d1/16 d0 d1%16\nsplit C j 16\nsplit C i 4\n"
                                     "reorder C j.0 i.0 k i.1 j.1\nannotate C j.0 parallel\n"
                                     "annotate C i.1 unroll\nannotate C j.1 vectorize\n"),
                            FeatureKind::kStatement);
  NamedRow row = rows.at(0);
  EXPECT_NEAR(row["num_loops"], log_of(5), kNear);
  EXPECT_NEAR(row["vec_len"], log_of(16), kNear);
  // j.1 is the innermost spatial loop, i.1 is between others, j.0 the outermost.
  EXPECT_EQ(row["vec_type_inner_spatial"], 1);
  EXPECT_EQ(row["unroll_type_middle_spatial"], 1);
  EXPECT_EQ(row["parallel_type_outer_spatial"], 1);
  // A tile of 4 x 16 sums is 16 registers of 4 lanes; each step of k loads 4 vectors of B, and 4
  // elements of A for all lanes, for 16 multiply-adds.
  EXPECT_NEAR(row["accumulators"], log_of(64), kNear);
  EXPECT_NEAR(row["accumulator_vectors"], log_of(16), kNear);
  EXPECT_NEAR(row["register_use"], log_of(0.5), kNear);
  EXPECT_NEAR(row["body_vector_loads"], log_of(4), kNear);
  EXPECT_NEAR(row["body_broadcasts"], log_of(4), kNear);
  EXPECT_NEAR(row["loads_per_instruction"], log_of(0.5), kNear);
  EXPECT_EQ(row["body_gathers"], 0);
  EXPECT_EQ(row["unit_stride_store"], 1);
  EXPECT_EQ(row["packed_reads"], 1);
  EXPECT_EQ(row["wasted_share"], 0);
  EXPECT_NEAR(row["parts_per_core"], log_of(1), kNear);
  EXPECT_EQ(row["imbalance"], 0);
  EXPECT_EQ(row["vector_fill"], 1);
  // A panel: 16 x 16 of B, 4 x 16 of A, 4 x 16 of C, four bytes each.
  EXPECT_NEAR(row["panel_bytes_per_l1"], log_of(4 * (256 + 64 + 64) / 32768.0), kNear);
}

// 16 rows of 64 columns ahead, of 64: 4 KiB of 16. One fetch for each of 32 x 64 x 64 sums.
TEST(Statement, PrefetchTellsHowFarAndHowOften) {
  const te::Dag dag = product_dag(32, 64, 64);
  NamedRow row = rows_of(state_of(dag, "prefetch C k B 16\n"), FeatureKind::kStatement).at(0);
  EXPECT_EQ(row["prefetches"], 1);
  EXPECT_NEAR(row["prefetch_iterations"], log_of(16), kNear);
  EXPECT_NEAR(row["prefetch_bytes"], log_of(4096), kNear);
  EXPECT_NEAR(row["prefetch_past"], log_of(0.25), kNear);
  EXPECT_NEAR(row["prefetch_count"], log_of(32 * 64 * 64), kNear);
  row = rows_of(state_of(dag, ""), FeatureKind::kStatement).at(0);
  EXPECT_EQ(row["prefetches"] + row["prefetch_iterations"] + row["prefetch_bytes"], 0);
  EXPECT_EQ(row["prefetch_past"] + row["prefetch_count"], 0);
}

TEST(Statement, TailsWasteIterations) {
  NamedRow row = rows_of(state_of(product_dag(10, 32, 16), "split C i 4\nsplit C j 8 tail=peel\n"),
                         FeatureKind::kStatement)
                     .at(0);
  EXPECT_NEAR(row["wasted_share"], 1 - 10.0 / 12, kNear);
  EXPECT_EQ(row["guards"], 1);
  EXPECT_EQ(row["peels"], 0);  // 8 divides 32
}

TEST(Statement, ImbalanceOfThreePartsOnTwoCores) {
  NamedRow row =
      rows_of(state_of(product_dag(3, 32, 16), "annotate C i parallel\n"), FeatureKind::kStatement)
          .at(0);
  EXPECT_NEAR(row["imbalance"], log_of(4.0 / 3 - 1), kNear);
  EXPECT_EQ(row["parallel_type_outer_spatial"], 1);
}

TEST(Statement, CopyIsReadInTheSameLoop) {
  const auto rows = rows_of(state_of(product_dag(8, 32, 16),
                                     "cache_read A local C\nreorder C i k j\n"
                                     "compute_at A.local C i\n"),
                            FeatureKind::kStatement);
  ASSERT_EQ(rows.size(), 2u);  // the copy runs before the sum
  NamedRow copy = rows[0];
  EXPECT_EQ(copy["attached"], 1);
  EXPECT_NEAR(copy["alloc_size"], log_of(16 * 4), kNear);
  EXPECT_NEAR(copy["alloc_outer_prod"], log_of(8), kNear);
  EXPECT_NEAR(copy["alloc_inner_prod"], log_of(16), kNear);
  EXPECT_NEAR(copy["alloc_prod"], log_of(128), kNear);
  NamedRow sum = rows[1];
  EXPECT_EQ(sum["reads_temporary"], 1);
  EXPECT_NEAR(sum["B0.bytes"], log_of(4096 * 4), kNear);
}

TEST(Statement, InlinedStagesHaveNoRow) {
  const te::Dag dag = dag_of("conv2d:N=1,H=10,W=12,CI=4,CO=8,KH=3,KW=3,P=1");
  const auto apart = rows_of(state_of(dag, ""), FeatureKind::kStatement);
  const auto joined = rows_of(state_of(dag, "compute_inline pad\n"), FeatureKind::kStatement);
  EXPECT_EQ(apart.size(), joined.size() + 1);
  EXPECT_EQ(apart.back().at("conditional_reads"), 0);
  EXPECT_EQ(joined.back().at("conditional_reads"), 1);
  EXPECT_GT(joined.back().at("select_op"), 0);
}

TEST(Schema, NamesAreDistinctAndOrdered) {
  for (const FeatureKind kind :
       {FeatureKind::kStatement, FeatureKind::kLoop, FeatureKind::kCurve}) {
    const std::vector<std::string>& names = feature_names(kind);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
    EXPECT_EQ(schema_digest(kind).size(), 16u);
  }
  const std::vector<std::string>& names = feature_names(FeatureKind::kStatement);
  EXPECT_EQ(names[0], "float_mad");
  EXPECT_EQ(names[16], "vec_num");
  EXPECT_EQ(names[57], "B0.acc_read");
  EXPECT_EQ(names[147], "arith_intensity_curve_0");
  EXPECT_EQ(names[163], "auto_unroll_max_step");
  EXPECT_EQ(names[164], "work");
  EXPECT_EQ(names.size(), 233u);
  EXPECT_EQ(feature_names(FeatureKind::kLoop).size(), 43u);
  EXPECT_EQ(feature_names(FeatureKind::kCurve).size(), 640u);
  EXPECT_NE(schema_digest(FeatureKind::kLoop), schema_digest(FeatureKind::kCurve));
}

TEST(Statement, EmptyAndScalarTensorsHaveRows) {
  for (const std::int64_t extent : {0, 1}) {
    const auto rows = rows_of(state_of(product_dag(extent, 4, 4), ""), FeatureKind::kStatement);
    EXPECT_EQ(rows.size(), 1u);
    EXPECT_GT(rows.at(0).at("outer_prod"), 0);
  }
}

TEST(FeatureSet, CountsRowsPerCandidate) {
  FeatureSet set{.columns = 2};
  set.add(std::vector<float>{1, 2, 3, 4});
  set.add(std::vector<float>{5, 6});
  EXPECT_EQ(set.candidates(), 2u);
  EXPECT_EQ(set.rows(), 3u);
  EXPECT_EQ(set.row_count, (std::vector<std::int32_t>{2, 1}));
  set.clear();
  EXPECT_EQ(set.rows(), 0u);
  EXPECT_EQ(set.columns, 2u);
}

}  // namespace
}  // namespace tessera::feature
