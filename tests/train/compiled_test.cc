// What search computes with a network against what training computed: code compiled by Tessera
// against libtorch, each with its own batches and padding.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/learn/infer/network_scorer.h"
#include "tessera/learn/train/trainer.h"
#include "tests/infer/random_network.h"
#include "tests/train/memory_store.h"

namespace tessera::train {
namespace {

struct Case {
  std::string name, network;
  nn::Hyper hyper;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const nn::NetworkEntry& entry : nn::network_table()) {
    out.push_back({entry.name, entry.name, {}});
  }
  out.push_back({"atformer_unmasked",
                 "atformer",
                 {{"hidden", 16}, {"heads", 2}, {"ffn", 24}, {"layers", 1}, {"masked", 0}}});
  return out;
}

// The same candidates as training reads them.
MemoryStore store_of(const feature::FeatureSet& set, feature::Rows kind) {
  MemoryStore store(kind, static_cast<std::int64_t>(set.columns),
                    static_cast<std::int64_t>(set.context_columns));
  std::size_t row = 0;
  for (std::size_t i = 0; i < set.candidates(); ++i) {
    const auto count = static_cast<std::size_t>(set.row_count[i]);
    const float* rows = set.values.data() + row * set.columns;
    const float* context = set.context.data() + i * set.context_columns;
    MemoryStore::Item item;
    item.rows.assign(rows, rows + count * set.columns);
    if (kind == feature::Rows::kLoop) {
      const std::int16_t* parents = set.parents.data() + row;
      item.parents.assign(parents, parents + count);
    }
    item.row_count = set.row_count[i];
    item.task = static_cast<std::int32_t>(i);  // contexts are by task
    item.seconds = item.label = 1;
    store.items.push_back(std::move(item));
    store.contexts.emplace_back(context, context + set.context_columns);
    row += count;
  }
  return store;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  float largest = 0;
  for (const float x : want) largest = std::max(largest, std::abs(x));
  ASSERT_GT(largest, 0);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-4F * largest) << "candidate " << i;
  }
}

class CompiledNetwork : public ::testing::TestWithParam<Case> {};

TEST_P(CompiledNetwork, EqualsTorch) {
  nn::TrainedNetwork network =
      infer::testing::random_network(GetParam().network, 19, 3, true, 5, GetParam().hyper);
  network.row_schema = "rows";
  network.context_schema = "context";
  const feature::Rows rows = nn::find_network(GetParam().network).value()->rows;
  const feature::FeatureSet set = infer::testing::random_features(network, 40, 20, 6);
  const Predictions want =
      predict(store_of(set, rows), network, TraineeOptions{.threads = 1}).value();
  const auto scorer = infer::NetworkScorer::make(network, 1);
  ASSERT_TRUE(scorer.ok()) << scorer.error().message;
  const auto got = (*scorer)->run(set);
  ASSERT_TRUE(got.ok()) << got.error().message;
  expect_close(got->score, want.score);
  expect_close(got->validity, want.validity);
  expect_close(got->log_time, want.log_time);
}

INSTANTIATE_TEST_SUITE_P(Table, CompiledNetwork, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace tessera::train
