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
  EXPECT_GE(parts[kValidation].size(), 1u);
  EXPECT_EQ(parts[kTrain].size() + parts[kValidation].size(), 16u);
  for (const std::int32_t t : parts[kTrain]) {
    EXPECT_FALSE(parts[kTest].contains(t) || parts[kValidation].contains(t)) << t;
  }
  EXPECT_EQ(count(s, kLeftOut), 0u);
  o.holdout = {"unknown"};
  EXPECT_FALSE(split(d, o).ok());
}

TEST(Split, ByTaskAndSeeds) {
  const Dataset d = plain_dataset(400, 16);
  SplitOptions o;
  o.kind = SplitKind::kByTask;
  const Split a = split(d, o).value();
  for (const std::uint8_t part : {kTest, kValidation}) {
    EXPECT_NEAR(static_cast<double>(tasks_by_part(d, a)[part].size()), 40, 18);  // 3 deviations
  }
  EXPECT_EQ(split(d, o)->part, a.part);
  o.seed = 2;
  EXPECT_NE(split(d, o)->part, a.part);
}

TEST(Split, WithinTaskTakesAShareOfEach) {
  const Dataset d = plain_dataset(5, 200);
  SplitOptions o;
  o.kind = SplitKind::kWithinTask;
  o.test = 0.25;
  const Split s = split(d, o).value();
  EXPECT_NEAR(static_cast<double>(count(s, kTest)), 250, 42);
  EXPECT_NEAR(static_cast<double>(count(s, kValidation)), 100, 29);
  EXPECT_EQ(tasks_by_part(d, s)[kTest].size(), 5u);
}

// Every second task and every second example of `d`.
Dataset half_of(const Dataset& d) {
  Dataset half;
  half.machines = d.machines;
  for (std::size_t t = 0; t < d.tasks.size(); t += 2) half.tasks.push_back(d.tasks[t]);
  for (std::size_t i = 0; i < d.examples.size(); i += 2) {
    if (d.examples[i].task % 2 != 0) continue;
    half.examples.push_back(d.examples[i]);
    half.examples.back().task /= 2;
  }
  return half;
}

TEST(Split, WhatADatasetGainsMovesNothing) {
  const Dataset d = plain_dataset(60, 64), half = half_of(d);
  for (const SplitKind kind : {SplitKind::kWithinTask, SplitKind::kByTask}) {
    SplitOptions o;
    o.kind = kind;
    const Split before = split(half, o).value(), after = split(d, o).value();
    std::map<std::pair<std::string, std::string>, std::uint8_t> parts;
    for (std::size_t i = 0; i < d.examples.size(); ++i) {
      const Example& e = d.examples[i];
      parts[{d.tasks[static_cast<std::size_t>(e.task)].key, e.candidate}] = after.part[i];
    }
    for (std::size_t i = 0; i < half.examples.size(); ++i) {
      const Example& e = half.examples[i];
      const std::string& key = half.tasks[static_cast<std::size_t>(e.task)].key;
      ASSERT_EQ(before.part[i], (parts.at({key, e.candidate}))) << to_text(kind) << " " << key;
    }
  }
}

TEST(Split, AHandfulOfTasksStillValidates) {
  const Dataset d = plain_dataset(3, 20);
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    SplitOptions o;
    o.holdout = {"n0"};  // tasks 0 and 1
    o.seed = seed;
    EXPECT_EQ(count(split(d, o).value(), kTrain) + count(split(d, o).value(), kValidation), 20u);
    o.kind = SplitKind::kByTask;
    o.test = 0;
    EXPECT_GE(count(split(d, o).value(), kValidation), 20u) << seed;
  }
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
  ASSERT_EQ(tasks_by_part(d, small)[kTrain].size(), 8u);
  EXPECT_EQ(count(small, kTrain), 40u);
  o.most_tasks = 16;
  o.most_per_task = 10;
  const Split large = split(d, o).value();
  ASSERT_EQ(count(large, kTrain), 160u);
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
  EXPECT_EQ(split_kind_from_text("by-task").value(), SplitKind::kByTask);
  EXPECT_FALSE(split_kind_from_text("randomly").ok());
}

}  // namespace
}  // namespace tessera::dataset
