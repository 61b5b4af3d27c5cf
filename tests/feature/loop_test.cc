// AutoTVM's features against its example: for i<4, j<8, k<16: C[8i+j] += A[16i+k] * B[8k+j].
#include <gtest/gtest.h>

#include "feature_case.h"

namespace tessera::feature {
namespace {

constexpr double kNear = 1e-3;

// Tensors come largest first: B holds 128 elements, A 64, C 32.
constexpr const char* kA = "B1.";
constexpr const char* kB = "B0.";
constexpr const char* kC = "B2.";

void expect_touch(NamedRow row, const std::string& slot, double stride, double count,
                  double reuse) {
  EXPECT_NEAR(row[slot + "stride"], log_of(stride), kNear) << slot;
  EXPECT_NEAR(row[slot + "count"], log_of(count), kNear) << slot;
  EXPECT_NEAR(row[slot + "reuse"], log_of(reuse), kNear) << slot;
}

TEST(LoopFeatures, CheckExample) {
  auto rows = rows_of(state_of(product_dag(4, 8, 16), ""), FeatureKind::kLoop);
  ASSERT_EQ(rows.size(), 3u);
  const double top_down[] = {4, 32, 512}, bottom_up[] = {512, 128, 16};
  for (std::size_t l = 0; l < 3; ++l) {
    EXPECT_EQ(rows[l]["nest_level"], static_cast<float>(l));
    EXPECT_NEAR(rows[l]["topdown"], log_of(top_down[l]), kNear);
    EXPECT_NEAR(rows[l]["bottomup"], log_of(bottom_up[l]), kNear);
    EXPECT_EQ(rows[l]["is_serial"], 1);
  }
  expect_touch(rows[0], kA, 16, 64, 8);
  expect_touch(rows[0], kB, 0, 128, 4);
  expect_touch(rows[0], kC, 8, 32, 16);
  expect_touch(rows[1], kA, 0, 16, 8);
  expect_touch(rows[1], kB, 1, 128, 1);
  expect_touch(rows[1], kC, 1, 8, 16);
  expect_touch(rows[2], kA, 1, 16, 1);
  expect_touch(rows[2], kB, 8, 16, 1);
  expect_touch(rows[2], kC, 0, 1, 16);
  EXPECT_EQ(rows[1]["add"] + rows[1]["mul"], 0);  // only the innermost loop holds operations
  EXPECT_EQ(rows[2]["add"], 1);
  EXPECT_EQ(rows[2]["mul"], 1);
}

TEST(LoopFeatures, ThreadsShareWhatTheLoopDoesNotSelect) {
  auto rows =
      rows_of(state_of(product_dag(4, 8, 16), "annotate C i parallel\n"), FeatureKind::kLoop);
  EXPECT_EQ(rows[0]["is_parallel"], 1);
  EXPECT_NEAR(rows[0][std::string(kA) + "thread_count"], log_of(4), kNear);
  EXPECT_NEAR(rows[0][std::string(kB) + "thread_reuse"], log_of(4), kNear);
  EXPECT_EQ(rows[1][std::string(kB) + "thread_reuse"], 0);
}

TEST(LoopFeatures, ASharedLoopHasOneRow) {
  const auto rows = rows_of(state_of(product_dag(8, 32, 16),
                                     "cache_read A local C\nreorder C i k j\n"
                                     "compute_at A.local C i\n"),
                            FeatureKind::kLoop);
  EXPECT_EQ(rows.size(), 4u);  // i, the copy's d1, k, j
}

TEST(LoopFeatures, ParentsFormTheTreeOfLoops) {
  Extractor extractor(test_target());
  std::vector<float> rows;
  std::vector<std::int16_t> parents;
  const auto state = state_of(product_dag(8, 32, 16),
                              "cache_read A local C\nreorder C i k j\ncompute_at A.local C i\n");
  ASSERT_TRUE(extractor.extract_loops(state, &rows, &parents).ok());
  EXPECT_EQ(parents, (std::vector<std::int16_t>{-1, 0, 0, 2}));  // i, the copy's d1, k, j
  // Numbers begin anew with each program; rows are those of extract().
  ASSERT_TRUE(extractor.extract_loops(state, &rows, &parents).ok());
  EXPECT_EQ(parents, (std::vector<std::int16_t>{-1, 0, 0, 2, -1, 0, 0, 2}));
  std::vector<float> plain;
  ASSERT_TRUE(extractor.extract(state, FeatureKind::kLoop, &plain).ok());
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.begin() + std::ssize(plain)), plain);
}

TEST(LoopFeatures, AScalarHasARowToo) {
  EXPECT_EQ(rows_of(state_of(product_dag(1, 1, 1), ""), FeatureKind::kLoop).size(), 1u);
  std::vector<float> rows;
  std::vector<std::int16_t> parents;
  const auto scalar = state_of(product_dag(1, 1, 1), "");
  ASSERT_TRUE(Extractor(test_target()).extract_loops(scalar, &rows, &parents).ok());
  EXPECT_EQ(parents, std::vector<std::int16_t>{-1});
}

// Of A: log2 of count is 6, 4, 4 and of reuse 3, 3, 0 from the outside in.
TEST(CurveFeatures, CheckExample) {
  auto rows = rows_of(state_of(product_dag(4, 8, 16), ""), FeatureKind::kCurve);
  ASSERT_EQ(rows.size(), 1u);
  NamedRow row = rows[0];
  EXPECT_EQ(row["B1.count_reuse_5"], 3);
  EXPECT_EQ(row["B1.count_reuse_5_slack"], 1);
  EXPECT_EQ(row["B1.count_reuse_3"], 0);  // no loop has so few elements
  EXPECT_EQ(row["B1.count_reuse_3_slack"], 3);
  EXPECT_EQ(row["B1.reuse_count_2"], 4);
  EXPECT_EQ(row["B1.reuse_count_3"], 6);
  EXPECT_EQ(row["B1.count_topdown_4"], 9);
  EXPECT_EQ(row["B1.topdown_count_2"], 6);
}

}  // namespace
}  // namespace tessera::feature
