#include <gtest/gtest.h>

#include "tessera/learn/graphset/ranking.h"
#include "tests/graphset/graph_case.h"

namespace tessera::graphset {
namespace {

TEST(JoinConfigs, MakesTimesComparable) {
  ConfigGraph a = take_configs(testing::layout_graph(60, 12, 1), {0, 1, 2, 3});
  ConfigGraph b = take_configs(testing::layout_graph(60, 12, 1), {0, 4, 5});
  a.estimate_ns = {100, 110, 120, 130};
  b.estimate_ns = {200, 220, 240};
  const std::vector<std::int64_t> alone = b.runtime_ns;
  for (std::int64_t& t : b.runtime_ns) t *= 2;  // of a machine that was half as fast
  const auto both = join_configs(a, b);
  ASSERT_TRUE(both.ok()) << both.error().message;
  ASSERT_TRUE(check(*both).ok());
  ASSERT_EQ(both->size(), 7);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(both->runtime_ns[4 + i], alone[i]);
  EXPECT_EQ(both->estimate_ns, (std::vector<std::int64_t>{100, 110, 120, 130, 100, 110, 120}));
  EXPECT_LT(merge_equal(*both).size(), both->size());
  b.estimate_ns.clear();
  EXPECT_TRUE(join_configs(a, b)->estimate_ns.empty());
}

TEST(JoinConfigs, RefusesOtherPrograms) {
  const ConfigGraph a = testing::layout_graph(60, 12, 1);
  EXPECT_EQ(join_configs(a, testing::layout_graph(30, 12, 1)).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(join_configs(a, take_configs(a, {1, 2})).ok());
}

}  // namespace
}  // namespace tessera::graphset
