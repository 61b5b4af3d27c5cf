#include "tessera/learn/train/graph_trainer.h"

#include <gtest/gtest.h>

#include "tests/graphset/graph_case.h"

namespace tessera::train {
namespace {

using graphset::ConfigGraph;
using graphset::testing::layout_graph;
using graphset::testing::tile_graph;

const std::atomic<bool> kGoOn = false;

GraphTrainOptions small(const std::string& network) {
  GraphTrainOptions o;
  o.network = network;
  const bool table = network == "additive" || network == "pairs";
  if (!table) o.hyper = {{"hidden", 16}, {"layers", 2}, {"hops", 0}};
  o.epochs = 12;
  o.list = 32;
  o.lr = table ? 0.05 : 5e-3;
  o.share = 0.6;
  o.threads = 1;
  return o;
}

Result<GraphTrained> trained(const std::vector<ConfigGraph>& graphs, const GraphTrainOptions& o) {
  return train_graphs(graphs, o, nullptr, kGoOn);
}

double unseen_tau(const std::vector<ConfigGraph>& graphs, const GraphTrainOptions& o) {
  const Result<GraphTrained> out = trained(graphs, o);
  EXPECT_TRUE(out.ok()) << out.error().message;
  return out.ok() && !out->unseen.empty() ? out->unseen[0].tau : 0;
}

TEST(GraphTrainer, AdditiveModelLearnsWhatEachPlaceCosts) {
  const double tau = unseen_tau({layout_graph(24, 400, 1)}, small("additive"));
  EXPECT_GT(tau, 0.6);
  EXPECT_LT(tau, 0.98);  // it cannot know what neighbours do to each other
}

TEST(GraphTrainer, MessagesLearnWhatNeighboursDo) {
  const std::vector<ConfigGraph> graphs = {layout_graph(24, 600, 1)};
  GraphTrainOptions options = small("graphsage");
  options.epochs = 30;
  EXPECT_GT(unseen_tau(graphs, options), unseen_tau(graphs, small("additive")) + 0.02);
}

TEST(GraphTrainer, PairsLearn) {
  GraphTrainOptions options = small("pairs");
  options.epochs = 30;
  options.weight_decay = 0.01;
  EXPECT_GT(unseen_tau({layout_graph(24, 600, 1)}, options), 0.5);
}

TEST(GraphTrainer, TablesOfPlacesAreOfOneGraph) {
  GraphTrainOptions options = small("graphsage");
  options.hyper["places"] = 8;
  EXPECT_GT(unseen_tau({layout_graph(24, 400, 1)}, options), 0.6);
  EXPECT_NE(
      trained({layout_graph(36, 50, 1)}, options).error().message.find("the weights are of 8"),
      std::string::npos);
}

TEST(GraphTrainer, JudgesGraphsThatItDidNotSee) {
  GraphTrainOptions options = small("graphsage");
  options.epochs = 40;
  options.share = 1;
  const Result<GraphTrained> out = train_graphs({tile_graph(120, 1), tile_graph(120, 2)}, options,
                                                nullptr, kGoOn, {tile_graph(90, 3)});
  ASSERT_TRUE(out.ok()) << out.error().message;
  ASSERT_EQ(out->unseen.size(), 1U);
  EXPECT_LE(out->unseen[0].configs, 64);  // as many as there are tiles
  EXPECT_GT(out->unseen[0].tau, 0.5);
}

class GraphLosses : public ::testing::TestWithParam<Loss> {};
TEST_P(GraphLosses, AllLearn) {
  GraphTrainOptions options = small("gcn");
  options.loss = GetParam();
  EXPECT_GT(unseen_tau({layout_graph(36, 500, 1)}, options), 0.4);
}
INSTANTIATE_TEST_SUITE_P(All, GraphLosses,
                         ::testing::Values(Loss::kHinge, Loss::kListMle, Loss::kSquared),
                         [](const auto& each) { return std::string(to_text(each.param)); });

TEST(GraphTrainer, EveryNetworkLearns) {
  for (const char* network : {"gat", "gcn", "graphsage"}) {
    GraphTrainOptions options = small(network);
    EXPECT_GT(unseen_tau({layout_graph(36, 500, 1)}, options), 0.5) << network;
    options.hyper["early"] = 0;
    EXPECT_GT(unseen_tau({layout_graph(36, 500, 1)}, options), 0.4) << network;
  }
}

TEST(GraphTrainer, ComparesConfigurations) {
  GraphTrainOptions options = small("graphsage");
  options.hyper["compare"] = 1;
  EXPECT_GT(unseen_tau({layout_graph(36, 500, 1)}, options), 0.5);
}

TEST(GraphTrainer, SegmentsLearnFromWhatOthersSaidLast) {
  GraphTrainOptions options = small("graphsage");
  options.hyper["hops"] = -1;
  options.hyper["segment"] = 16;
  options.epochs = 40;
  const Result<GraphTrained> out = trained({layout_graph(60, 400, 1)}, options);
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->segments, 4);
  EXPECT_EQ(out->largest, 16);
  EXPECT_GT(out->unseen[0].tau, 0.5);
}

TEST(GraphTrainer, TilesOfSeveralKernels) {
  GraphTrainOptions options = small("graphsage");
  options.epochs = 40;
  const std::vector<ConfigGraph> kernels = {tile_graph(120, 1), tile_graph(120, 2)};
  EXPECT_GT(unseen_tau(kernels, options), 0.5);
}

TEST(GraphTrainer, SameSeedSameWeights) {
  GraphTrainOptions options = small("graphsage");
  options.epochs = 2;
  const std::vector<ConfigGraph> graphs = {layout_graph(12, 100, 1)};
  const Result<GraphTrained> a = trained(graphs, options), b = trained(graphs, options);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->tau, b->tau);
  EXPECT_EQ(a->unseen[0].tau, b->unseen[0].tau);
}

TEST(GraphTrainer, RefusesWhatCannotBeLearnt) {
  EXPECT_NE(trained({}, small("gcn")).error().message.find("no graph"), std::string::npos);
  ConfigGraph timeless = layout_graph(12, 10, 1);
  std::fill(timeless.runtime_ns.begin(), timeless.runtime_ns.end(), 0);
  EXPECT_NE(trained({timeless}, small("gcn")).error().message.find("two configurations"),
            std::string::npos);
  EXPECT_NE(trained({layout_graph(12, 10, 1), tile_graph(5, 1)}, small("gcn"))
                .error()
                .message.find("a tile set"),
            std::string::npos);
  GraphTrainOptions unknown = small("gcn");
  unknown.hyper["width"] = 3;
  EXPECT_NE(trained({layout_graph(12, 10, 1)}, unknown).error().message.find("width"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::train
