// Regions of attached stages are those that lowering infers.
#include <gtest/gtest.h>

#include "feature_case.h"
#include "tessera/scheduling/feature/program.h"
#include "tessera/scheduling/lower/stage_domains.h"
#include "tessera/scheduling/schedule/inline_stages.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tests/fuzz/random_dag.h"
#include "tests/fuzz/random_schedule.h"

namespace tessera::feature {
namespace {

struct Tally {
  int axes = 0, different = 0, smaller = 0;
};

void compare(const te::Dag& dag, const schedule::Schedule& schedule, Tally* tally) {
  const auto state = schedule::apply(dag, schedule);
  ASSERT_TRUE(state.ok()) << state.error().message;
  const schedule::State inlined = schedule::inline_stages(*state);
  const auto domains = lower::infer_domains(inlined);
  std::pmr::monotonic_buffer_resource memory;
  Program program(&memory);
  const auto built = build_program(*state, 64, &program, &memory);
  if (!domains.ok()) return;
  ASSERT_TRUE(built.ok()) << built.error().message << schedule::to_text(schedule);
  for (const Statement& s : program.statements) {
    const schedule::Stage* stage = inlined.find(s.stage->name());
    const std::vector<std::int64_t>& want = domains->of.at(stage).extents;
    ASSERT_EQ(want.size(), s.extents.size());
    for (std::size_t a = 0; a < want.size(); ++a) {
      const auto expected = static_cast<double>(std::max<std::int64_t>(1, want[a]));
      tally->axes += 1;
      tally->different += s.extents[a] != expected ? 1 : 0;
      tally->smaller += s.extents[a] < expected ? 1 : 0;
    }
  }
}

TEST(Regions, OfChosenSchedulesAreExact) {
  const char* const specs[] = {
      "matmul:M=100,N=90,K=70",
      "conv2d:N=1,H=14,W=14,CI=32,CO=48,KH=3,KW=3,P=1",
      "conv2d:N=1,H=15,W=13,CI=16,CO=24,KH=3,KW=3,S=2,P=1",
      "depthwise:N=1,H=28,W=28,C=32,KH=3,KW=3,P=1",
      "softmax:R=16,C=100",
      "conv2d:N=1,H=14,W=14,CI=16,CO=24,KH=3,KW=3,P=1,algo=winograd4",
      "layernorm:R=16,C=100",
  };
  Tally tally;
  for (const char* spec : specs) {
    const te::Dag dag = dag_of(spec);
    const auto schedule = space::default_schedule(dag, test_target());
    ASSERT_TRUE(schedule.ok());
    compare(dag, *schedule, &tally);
  }
  EXPECT_GT(tally.axes, 20);
  EXPECT_EQ(tally.different, 0);
}

// A tensor read at indices that move at different speeds (P[i] and P[2 * i]) needs a region that
// grows along the loop outside: features show the one at its start. That is rare.
TEST(Regions, OfRandomSchedulesAgree) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    const fuzz::RandomDag dag = fuzz::random_dag(rng);
    compare(dag.dag, fuzz::random_schedule(dag.dag, rng), &tally);
  }
  EXPECT_GT(tally.axes, 1000);
  EXPECT_LE(tally.different, tally.axes / 100) << tally.smaller << " too small of " << tally.axes;
}

}  // namespace
}  // namespace tessera::feature
