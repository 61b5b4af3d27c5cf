#include "tessera/scheduling/feature/step_rows.h"

#include <gtest/gtest.h>

#include "feature_case.h"

namespace tessera::feature {
namespace {

std::vector<NamedRow> steps_of(const te::Dag& dag, const std::string& text) {
  const auto schedule = schedule::schedule_from_text(text);
  EXPECT_TRUE(schedule.ok());
  std::vector<float> values;
  const Result<StepRows> done = append_step_rows(dag, *schedule, &values);
  EXPECT_TRUE(done.ok()) << done.error().message;
  const std::size_t columns = step_names().size();
  EXPECT_EQ(values.size(), done->rows * columns);
  std::vector<NamedRow> rows;
  for (std::size_t r = 0; r < done->rows; ++r) {
    NamedRow row;
    for (std::size_t c = 0; c < columns; ++c) row[step_names()[c]] = values[r * columns + c];
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(StepRows, KindsAreTheVerbsOfTheSteps) {
  ASSERT_EQ(step_kinds().size(), std::variant_size_v<schedule::Step>);
  EXPECT_EQ(step_kinds().front(), "split");
  EXPECT_EQ(step_kinds().back(), "prefetch");
}

TEST(StepRows, ShowPlaceExtentAndNumbers) {
  const auto rows = steps_of(product_dag(8, 32, 16),
                             "cache_read A local C\nsplit C j 4 2 tail=peel\n"
                             "reorder C i j.0 k j.1 j.2\nannotate C j.2 vectorize\n"
                             "compute_at A.local C i\n");
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].at("cache_read"), 1);
  EXPECT_EQ(rows[0].at("stage"), -1);  // the first input: -log2(1 + 1)
  NamedRow split = rows[1];
  EXPECT_EQ(split["split"], 1);
  EXPECT_EQ(split["cache_read"], 0);
  EXPECT_EQ(split["peel"], 1);
  EXPECT_NEAR(split["stage"], log_of(1), 1e-4);  // behind the copy
  EXPECT_NEAR(split["iterator"], log_of(1), 1e-4);
  EXPECT_NEAR(split["extent"], log_of(32), 1e-4);
  EXPECT_NEAR(split["argument_0"], log_of(4), 1e-4);
  EXPECT_NEAR(split["argument_1"], log_of(2), 1e-4);
  EXPECT_EQ(split["argument_2"], 0);
  EXPECT_EQ(split["arguments"], 2);
  EXPECT_NEAR(split["position"], 0.2, 1e-5);
  EXPECT_NEAR(rows[2].at("argument_2"), log_of(4), 1e-4);  // k stood behind the parts of j
  EXPECT_EQ(rows[3].at("is_vectorize"), 1);
  EXPECT_NEAR(rows[3].at("extent"), log_of(2), 1e-4);
  EXPECT_NEAR(rows[4].at("argument_0"), log_of(1), 1e-4);
}

TEST(StepRows, AnEmptyScheduleHasARowOfZeros) {
  const auto rows = steps_of(product_dag(8, 32, 16), "");
  ASSERT_EQ(rows.size(), 1u);
  for (const auto& [name, value] : rows[0]) EXPECT_EQ(value, 0) << name;
}

TEST(StepRows, LongSchedulesAreCutAndCounted) {
  schedule::Schedule schedule;
  for (std::size_t i = 0; i < kMostStepRows + 7; ++i) {
    schedule.steps.push_back(schedule::ComputeRoot{.stage = "C"});
  }
  std::vector<float> values;
  const Result<StepRows> done = append_step_rows(product_dag(4, 4, 4), schedule, &values);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->rows, kMostStepRows);
  EXPECT_EQ(done->cut, 7u);
}

TEST(StepRows, RefusesWhatDoesNotApply) {
  std::vector<float> values = {1};
  schedule::Schedule schedule;
  schedule.steps.push_back(schedule::ComputeRoot{.stage = "C"});
  schedule.steps.push_back(schedule::Split{.stage = "C", .iter = "nothing", .lengths = {4}});
  const Result<StepRows> done = append_step_rows(product_dag(4, 4, 4), schedule, &values);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().message.rfind("step 1 'split C nothing 4'", 0), 0u)
      << done.error().message;
  EXPECT_EQ(values, std::vector<float>{1});
}

}  // namespace
}  // namespace tessera::feature
