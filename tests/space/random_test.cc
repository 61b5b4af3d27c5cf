// Random expressions: whatever they are, the chosen schedule is legal and computes them.
#include <gtest/gtest.h>

#include "tessera/scheduling/space/default_schedule.h"
#include "tests/fuzz/check_case.h"

namespace tessera::space {
namespace {

TEST(RandomDags, AreCorrect) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Rng rng(seed);
    const fuzz::RandomDag dag = fuzz::random_dag(rng);
    target::Target target = target::host();
    target.cores = static_cast<int>(rng.between(1, 64));
    const auto schedule = default_schedule(dag.dag, target);
    ASSERT_TRUE(schedule.ok()) << seed << ": " << schedule.error().message;
    EXPECT_EQ(fuzz::check_case(dag, *schedule, {.compile = seed % 20 == 0}), "")
        << "seed " << seed << "\n"
        << te::to_text(dag.dag) << schedule::to_text(*schedule);
  }
}

}  // namespace
}  // namespace tessera::space
