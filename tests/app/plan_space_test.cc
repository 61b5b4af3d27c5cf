// The plans of a network as a space that every policy searches.
#include "tessera/frontend/task/plan_space.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/app/tune/plan_scorer.h"
#include "tessera/scheduling/decide/walk.h"
#include "tessera/search/policy.h"

namespace tessera::app {
namespace {

constexpr const char* kNetwork = "zoo:squeezenet1_1@size=40,classes=10";

graph::Graph imported(const char* name = kNetwork) { return import_graph(name, {}).value(); }

task::PlanSpace plan_space(const char* name = kNetwork) {
  return task::PlanSpace::make(imported(name), passes_for({}), {}).value();
}

// No decision may be asked before the graph that plans share is kept.
TEST(PlanSpace, HasEveryPointOfTheModel) {
  for (const char* name :
       {"zoo:shufflenet_v2_x1_0@size=32", kNetwork, "zoo:dcgan", "zoo:mobilenet_v2@size=32"}) {
    const auto whole = task::apply_plan(imported(name), passes_for({}), {}, plan::Decider());
    ASSERT_TRUE(whole.ok());
    plan::Decisions wanted, preferred;
    for (const plan::Decided& d : whole->decided) wanted[d.point.name] = d.text();
    const task::PlanSpace space = plan_space(name);
    EXPECT_EQ(space.rules(), wanted) << name;
    for (const decide::Point& p : space.points()) preferred[p.name] = p.label(p.preferred);
    EXPECT_EQ(preferred, wanted) << name;
  }
}

// What was decided outside of plans before: what quantized products multiply, and how the kernels
// of a device follow each other.
TEST(PlanSpace, QuantizedProductsAndLaunchesAreDecided) {
  CompileOptions options;
  options.integer_products = 4;
  graph::PassOptions passes = passes_for(options);
  passes.rules.records_launches = true;
  const graph::Graph mlp = import_undecided("zoo:mlp@quant=qdq", options).value();
  const task::PlanSpace space = task::PlanSpace::make(mlp, passes, {}).value();
  EXPECT_EQ(space.rules().at("integer /fc1/Gemm"), plan::kBytes);
  EXPECT_EQ(space.rules().at("launches"), plan::kTimed);
  const plan::Decisions otherwise = {{"integer /fc1/Gemm", plan::kFloats},
                                     {"launches", plan::kFetching}};
  const decide::Candidate candidate = space.candidate(otherwise);
  EXPECT_EQ(space.decisions(candidate), otherwise);
  const auto multiplies = [&](const plan::Decisions& decisions, DType type) {
    const auto planned = space.apply(decisions);
    int count = 0;
    for (const graph::Node& n : planned->graph.nodes) {
      const bool product =
          n.op->is(graph::fact::kContracts) || std::string_view(n.op->name) == "contract_stored";
      count += product && planned->graph.type(n.outputs[0]).dtype == type ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(multiplies({}, DType::kI32), 3);
  EXPECT_EQ(multiplies(otherwise, DType::kI32), 2);
  EXPECT_EQ(multiplies(otherwise, DType::kF32), 1);
  EXPECT_EQ(space.apply({})->tasks.launches, plan::kTimed);
  EXPECT_EQ(space.apply(otherwise)->tasks.launches, plan::kFetching);
}

TEST(PlanSpace, KindsAreLeftToTheRules) {
  const auto space =
      task::PlanSpace::make(imported(), passes_for({}), {}, {decide::PointKind::kFusion}).value();
  EXPECT_LT(space.points().size(), space.rules().size());
  for (const decide::Point& p : space.points()) EXPECT_NE(p.kind, decide::PointKind::kFusion);
}

// A candidate is its decisions, its text and the kernels of the model with them.
TEST(PlanSpace, CandidatesReadBackAndBuild) {
  const task::PlanSpace space = plan_space();
  EXPECT_TRUE(space.decisions(space.preferred()).empty());
  EXPECT_EQ(space.candidate({{"layout of nothing", "first"}}), space.preferred());
  Rng rng(1);
  std::set<std::string> kernels;
  decide::Candidate parent = space.preferred();
  for (int i = 0; i < 4; ++i) {
    const decide::Candidate drawn =
        i % 2 == 0 ? space.sample(rng) : space.mutate(parent, rng).value();
    const plan::Decisions decisions = space.decisions(drawn);
    SCOPED_TRACE(plan::to_text(decisions));
    EXPECT_TRUE(space.check(drawn).ok());
    EXPECT_EQ(space.settled(drawn), drawn);
    EXPECT_EQ(space.candidate(decisions), drawn);
    EXPECT_EQ(space.parse(space.to_text(drawn)).value(), drawn);
    const auto planned = space.apply(decisions);
    ASSERT_TRUE(planned.ok()) << planned.error().message;
    // What differs from the rules is decided as the candidate says.
    std::size_t found = 0;
    for (const plan::Decided& d : planned->decided) {
      const auto given = decisions.find(d.point.name);
      if (given == decisions.end()) continue;
      EXPECT_EQ(d.text(), given->second) << d.point.name;
      ++found;
    }
    EXPECT_EQ(found, decisions.size());
    std::string all;
    for (const task::Task& t : planned->tasks.tasks) all += t.key;
    kernels.insert(all);
    parent = drawn;
  }
  EXPECT_GE(kernels.size(), 3u);
}

TEST(PlanSpace, WalksReachWhatIsDrawn) {
  const task::PlanSpace space = plan_space("zoo:lenet");
  Rng rng(1);
  for (int i = 0; i < 3; ++i) {
    const decide::Candidate drawn = space.sample(rng);
    decide::Walk walk(*space.sketches()[0]);
    while (!walk.done()) {
      const std::int32_t wanted = drawn.choice[walk.next()];
      ASSERT_TRUE(std::binary_search(walk.legal().begin(), walk.legal().end(), wanted));
      walk.take(wanted);
    }
    EXPECT_EQ(walk.choice(), drawn.choice);
  }
}

// Kernels take what their names say; nothing is measured.
double seconds_of(const std::string& key) {
  return 1e-6 * static_cast<double>(1 + std::hash<std::string>()(key) % 9);
}

class EachPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(EachPolicy, ProposesLegalPlansAndNoneTwice) {
  PlanCosts costs(plan_space("zoo:lenet"));
  ASSERT_TRUE(visit_neighbours(costs, [] { return false; }).ok());
  std::map<std::string, double> seconds;
  for (const task::Task& t : costs.tasks()) seconds[t.key] = seconds_of(t.key);
  costs.set_seconds(seconds);
  SumScorer scorer(costs);
  search::PolicyOptions options;
  options.population = 6;
  options.generations = 1;
  options.draws = 6;
  const task::PlanSpace& space = costs.space();
  const auto policy = search::find_policy(GetParam()).value()->make(space, scorer, options);
  std::set<std::string> seen;
  for (int round = 0; round < 3; ++round) {
    const std::vector<decide::Candidate> plans = policy->propose(3);
    EXPECT_EQ(plans.size(), 3u);
    std::vector<search::Observation> observed;
    for (const decide::Candidate& c : plans) {
      EXPECT_TRUE(space.check(c).ok());
      EXPECT_EQ(space.settled(c), c);
      EXPECT_TRUE(seen.insert(space.to_text(c)).second);
      EXPECT_TRUE(costs.tasks_of(space.decisions(c)).ok());
      observed.push_back({c, -static_cast<double>(scorer.score({&c, 1})[0]), false});
    }
    policy->observe(observed);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const search::PolicyEntry& entry : search::policy_table()) out.emplace_back(entry.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Table, EachPolicy, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::app
