// What orders plans before they are built.
#include "tessera/app/tune/plan_scorer.h"

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/learn/graphset/network_inputs.h"
#include "tessera/learn/graphset/node_features.h"
#include "tessera/learn/nn/graph_network_file.h"
#include "tessera/support/files.h"

namespace tessera::app {
namespace {

// Writes a network of random weights.
std::string network_file(const nn::Hyper& hyper) {
  nn::TrainedGraphNetwork network;
  constexpr std::int64_t kColumns = 18 * graphset::kLayoutValues;
  network.spec = nn::make_graph_spec("graphsage", hyper, graphset::kNodeFeatures, kColumns).value();
  network.kind = "layout";
  network.nodes.shift.assign(graphset::kNodeFeatures, 0);
  network.nodes.scale.assign(graphset::kNodeFeatures, 1);
  Rng rng(1);
  const nn::Network built = nn::build_graph_network(network.spec, nn::smallest_shape()).value();
  for (const nn::Parameter& p : built.parameters) {
    network.weights[p.name] = random_tensor(DType::kF32, p.shape, rng);
  }
  // Tests are processes of their own and run at the same time.
  std::string path = fmt::format("{}plan_judge.{}.safetensors", ::testing::TempDir(), getpid());
  EXPECT_TRUE(nn::save_graph_network(network, path).ok());
  return path;
}

// What judges are asked about.
struct Subject {
  graph::PassOptions passes = passes_for({});
  graph::Graph imported = import_graph("zoo:squeezenet1_1@size=40,classes=10", {}).value();
  PlanCosts costs{task::PlanSpace::make(imported, passes, {}).value()};
  decide::Candidate rules = costs.space().preferred();

  // The first point decided otherwise than by the rules.
  decide::Candidate other() const {
    decide::Candidate out = rules;
    out.choice[0] = 1 - out.choice[0];
    return costs.space().settled(out).value();
  }
  const PlanTasks& tasks_of(const decide::Candidate& c) {
    return **costs.tasks_of(costs.space().decisions(c));
  }
};

TEST(NetworkScorer, OrdersPlansByANetwork) {
  const std::string path = network_file({{"hidden", 8}});
  Subject subject;
  PlanEstimates estimates = PlanEstimates::make({}, target::host(), 1).value();
  const auto make = [&](const std::vector<std::string>& files) {
    return NetworkScorer::make(subject.imported, subject.passes, files, subject.costs, estimates);
  };
  const auto scorer = make({path, path});
  ASSERT_TRUE(scorer.ok()) << scorer.error().message;
  EXPECT_TRUE((*scorer)->ready());
  const std::vector<decide::Candidate> plans = {subject.rules, subject.other(), subject.rules};
  const std::vector<float> scores = (*scorer)->score(plans);
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[0], scores[2]);
  EXPECT_NE(scores[0], scores[1]);
  EXPECT_EQ((*scorer)->score({&plans[1], 1})[0], scores[1]) << "whatever stands beside it";
  EXPECT_EQ((*scorer)->scored(), 4);
  ASSERT_TRUE(write_file(path, {"nothing"}).ok());
  EXPECT_FALSE(make({path}).ok());
  std::filesystem::remove(path);
}

TEST(SumScorer, KnowsSharesAndPutsUnknownKernelsLast) {
  Subject subject;
  SumScorer scorer(subject.costs);
  EXPECT_FALSE(scorer.ready()) << "nothing was measured";
  std::map<std::string, double> seconds;
  for (const auto& [key, count] : subject.tasks_of(subject.rules)) seconds[key] = 1e-3;
  subject.costs.set_seconds(seconds);
  EXPECT_TRUE(scorer.ready());
  const std::vector<decide::Candidate> plans = {subject.rules, subject.other()};
  EXPECT_FLOAT_EQ(scorer.score(plans)[0], -1);
  EXPECT_LT(scorer.score(plans)[1], -1) << "its kernels have no times";
  for (const auto& [key, count] : subject.tasks_of(plans[1])) seconds.emplace(key, 1e-6);
  subject.costs.set_seconds(seconds);
  EXPECT_GT(scorer.score(plans)[1], -1);
  EXPECT_EQ(scorer.spread(plans)[0], 0);
  EXPECT_GT(scorer.spread(plans)[1], 0);
  scorer.observe(plans[1], 2);
  EXPECT_LT(scorer.score(plans)[1], -1) << "a whole model was measured";
}

// Of two plans the estimate decides, and whole models that were measured correct it.
TEST(NetworkScorer, MeasuredTimesCountMoreThanTheNetwork) {
  const std::string path = network_file({{"hidden", 8}, {"estimate", 1}});
  Subject subject;
  const std::vector<decide::Candidate> plans = {subject.rules, subject.other()};
  const PlanTasks rules = subject.tasks_of(plans[0]), changed = subject.tasks_of(plans[1]);
  PlanEstimates estimates = PlanEstimates::make({}, target::host(), 1).value();
  for (const bool faster : {true, false}) {
    std::map<std::string, double> seconds;
    for (const auto& [key, count] : rules) seconds[key] = 1e-3;
    for (const auto& [key, count] : changed) {
      if (!rules.contains(key)) seconds[key] = faster ? 0.5e-3 : 4e-3;
    }
    subject.costs.set_seconds(seconds);
    const auto scorer =
        NetworkScorer::make(subject.imported, subject.passes, {path}, subject.costs, estimates);
    ASSERT_TRUE(scorer.ok()) << scorer.error().message;
    const std::vector<float> scores = (*scorer)->score(plans);
    EXPECT_EQ(scores[1] > scores[0], faster);
    (*scorer)->observe(plans[1], faster ? 1.5 : 0.5);
    const std::vector<float> corrected = (*scorer)->score(plans);
    EXPECT_EQ(corrected[1] > corrected[0], !faster);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::app
