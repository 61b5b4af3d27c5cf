// Features of GPU schedules against values worked out by hand.
#include <gtest/gtest.h>

#include "feature_case.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::feature {
namespace {

constexpr double kNear = 1e-3;

std::vector<NamedRow> launch_rows(const schedule::State& state) {
  const target::Target h200 = target::find_target("h200").value();
  std::vector<float> values;
  const auto done = extract(state, h200, FeatureKind::kLaunch, &values);
  EXPECT_TRUE(done.ok()) << done.error().message;
  const std::vector<std::string>& names = feature_names(FeatureKind::kLaunch);
  EXPECT_EQ(values.size() % names.size(), 0u);
  std::vector<NamedRow> rows(values.size() / names.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    rows[i / names.size()][names[i % names.size()]] = values[i];
  return rows;
}

// 32 x 64 elements a block, 8 x 16 threads with 4 x 4 each; A through shared memory, 8 columns of
// it at a time.
const char* const kTiled = R"(cache_write C local
split C i 8 4
split C j 16 4
reorder C i.0 j.0 i.1 j.1 i.2 j.2
annotate C i.0 blockIdx.y
annotate C j.0 blockIdx.x
annotate C i.1 threadIdx.y
annotate C j.1 threadIdx.x
compute_at C.local C j.1
split C.local k 8
reorder C.local k.0 k.1 i j
cache_read A shared C.local
compute_at A.shared C.local k.0
fuse A.shared d0 d1
split A.shared d0@d1 8 16
annotate A.shared d0@d1.1 threadIdx.y
annotate A.shared d0@d1.2 threadIdx.x
)";

class TiledProduct : public ::testing::Test {
 protected:
  TiledProduct() : rows_(launch_rows(state_of(product_dag(256, 512, 64), kTiled))) {
    EXPECT_EQ(rows_.size(), 3u);  // the copy, the sums, the result
    rows_.resize(3);
  }
  std::vector<NamedRow> rows_;
};

TEST_F(TiledProduct, BlocksAndThreadsAreThoseOfTheLaunch) {
  for (NamedRow& row : rows_) {
    EXPECT_EQ(row["is_gpu"], 1);
    EXPECT_NEAR(row["launches"], log_of(1), kNear);
    EXPECT_NEAR(row["launch_blocks"], log_of(8 * 8), kNear);
    EXPECT_NEAR(row["launch_threads"], log_of(128), kNear);
    EXPECT_NEAR(row["launch_warps"], log_of(4), kNear);
    EXPECT_NEAR(row["blockIdx_x_len"], log_of(8), kNear);
    EXPECT_NEAR(row["threadIdx_x_len"], log_of(16), kNear);
    EXPECT_NEAR(row["threadIdx_y_len"], log_of(8), kNear);
  }
}

// The threads of a block copy together what all of them need.
TEST_F(TiledProduct, SharedStagesAreComputedOnceABlock) {
  EXPECT_EQ(rows_[0]["is_shared_stage"], 1);
  EXPECT_NEAR(rows_[0]["launch_shared_bytes"], log_of(32 * 8 * 4), kNear);
  EXPECT_NEAR(rows_[0]["outer_prod"], log_of(64 * 8 * 32 * 8), kNear);
  EXPECT_NEAR(rows_[0]["alloc_size"], log_of(32 * 8 * 4), kNear);
  EXPECT_NEAR(rows_[0]["barriers"], log_of(8), kNear);
}

TEST_F(TiledProduct, SumsStayInTheRegistersOfAThread) {
  EXPECT_EQ(rows_[1]["is_local_stage"], 1);
  EXPECT_NEAR(rows_[1]["launch_registers"], log_of(24 + 16), kNear);
  EXPECT_NEAR(rows_[1]["thread_work"], log_of(2 * 16 * 64), kNear);
  EXPECT_NEAR(rows_[1]["float_mad"], log_of(256.0 * 512 * 64), 0.01);
}

// 132 cores hold 64 blocks at once: less than one wave.
TEST_F(TiledProduct, WavesFollowFromTheMachine) {
  EXPECT_NEAR(rows_[2]["blocks_per_core"], log_of(64.0 / 132), kNear);
  EXPECT_LT(rows_[2]["waves"], log_of(1));
  EXPECT_GT(rows_[2]["wave_tail"], log_of(1));
  EXPECT_GT(rows_[2]["occupancy"], 0.5);
}

// Threads side by side write pieces of 16 bytes that are 16 bytes apart, one element at a time.
TEST_F(TiledProduct, SectorsSayHowAWarpAccessesMemory) {
  EXPECT_NEAR(rows_[2]["write_sectors"], log_of(8), kNear);
  const auto apart = launch_rows(
      state_of(dag_of("eltwise:N=4096,fn=relu"), "split Y i 32\nannotate Y i.0 threadIdx.x\n"));
  EXPECT_NEAR(apart.at(0).at("read_sectors"), log_of(32), kNear);
  const auto dense = launch_rows(state_of(
      dag_of("eltwise:N=4096,fn=relu"),
      "split Y i 32 4\nannotate Y i.0 blockIdx.x\nannotate Y i.1 threadIdx.x\nannotate Y i.2 "
      "vectorize\n"));
  EXPECT_NEAR(dense.at(0).at("read_sectors"), log_of(16), kNear);
  EXPECT_NEAR(dense.at(0).at("access_bytes"), log_of(16), kNear);
}

// On CPUs the columns of statements are as they always were.
TEST(LaunchRows, BeginWithThoseOfStatements) {
  const schedule::State state = state_of(product_dag(16, 16, 16), "");
  std::vector<float> plain, launch;
  ASSERT_TRUE(extract(state, test_target(), FeatureKind::kStatement, &plain).ok());
  ASSERT_TRUE(extract(state, test_target(), FeatureKind::kLaunch, &launch).ok());
  EXPECT_TRUE(std::equal(plain.begin(), plain.end(), launch.begin()));
  EXPECT_EQ(launch.size(), feature_names(FeatureKind::kLaunch).size());
}

// Candidates of every kind of GPU sketch have finite features that tell them apart.
TEST(LaunchRows, CandidatesHaveFeatures) {
  const target::Target h200 = target::find_target("h200").value();
  for (const char* spec :
       {"matmul:M=128,N=128,K=128", "softmax:R=64,C=128", "eltwise:N=4096,fn=relu",
        "conv2d:N=1,H=14,W=14,CI=32,CO=32,KH=3,KW=3,P=1"}) {
    const te::Dag dag = dag_of(spec);
    const space::Space space = space::make_space(dag, h200).value();
    Rng rng(1);
    for (int i = 0; i < 20; ++i) {
      const auto steps = space.schedule(space.sample(rng));
      ASSERT_TRUE(steps.ok()) << steps.error().message;
      const auto state = schedule::apply(dag, *steps);
      ASSERT_TRUE(state.ok()) << state.error().message;
      std::vector<float> values;
      const auto done = extract(*state, h200, FeatureKind::kLaunch, &values);
      ASSERT_TRUE(done.ok()) << spec << ": " << done.error().message;
      for (const float v : values) ASSERT_TRUE(std::isfinite(v)) << spec;
    }
  }
}

}  // namespace
}  // namespace tessera::feature
