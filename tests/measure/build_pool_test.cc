#include "tessera/trials/measure/build_pool.h"

#include <gtest/gtest.h>

#include "tests/measure/workers.h"

namespace tessera::measure {
namespace {

const char* const kMatmul = "matmul:M=16,N=16,K=16";

Trial trial(std::uint64_t id, const char* steps_text = "") {
  return {.id = id, .task = "t", .steps = steps(steps_text)};
}

TEST(BuildPool, GivesTheCodeOrSaysWhyThereIsNone) {
  BuildPool pool({{"t", dag_of(kMatmul)}}, target::host(), 2, 30);
  pool.submit({trial(1), trial(2, "split Nothing i 4\n"), trial(3, "annotate C i parallel\n")});
  EXPECT_EQ(pool.pending(), 3u);
  const std::vector<Measurement> all = collect_all(pool);
  ASSERT_EQ(all.size(), 3u);
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(all[i].outcome, Outcome::kOk) << all[i].reason;
    EXPECT_FALSE(all[i].built->object.empty());
    EXPECT_TRUE(all[i].samples_s.empty());
  }
  EXPECT_EQ(all[1].outcome, Outcome::kBuildError);
  EXPECT_NE(all[1].reason.find("Nothing"), std::string::npos) << all[1].reason;
  EXPECT_TRUE(all[1].built->object.empty());
}

TEST(BuildPool, GoesOnAfterWhatWasGivenUp) {
  BuildPool pool({{"t", dag_of(kMatmul)}}, target::host(), 1, 30);
  pool.submit({trial(1), trial(2), trial(3)});
  pool.cancel();
  EXPECT_EQ(pool.pending(), 0u);
  EXPECT_TRUE(pool.collect(0).empty());
  const std::vector<Measurement> compared = pool.compare({trial(5), trial(4)});
  ASSERT_EQ(compared.size(), 2u);
  EXPECT_EQ(compared[0].id, 5u);
  EXPECT_EQ(compared[1].id, 4u);
  pool.submit({trial(6)});
  EXPECT_EQ(collect_all(pool)[0].outcome, Outcome::kOk);
}

TEST(BuildPool, EndsACompilerThatTakesTooLong) {
  BuildPool pool({{"t", dag_of("matmul:M=512,N=512,K=512")}}, target::host(), 1, 1e-4);
  pool.submit({trial(1)});
  const std::vector<Measurement> all = collect_all(pool);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].outcome, Outcome::kBuildTimeout) << all[0].reason;
}

}  // namespace
}  // namespace tessera::measure
