// What Tessera's code computes with a network of graphs against what training computed.
#include <gtest/gtest.h>

#include "tessera/learn/model/graph_scorer.h"
#include "tessera/learn/train/graph_trainer.h"
#include "tests/graphset/graph_case.h"

namespace tessera::train {
namespace {

using graphset::ConfigGraph;

const std::atomic<bool> kGoOn = false;

struct Compiled {
  const char* name;
  const char* network;
  nn::Hyper hyper;
};
std::vector<Compiled> compiled_cases() {
  const nn::Hyper small = {{"hidden", 8}, {"layers", 1}, {"segment", 24}, {"hops", -1}};
  nn::Hyper compare = small, whole = small, places = small, estimate = small;
  compare["compare"] = 1;
  whole["segment"] = 256;  // where training multiplies sparse matrices
  places["places"] = 50;
  estimate["estimate"] = 1;
  return {{"additive", "additive", {}},
          {"pairs", "pairs", {{"hidden", 4}}},
          {"gat", "gat", small},
          {"gcn", "gcn", small},
          {"graphsage", "graphsage", small},
          {"compare", "graphsage", compare},
          {"whole_sage", "graphsage", whole},
          {"whole_gcn", "gcn", whole},
          {"places", "graphsage", places},
          {"estimate", "graphsage", estimate}};
}

class CompiledGraphs : public ::testing::TestWithParam<Compiled> {};

TEST_P(CompiledGraphs, OrderAsTorch) {
  ConfigGraph graph = graphset::merge_equal(graphset::testing::layout_graph(150, 150, 3));
  for (const std::int64_t ns : graph.runtime_ns) graph.estimate_ns.push_back(ns / 100);
  GraphTrainOptions options;
  options.network = GetParam().network;
  options.hyper = GetParam().hyper;
  options.epochs = 2;
  options.share = 0.5;
  options.threads = 1;
  const Result<GraphTrained> trained = train_graphs({graph}, options, nullptr, kGoOn);
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  const auto scorer = model::GraphScorer::make(trained->network, 2);
  ASSERT_TRUE(scorer.ok()) << scorer.error().message;
  const ConfigGraph unseen = graphset::take_side(graph, 0.5, false);
  const Result<std::vector<float>> scores = (*scorer)->score(unseen);
  ASSERT_TRUE(scores.ok()) << scores.error().message;
  const graphset::Ranking ranking = graphset::rank(unseen, *scores);
  EXPECT_EQ(ranking.configs, trained->unseen[0].configs);
  // Sums in another order decide between scores that are nearly equal.
  EXPECT_NEAR(ranking.tau, trained->unseen[0].tau, 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, CompiledGraphs, ::testing::ValuesIn(compiled_cases()),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(GraphScorer, RefusesGraphsThatItCannotRead) {
  GraphTrainOptions options;
  options.network = "additive";
  options.epochs = 1;
  options.threads = 1;
  const Result<GraphTrained> trained =
      train_graphs({graphset::testing::layout_graph(9, 20, 3)}, options, nullptr, kGoOn);
  ASSERT_TRUE(trained.ok()) << trained.error().message;
  const auto scorer = model::GraphScorer::make(trained->network, 1);
  ASSERT_TRUE(scorer.ok());
  EXPECT_FALSE((*scorer)->score(graphset::testing::tile_graph(5, 1)).ok());
  EXPECT_NE((*scorer)
                ->score(graphset::testing::layout_graph(30, 5, 1))
                .error()
                .message.find("the weights are of 3"),
            std::string::npos);
  nn::TrainedGraphNetwork broken = trained->network;
  broken.weights.clear();
  EXPECT_FALSE(model::GraphScorer::make(broken, 1).ok());
}

}  // namespace
}  // namespace tessera::train
