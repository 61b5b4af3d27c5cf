#include "tessera/learn/train/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "tessera/learn/train/prefetch.h"
#include "tests/train/memory_store.h"

namespace tessera::train {
namespace {

nn::NetworkSpec spec_of(const char* network, const nn::Hyper& hyper = {}) {
  return nn::make_spec(network, hyper, 4, 2).value();
}

TEST(Batches, QueriesLeaveOutOtherPartsAndUnreadableExamples) {
  MemoryStore store = MemoryStore::make(feature::Rows::kStatement, 2, 5, 3, 1);
  store.items[1] = {.rows = {0, 0, 0, 0}, .parents = {}, .row_count = 1};
  store.items[7].machine = 1;
  const std::vector<std::uint8_t> part = {0, 0, 0, 0, 1, 0, 0, 0, 2, 3};
  const std::vector<Query> queries = queries_of(store, part, 0);
  ASSERT_EQ(queries.size(), 3);
  EXPECT_EQ(queries[0].examples, (std::vector<std::uint32_t>{0, 2, 3}));
  EXPECT_EQ(queries[1].examples, (std::vector<std::uint32_t>{5, 6}));
  EXPECT_EQ(queries[2].examples, (std::vector<std::uint32_t>{7}));
  EXPECT_EQ(queries[2].machine, 1);
}

TEST(Batches, AnEpochHasEveryExampleOnceInListsOfOneTask) {
  const MemoryStore store = MemoryStore::make(feature::Rows::kStatement, 9, 50, 9, 2);
  const std::vector<std::uint8_t> part(store.size(), 0);
  const ExampleFacts facts = read_facts(store);
  Rng rng(3);
  const std::vector<Step> steps =
      plan_epoch(spec_of("mlp"), queries_of(store, part, 0), facts, 64, 20, rng);
  std::multiset<std::uint32_t> seen;
  for (const Step& step : steps) {
    std::size_t size = 0;
    for (const std::vector<std::uint32_t>& list : step.lists) {
      size += list.size();
      EXPECT_LE(list.size(), 20);
      std::int32_t longest = 0;
      for (const std::uint32_t example : list) {
        seen.insert(example);
        EXPECT_EQ(store[example].task, store[list[0]].task);
        longest = std::max(longest, store[example].row_count);
      }
      EXPECT_LE(nn::padded_rows(spec_of("mlp"), longest), step.rows);
    }
    EXPECT_LE(size, 64);
  }
  ASSERT_EQ(seen.size(), store.size());
  for (std::uint32_t i = 0; i < store.size(); ++i) EXPECT_EQ(seen.count(i), 1);
  EXPECT_LE(steps.size(), 12);  // 450 examples: packs are nearly full
}

// Each with the padding that scoring gives it, whatever else is in its step.
TEST(Batches, LengthsAreNotMixedForNetworksThatSeeTheirPadding) {
  const MemoryStore store = MemoryStore::make(feature::Rows::kStatement, 9, 50, 40, 2);
  const nn::NetworkSpec spec = spec_of("atformer", {{"masked", 0}});
  const ExampleFacts facts = read_facts(store);
  const std::vector<Query> queries =
      queries_of(store, std::vector<std::uint8_t>(store.size(), 0), 0);
  Rng rng(3);
  std::vector<std::uint32_t> all(store.size());
  std::iota(all.begin(), all.end(), 0U);
  for (const std::vector<Step>& steps :
       {plan_epoch(spec, queries, facts, 64, 20, rng), plan_prediction(spec, all, facts, 64)}) {
    std::set<std::uint32_t> seen;
    for (const Step& step : steps) {
      for (const std::vector<std::uint32_t>& list : step.lists) {
        seen.insert(list.begin(), list.end());
        for (const std::uint32_t i : list) {
          EXPECT_EQ(step.rows, nn::padded_rows(spec, store[i].row_count));
        }
      }
    }
    EXPECT_EQ(seen.size(), store.size());
  }
}

TEST(Batches, RowsThatAStepHasNoRoomForAreLeftOut) {
  MemoryStore store(feature::Rows::kLoop, 1, 0);
  store.contexts = {{}};
  store.items.push_back({{1, 2, 3, 4}, {-1, 3, 0, 0}, 4, 0, 0, 0.5F, 1});
  const Step step{.lists = {{0}}, .rows = 3};
  const Batch batch = fill_batch(store, step, {.rows = {{0}, {1}}, .context = {}});
  EXPECT_EQ(std::vector<float>(batch.rows.begin(), batch.rows.begin() + 4),
            (std::vector<float>{1, 2, 3, 1}));  // the last: of the next slot, a repetition
  EXPECT_EQ(std::vector<float>(batch.parents.begin(), batch.parents.begin() + 9),
            (std::vector<float>{0, 0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(Batches, ABatchHoldsNormalisedRowsAndWhatToLearn) {
  const MemoryStore store = MemoryStore::make(feature::Rows::kLoop, 2, 8, 3, 4);
  const Scaling scaling{
      .rows = {{1, 0, 7, 0}, {2, 1, 0, 1}}, .context = {{0, 1}, {1, 3}}, .time_shift = -5};
  const Step step{.lists = {{2, 3}, {9, 8, 12}}, .rows = 4};  // 3 failed
  const Batch batch = fill_batch(store, step, scaling);
  EXPECT_EQ(batch.shape.batch, 32);
  EXPECT_EQ(batch.examples, (std::vector<std::uint32_t>{2, 3, 9, 8, 12}));
  EXPECT_EQ(batch.lists, 2);
  EXPECT_EQ(batch.length, 3);
  EXPECT_EQ(batch.slots, (std::vector<std::int64_t>{0, 0, 0, 2, 3, 4}));
  EXPECT_EQ(batch.member, (std::vector<float>{1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(batch.labels[3], store[9].label);
  EXPECT_EQ(batch.timed[1], 0);
  EXPECT_EQ(batch.log_time[1], 0);
  EXPECT_FLOAT_EQ(batch.log_time[2], std::log2(store[9].seconds) + 5);
  EXPECT_EQ(std::count(batch.weight.begin(), batch.weight.end(), 1.0F), 5);
  const dataset::FeatureView view = store[9];
  for (std::size_t r = 0; r < 4; ++r) {
    const bool real = r < static_cast<std::size_t>(view.row_count);
    EXPECT_EQ(batch.mask[2 * 4 + r], real ? 1 : 0);
    const float* row = batch.rows.data() + (2 * 4 + r) * 4;
    EXPECT_FLOAT_EQ(row[0], real ? (view.rows[r * 4] - 1) * 2 : 0);
    EXPECT_FLOAT_EQ(row[2], 0);
  }
  EXPECT_FLOAT_EQ(batch.context[2 * 2 + 1], (view.context[1] - 1) * 3);
  for (std::size_t parent = 0; parent < 4; ++parent) {
    for (std::size_t child = 0; child < 4; ++child) {
      const bool edge = parent + 1 == child && child < static_cast<std::size_t>(view.row_count);
      EXPECT_EQ(batch.parents[(2 * 4 + parent) * 4 + child], edge ? 1 : 0);
    }
  }
}

TEST(Batches, ScalingIsMeanAndDeviationOfTheTrainingRows) {
  MemoryStore store(feature::Rows::kStatement, 3, 1);
  store.contexts = {{2}, {4}};
  store.items.push_back({{1, 5, 0, 3, 5, 0}, {}, 2, 0, 0, 0.25F, 1});
  store.items.push_back({{5, 5, 0}, {}, 1, 1, 0, 1.0F, 1});
  for (int i = 0; i < 1000; ++i) store.items.push_back({{3, 5, 0}, {}, 1, 1, 0, 0, 0});
  store.items.push_back({{3, 5, 100}, {}, 1, 1, 0, 0, 0});
  const std::vector<std::uint8_t> part(store.size(), 0);
  const Scaling scaling = fit_scaling(store, queries_of(store, part, 0));
  EXPECT_EQ(scaling.time_shift, -1);
  EXPECT_FLOAT_EQ(scaling.rows.shift[0], 3);
  EXPECT_FLOAT_EQ(scaling.rows.scale[0], 1 / std::max(std::sqrt(8.0F / 1004), 0.2F));
  EXPECT_EQ(scaling.rows.shift[1], 5);
  EXPECT_EQ(scaling.rows.scale[1], 0);
  const float rare = (100 - scaling.rows.shift[2]) * scaling.rows.scale[2];
  EXPECT_NEAR(rare, 10, 1e-4);
}

TEST(Batches, PrefetchedOnesComeInOrder) {
  const auto make = [](std::size_t i) {
    Batch batch;
    batch.lists = static_cast<std::int64_t>(i);
    return batch;
  };
  Prefetcher<Batch> all(make, 50, 3, 2);
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(all.next().value().lists, i);
  EXPECT_FALSE(all.next().has_value());
  Prefetcher<Batch> some(make, 50, 2, 2);
  EXPECT_EQ(some.next().value().lists, 0);  // and nobody takes the others
  Prefetcher<Batch> failing([](std::size_t) -> Batch { throw std::runtime_error("no disk"); }, 3,
                            2);
  EXPECT_THROW(failing.next(), std::runtime_error);
}

}  // namespace
}  // namespace tessera::train
