#include "tessera/scheduling/feature/stage_reads.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::feature {
namespace {

space::Space space_of(const char* spec) {
  return space::make_space(te::make_dag(te::parse_op_spec(spec).value()).value(), target::host())
      .value();
}

constexpr const char* kSpecs[] = {
    "matmul:M=96,N=64,K=48",
    "softmax:R=16,C=100",
    "conv2d:N=1,H=12,W=12,CI=16,CO=16,KH=3,KW=3,P=1,algo=winograd4",
};

// One extractor that remembers, for several Dags in turns, and one for each program.
TEST(ReadsCache, GivesTheFeaturesThatAreComputedAnew) {
  std::vector<space::Space> spaces;
  for (const char* spec : kSpecs) spaces.push_back(space_of(spec));
  Extractor remembering(target::host());
  Rng rng(4);
  int compared = 0;
  for (int i = 0; i < 120; ++i) {
    const space::Space& space = spaces[static_cast<std::size_t>(i / 10) % spaces.size()];
    const auto steps = space.schedule(space.sample(rng));
    if (!steps.ok()) continue;
    const auto state = schedule::apply(space.dag(), *steps);
    ASSERT_TRUE(state.ok());
    remembering.remember(space.dag());
    for (const FeatureKind kind : {FeatureKind::kStatement, FeatureKind::kLoop}) {
      std::vector<float> kept, anew;
      const bool ok = remembering.extract(*state, kind, &kept).ok();
      ASSERT_EQ(ok, extract(*state, target::host(), kind, &anew).ok());
      EXPECT_EQ(kept, anew) << kSpecs[static_cast<std::size_t>(i / 10) % spaces.size()];
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(ReadsCache, KeepsWhatNoStepRewrote) {
  const space::Space space = space_of(kSpecs[2]);
  ReadsCache cache;
  const schedule::State plain = schedule::initial_state(space.dag());
  cache.look_at(plain);
  EXPECT_EQ(cache.find(plain, plain.stages[0]), nullptr) << "of no Dag yet";
  cache.remember(space.dag());
  cache.look_at(plain);
  const StageReads* first = cache.find(plain, plain.stages[0]);
  ASSERT_NE(first, nullptr);
  const schedule::State again = schedule::initial_state(space.dag());
  cache.look_at(again);
  EXPECT_EQ(cache.find(again, again.stages[0]), first);
  // The same operation in another Dag is another one.
  const space::Space other = space_of(kSpecs[2]);
  const schedule::State theirs = schedule::initial_state(other.dag());
  cache.look_at(theirs);
  EXPECT_EQ(cache.find(theirs, theirs.stages[0]), nullptr);
}

// Reads of one tensor at neighbouring places share most of what indexes them.
TEST(StageReads, HoldEachIndexOnce) {
  const space::Space space = space_of(kSpecs[2]);
  const schedule::State state = schedule::initial_state(space.dag());
  std::size_t reads = 0, indices = 0;
  for (const schedule::Stage& stage : state.stages) {
    StageReads all(std::pmr::get_default_resource());
    ASSERT_TRUE(find_reads(state, stage, &all));
    for (const TensorReads& t : all.tensors) {
      reads += static_cast<std::size_t>(t.reads) * t.rank;
      indices += t.indices.size();
      ASSERT_EQ(t.ends.size(), t.rank);
      EXPECT_EQ(t.rank == 0 ? 0 : t.ends.back(), t.indices.size());
    }
    for (std::size_t a = 0; a < all.expr.nodes.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) EXPECT_FALSE(all.expr.nodes[a] == all.expr.nodes[b]);
    }
  }
  EXPECT_LT(2 * indices, reads);
}

}  // namespace
}  // namespace tessera::feature
