// The search over plans by measured shares, and the judges in front of it.
#include "tessera/app/tune/plan_evolution.h"

#include <cmath>
#include <filesystem>
#include <limits>

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

using plan::Decisions;

// Points of two values, the rules take the first.
std::vector<plan::Decided> switches(int count) {
  std::vector<plan::Decided> out;
  for (int i = 0; i < count; ++i) {
    const auto kind = i % 2 == 0 ? plan::PointKind::kSplit : plan::PointKind::kFront;
    plan::Decided d;
    d.point = {kind, "p" + std::to_string(i), {"no", "yes"}, 0};
    d.count = 1;
    out.push_back(std::move(d));
  }
  return out;
}

// Every third point gains, the others lose.
double share_of(const Decisions& plan) {
  double log = 0;
  for (const auto& [key, value] : plan) log += std::stoi(key.substr(1)) % 3 == 0 ? -0.03 : 0.02;
  return std::exp(log);
}

class Oracle final : public PlanJudge {
 public:
  Result<std::vector<double>> judge(const std::vector<Decisions>& plans) override {
    std::vector<double> out;
    out.reserve(plans.size());
    for (const Decisions& p : plans) out.push_back(share_of(p));
    return out;
  }
  std::size_t pool() const override { return 32; }
};

// Plans that are measured until the best of all is.
int plans_until_best(PlanJudge* judge, std::uint64_t seed) {
  const std::vector<plan::Decided> points = switches(18);
  PlanEvolution evolution(points, judge, seed);
  std::set<Decisions> seen;
  for (int i = 1; i < 400; ++i) {
    const auto next = evolution.next();
    if (!next.ok() || !*next) return i;
    EXPECT_TRUE(seen.insert(**next).second) << "no plan is measured twice";
    evolution.observe(**next, share_of(**next));
    if (evolution.best_share() < std::exp(-0.03 * 6) + 1e-9) return i;
  }
  return 400;
}

TEST(PlanEvolution, LeavesFusionToTheRules) {
  std::vector<plan::Decided> points = switches(4);
  points[1].point.kind = plan::PointKind::kFusion;
  PlanEvolution evolution(points, nullptr, 1);
  int drawn = 0;
  for (auto next = evolution.next(); next && *next; next = evolution.next()) {
    EXPECT_FALSE((*next)->contains("p1"));
    evolution.observe(**next, 1);
    ++drawn;
  }
  EXPECT_GE(drawn, 4);
}

TEST(PlanEvolution, FindsTheBestAndAJudgeSavesMeasurements) {
  Oracle oracle;
  int alone = 0, judged = 0;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    alone += plans_until_best(nullptr, seed);
    judged += plans_until_best(&oracle, seed);
  }
  EXPECT_LT(alone, 3 * 400) << "found without a judge";
  EXPECT_LT(judged, alone / 2);
}

TEST(PlanEvolution, PlansThatFailAreLeftAlone) {
  const std::vector<plan::Decided> points = switches(6);
  PlanEvolution evolution(points, nullptr, 1);
  int bad = 0, all = 0;
  for (; all < 40; ++all) {
    const auto next = evolution.next();
    ASSERT_TRUE(next.ok());
    if (!*next) break;
    const bool fails = (*next)->contains("p1");
    bad += fails ? 1 : 0;
    evolution.observe(**next, fails ? std::numeric_limits<double>::infinity() : 1.0);
  }
  EXPECT_LT(bad, all / 3);
  EXPECT_FALSE(evolution.best().contains("p1"));
}

