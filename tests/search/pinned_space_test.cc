#include "tessera/search/pinned_space.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"

namespace tessera::search {
namespace {

TEST(PinnedSpace, OpensEverythingButTheKind) {
  target::Target target = target::host();
  target.cores = 4;
  const auto dag = te::make_dag(te::parse_op_spec("matmul:M=256,N=192,K=128").value());
  ASSERT_TRUE(dag.ok());
  const auto space = space::make_space(*dag, target);
  ASSERT_TRUE(space.ok());
  const space::Space pinned = with_preferred(*space, decide::PointKind::kParallel);
  EXPECT_LT(pinned.size(), space->size());
  EXPECT_EQ(pinned.to_text(pinned.preferred()), space->to_text(space->preferred()));
  Rng rng(1);
  int drawn = 0, differ = 0;
  for (int i = 0; i < 200; ++i) {
    std::optional<decide::Candidate> c = pinned.sample(rng);
    if (i % 2 == 1) c = pinned.mutate(*c, rng);
    if (!c) continue;
    ++drawn;
    const auto same = space->parse(pinned.to_text(*c));
    ASSERT_TRUE(same.ok()) << same.error().message;
    EXPECT_TRUE(space->check(*same).ok());
    EXPECT_EQ(schedule::to_text(pinned.schedule(*c).value()),
              schedule::to_text(space->schedule(*same).value()));
    const std::vector<decide::Point>& decisions = space->points(*same);
    for (std::size_t d = 0; d < decisions.size(); ++d) {
      if (decisions[d].kind == decide::PointKind::kParallel) {
        EXPECT_EQ(same->choice[d], decisions[d].preferred) << decisions[d].name;
      } else if (same->choice[d] != decisions[d].preferred) {
        ++differ;
      }
    }
  }
  EXPECT_GT(drawn, 100);
  EXPECT_GT(differ, drawn);
}

}  // namespace
}  // namespace tessera::search
