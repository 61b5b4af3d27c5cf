#include <map>
#include <set>

#include <gtest/gtest.h>

#include "dataset_case.h"

namespace tessera::dataset {
namespace {

// Tasks by the parts their examples are in.
std::map<std::uint8_t, std::set<std::int32_t>> tasks_by_part(const Dataset& d, const Split& s) {
  std::map<std::uint8_t, std::set<std::int32_t>> out;
  for (std::size_t i = 0; i < d.examples.size(); ++i) {
    out[s.part[i]].insert(d.examples[i].task);
  }
  return out;
}

std::size_t count(const Split& s, std::uint8_t part) {
  return static_cast<std::size_t>(std::count(s.part.begin(), s.part.end(), part));
}

TEST(Split, ByNetworkHoldsTasksOut) {
  const Dataset d = plain_dataset(20, 20);
  SplitOptions o;
  o.holdout = {"n3", "n10"};
  const Split s = split(d, o).value();
  auto parts = tasks_by_part(d, s);
  EXPECT_EQ(parts[kTest], (std::set<std::int32_t>{3, 4, 10, 11}));
  EXPECT_EQ(parts[kValidation].size(), 2u);
  EXPECT_EQ(parts[kTrain].size(), 14u);
  for (const std::int32_t t : parts[kTrain]) {
    EXPECT_FALSE(parts[kTest].contains(t) || parts[kValidation].contains(t)) << t;
  }
  EXPECT_EQ(count(s, kLeftOut), 0u);
  o.holdout = {"unknown"};
  EXPECT_FALSE(split(d, o).ok());
}

TEST(Split, ByTaskAndSeeds) {
  const Dataset d = plain_dataset(40, 20);
  SplitOptions o;
  o.kind = SplitKind::kByTask;
  const Split a = split(d, o).value();
  EXPECT_EQ(tasks_by_part(d, a)[kTest].size(), 4u);
  EXPECT_EQ(split(d, o)->part, a.part);
  o.seed = 2;
  EXPECT_NE(split(d, o)->part, a.part);
}

TEST(Split, WithinTaskTakesAShareOfEach) {
  const Dataset d = plain_dataset(5, 40);
  SplitOptions o;
  o.kind = SplitKind::kWithinTask;
  o.test = 0.25;
  const Split s = split(d, o).value();
  EXPECT_EQ(count(s, kTest), 50u);
  EXPECT_EQ(count(s, kValidation), 20u);
  EXPECT_EQ(tasks_by_part(d, s)[kTest].size(), 5u);
}

TEST(Split, SmallTasksAreNotTested) {
  const Dataset d = plain_dataset(10, 15);
  SplitOptions o;
  o.holdout = {"n3"};
  const Split s = split(d, o).value();
  EXPECT_EQ(count(s, kTest), 0u);
  EXPECT_EQ(count(s, kLeftOut), 30u);  // not trained on either
}

TEST(Split, LimitsOfTrainingAreNested) {
  const Dataset d = plain_dataset(30, 20);
  SplitOptions o;
  o.kind = SplitKind::kByTask;
  o.most_tasks = 8;
  o.most_per_task = 5;
  const Split small = split(d, o).value();
  EXPECT_EQ(tasks_by_part(d, small)[kTrain].size(), 8u);
  EXPECT_EQ(count(small, kTrain), 40u);
  o.most_tasks = 16;
  o.most_per_task = 10;
  const Split large = split(d, o).value();
  EXPECT_EQ(count(large, kTrain), 160u);
  for (std::size_t i = 0; i < small.part.size(); ++i) {
    const bool kept = small.part[i] == kTrain || small.part[i] == kTest;
    EXPECT_TRUE(!kept || large.part[i] == small.part[i]) << i;
  }
}

TEST(Split, UselessShares) {
  SplitOptions o;
  o.test = 0.8;
  o.validation = 0.4;
  EXPECT_FALSE(split(plain_dataset(3, 3), o).ok());
  o.test = -1;
  EXPECT_FALSE(split(plain_dataset(3, 3), o).ok());
  o = {};
  o.kind = SplitKind::kByTask;
  EXPECT_TRUE(split({}, o)->part.empty());
  EXPECT_EQ(split_kind_from_text("by_task").value(), SplitKind::kByTask);
  EXPECT_FALSE(split_kind_from_text("randomly").ok());
}

}  // namespace
}  // namespace tessera::dataset
  EXPECT_EQ(split_kind_from_text("by-task").value(), SplitKind::kByTask);
