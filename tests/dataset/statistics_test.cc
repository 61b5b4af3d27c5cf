#include "tessera/learn/dataset/statistics.h"

#include <gtest/gtest.h>

#include "dataset_case.h"

namespace tessera::dataset {
namespace {

TEST(Statistics, CountTasksNetworksAndOutcomes) {
  Dataset d = plain_dataset(3, 5);  // seconds 1 to 5
  d.machines.push_back({"elsewhere", 4});
  d.examples.back().machine = 1;
  d.examples[0].seconds = 0;
  d.examples[0].outcome = "build_error";
  const Statistics s = statistics_of(d);
  EXPECT_EQ(s.records, 15u);
  EXPECT_EQ(s.valid, 14u);
  EXPECT_EQ(s.machine_records, (std::vector<std::size_t>{14, 1}));
  EXPECT_EQ(s.outcomes, (std::map<std::string, std::size_t>{{"build_error", 1}, {"ok", 14}}));
  ASSERT_EQ(s.tasks.size(), 4u);  // the last task on two machines
  EXPECT_EQ(s.tasks[0].records, 5u);
  EXPECT_EQ(s.tasks[0].valid, 4u);
  EXPECT_EQ(s.tasks[0].best_s, 2);
  EXPECT_EQ(s.tasks[1].median_s, 3);
  ASSERT_EQ(s.networks.size(), 2u);
  EXPECT_EQ(s.networks[0].tasks, 2u);
  EXPECT_EQ(s.networks[0].covered, 2u);
  EXPECT_EQ(s.networks[0].records, 10u);
  EXPECT_EQ(s.networks[0].valid, 9u);
}

TEST(Statistics, OfNothing) {
  const Statistics s = statistics_of({});
  EXPECT_EQ(s.records, 0u);
  EXPECT_EQ(s.spread.median, 0);
  EXPECT_EQ(quantiles_of({4, 1, 3, 2, 5}).median, 3);
  EXPECT_EQ(quantiles_of({4, 1}).most, 4);
}

}  // namespace
}  // namespace tessera::dataset