TEST(PlanEvolution, EndsWhereThereIsNothingToDecide) {
  PlanEvolution none({}, nullptr, 1);
  EXPECT_FALSE(none.next().value().has_value());
  const std::vector<plan::Decided> one = switches(1);
  PlanEvolution evolution(one, nullptr, 1);
  const auto only = evolution.next().value();
  ASSERT_TRUE(only.has_value());
  evolution.observe(*only, 0.9);
  EXPECT_FALSE(evolution.next().value().has_value()) << "both plans are known";
  EXPECT_DOUBLE_EQ(evolution.best_share(), 0.9);
}

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
  CompileOptions load;
  graph::Graph imported = import_graph("zoo:squeezenet1_1@size=40,classes=10", load).value();
  PlanCosts costs = PlanCosts::make(imported, passes_for(load), {}).value();
  std::vector<plan::Decided> points = costs.points().value();

  // The first point decided otherwise than by the rules.
  Decisions other() const {
    const plan::Decided& first = points[0];
    return {{first.point.key, first.point.values[1 - first.value]}};
  }
};

TEST(NetworkJudge, OrdersPlansByANetwork) {
  const std::string path = network_file({{"hidden", 8}});
  Subject subject;
  PlanCosts& costs = subject.costs;
  PlanEstimates estimates = PlanEstimates::make({}, target::host(), 1).value();
  const auto judge = NetworkJudge::make(subject.imported, passes_for(subject.load), subject.points,
                                        {path, path}, costs, estimates);
  ASSERT_TRUE(judge.ok()) << judge.error().message;
  const auto scores = (*judge)->judge({{}, subject.other(), {}});
  ASSERT_TRUE(scores.ok()) << scores.error().message;
  ASSERT_EQ(scores->size(), 3u);
  EXPECT_EQ((*scores)[0], (*scores)[2]);
  EXPECT_NE((*scores)[0], (*scores)[1]);
  ASSERT_TRUE(write_file(path, {"nothing"}).ok());
  EXPECT_FALSE(NetworkJudge::make(subject.imported, passes_for(subject.load), subject.points,
                                  {path}, costs, estimates)
                   .ok());
  std::filesystem::remove(path);
}

// Plans of the same kernels are one plan to those who measure.
TEST(SumJudge, OffersNoPlanWhoseKernelsWereMeasured) {
  Subject subject;
  PlanCosts& costs = subject.costs;
  const plan::Decided& first = subject.points[0];
  const Decisions other = subject.other();
  const Decisions same = {{first.point.key, first.point.values[first.value]}};
  for (const Decisions& d : {Decisions{}, other, same}) ASSERT_TRUE(costs.tasks_of(d).ok());
  SumJudge judge(costs);
  EXPECT_EQ(judge.met().size(), 3u);
  judge.observe({}, 1);
  EXPECT_EQ(judge.met(), std::vector<Decisions>{other});
}

// Of two plans the estimate decides, and whole models that were measured correct it.
TEST(NetworkJudge, MeasuredTimesCountMoreThanTheNetwork) {
  const std::string path = network_file({{"hidden", 8}, {"estimate", 1}});
  Subject subject;
  PlanCosts& costs = subject.costs;
  const Decisions other = subject.other();
  const PlanTasks rules = **costs.tasks_of({}), changed = **costs.tasks_of(other);
  PlanEstimates estimates = PlanEstimates::make({}, target::host(), 1).value();
  for (const bool faster : {true, false}) {
    std::map<std::string, double> seconds;
    for (const auto& [key, count] : rules) seconds[key] = 1e-3;
    for (const auto& [key, count] : changed) {
      if (!rules.contains(key)) seconds[key] = faster ? 0.5e-3 : 4e-3;
    }
    costs.set_seconds(seconds);
    const auto judge = NetworkJudge::make(subject.imported, passes_for(subject.load),
                                          subject.points, {path}, costs, estimates);
    ASSERT_TRUE(judge.ok()) << judge.error().message;
    const std::vector<double> scores = (*judge)->judge({{}, other}).value();
    EXPECT_EQ(scores[1] < scores[0], faster);
    (*judge)->observe(other, faster ? 1.5 : 0.5);
    const std::vector<double> corrected = (*judge)->judge({{}, other}).value();
    EXPECT_EQ(corrected[1] < corrected[0], !faster);
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::app
