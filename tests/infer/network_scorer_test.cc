#include "tessera/learn/infer/network_scorer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "random_network.h"
#include "tessera/frontend/graph/op.h"
#include "tessera/learn/infer/compiled_network.h"

namespace tessera::infer {
namespace {

using testing::random_features;
using testing::random_network;

// The definition, node by node, for one candidate: score, validity, log_time.
std::vector<double> reference(const nn::TrainedNetwork& network, const feature::FeatureSet& set,
                              std::size_t candidate, std::size_t first_row) {
  const std::int64_t count = set.row_count[candidate];
  const std::int64_t rows = nn::padded_rows(network.spec, count);
  const auto graph = instance_graph(network.spec, network.weights, {.batch = 1, .rows = rows});
  EXPECT_TRUE(graph.ok());
  std::vector<HostTensor> inputs;
  for (const graph::ValueId id : graph->inputs) inputs.emplace_back(DType::kF32, graph->shape(id));
  const auto columns = static_cast<std::size_t>(network.spec.columns);
  for (std::int64_t r = 0; r < std::min(count, rows); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const float x = set.values[(first_row + static_cast<std::size_t>(r)) * columns + c];
      inputs[0].as<float>()[static_cast<std::size_t>(r) * columns + c] =
          (x - network.rows.shift[c]) * network.rows.scale[c];
    }
    inputs[1].as<float>()[r] = 1;
    if (set.parents.empty()) continue;
    const std::int64_t parent = set.parents[first_row + static_cast<std::size_t>(r)];
    if (parent >= 0) inputs.back().as<float>()[parent * rows + r] = 1;
  }
  for (std::size_t c = 0; c < set.context_columns; ++c) {
    const float x = set.context[candidate * set.context_columns + c];
    inputs[2].as<float>()[c] = (x - network.context.shift[c]) * network.context.scale[c];
  }
  const auto out = graph::evaluate(*graph, inputs);
  EXPECT_TRUE(out.ok());
  return {(*out)[0].get_float(0), (*out)[1].get_float(0), (*out)[2].get_float(0)};
}

void expect_reference(const nn::TrainedNetwork& network, const feature::FeatureSet& set,
                      const NetworkOutputs& got) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < set.candidates(); ++i) {
    const std::vector<double> want = reference(network, set, i, row);
    EXPECT_NEAR(got.score[i], want[0], 1e-4 * (1 + std::abs(want[0]))) << i;
    EXPECT_NEAR(got.validity[i], want[1], 1e-4 * (1 + std::abs(want[1]))) << i;
    EXPECT_NEAR(got.log_time[i], want[2], 1e-4 * (1 + std::abs(want[2]))) << i;
    row += static_cast<std::size_t>(set.row_count[i]);
  }
}

std::vector<std::string> all_networks() {
  std::vector<std::string> names;
  for (const nn::NetworkEntry& entry : nn::network_table()) names.emplace_back(entry.name);
  return names;
}

class EveryNetwork : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryNetwork, CompiledAgreesWithItsDefinition) {
  const nn::TrainedNetwork network = random_network(GetParam(), 19, 3, true, 5);
  auto scorer = NetworkScorer::make(network, 2);
  ASSERT_TRUE(scorer.ok()) << scorer.error().message;
  const feature::FeatureSet set = random_features(network, 9, 7, 6);
  const auto got = (*scorer)->run(set);
  ASSERT_TRUE(got.ok()) << got.error().message;
  expect_reference(network, set, *got);
}

TEST_P(EveryNetwork, BatchesAndThreadsDoNotChangeScores) {
  const nn::TrainedNetwork network = random_network(GetParam(), 8, 0, false, 7);
  auto one = NetworkScorer::make(network, 1), two = NetworkScorer::make(network, 2);
  ASSERT_TRUE(one.ok() && two.ok());
  const feature::FeatureSet set = random_features(network, 700, 4, 8);
  const auto a = (*one)->run(set), b = (*two)->run(set);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->score, b->score);
  const std::size_t built = (*one)->instances();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*one)->run(set).ok());
  EXPECT_EQ((*one)->instances(), built);
  EXPECT_LE(built, 4u);
}

INSTANTIATE_TEST_SUITE_P(Networks, EveryNetwork, ::testing::ValuesIn(all_networks()),
                         [](const auto& network) { return network.param; });

TEST(NetworkScorer, NetworksThatSeeTheirPaddingGetTheOneOfTraining) {
  const nn::TrainedNetwork network =
      random_network("atformer", 8, 2, false, 3,
                     {{"hidden", 16}, {"heads", 2}, {"ffn", 16}, {"layers", 1}, {"masked", 0}});
  auto scorer = NetworkScorer::make(network, 1);
  ASSERT_TRUE(scorer.ok());
  const feature::FeatureSet set = random_features(network, 6, 20, 4);
  const auto got = (*scorer)->run(set);
  ASSERT_TRUE(got.ok());
  expect_reference(network, set, *got);
}

TEST(NetworkScorer, ColumnsThatSayNothingAreLeftOutOfProducts) {
  const nn::TrainedNetwork network = random_network("mlp", 40, 3, true, 9);
  const auto pruned = prune_columns(network);
  ASSERT_TRUE(pruned.ok());
  EXPECT_EQ(pruned->columns.size(), 32u);
  EXPECT_EQ(pruned->spec.columns, 32);
  const auto masks = prune_columns(random_network("tabnet", 40, 3, true, 9));
  ASSERT_TRUE(masks.ok());
  EXPECT_EQ(masks->columns.size(), 40u) << "its masks share their weight among all columns";
}

TEST(NetworkScorer, CutsCandidatesThatAreTooLong) {
  const nn::TrainedNetwork network = random_network("sequence", 6, 0, false, 3);
  auto scorer = NetworkScorer::make(network, 1);
  ASSERT_TRUE(scorer.ok());
  feature::FeatureSet set;
  set.columns = 6;
  set.add(std::vector<float>(3000, 0.5f));
  EXPECT_TRUE((*scorer)->run(set).ok());
}

TEST(NetworkScorer, RefusesFeaturesOfOtherSizes) {
  const nn::TrainedNetwork network = random_network("mlp", 8, 2, false, 3);
  auto scorer = NetworkScorer::make(network, 1);
  ASSERT_TRUE(scorer.ok());
  feature::FeatureSet set;
  set.columns = 8;
  set.add(std::vector<float>(16, 1.f));
  EXPECT_EQ((*scorer)->run(set).error().code, ErrorCode::kInvalidArgument) << "no context";
  nn::TrainedNetwork broken = network;
  broken.rows.scale.pop_back();
  EXPECT_EQ(NetworkScorer::make(broken, 1).error().code, ErrorCode::kInvalidArgument);
}

TEST(CompiledNetwork, NamesTheWeightThatIsMissing) {
  const nn::TrainedNetwork network = random_network("mlp", 8, 2, false, 3);
  auto built = nn::build_network(network.spec, {.batch = 1, .rows = 1});
  ASSERT_TRUE(built.ok());
  const std::string missing = built->parameters.back().name;
  std::map<std::string, HostTensor> weights = network.weights;
  weights.erase(missing);
  const auto bound = bind_weights(std::move(*built), weights, "mlp");
  ASSERT_EQ(bound.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bound.error().message.find("mlp: no weight " + missing + " of shape"), 0u)
      << bound.error().message;
}

}  // namespace
}  // namespace tessera::infer
