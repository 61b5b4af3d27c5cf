// Every network that can be trained guides a search, with weights from a file.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/learn/model/row_schema.h"
#include "tessera/search/task_search.h"
#include "tests/infer/random_network.h"

namespace tessera::search {
namespace {

space::Space matmul_space() {
  const te::OpSpec spec = te::parse_op_spec("matmul:M=64,N=96,K=64").value();
  const target::Target target = target::code_target(target::find_target("neoverse-v1").value(), 1);
  return space::make_space(te::make_dag(spec).value(), target).value();
}

// A file of random weights of a small network that reads what this program computes.
std::string saved(const std::string& name) {
  const char* rows = feature::to_text(nn::find_network(name).value()->rows);
  const model::RowSchema schema = model::row_schema(rows).value();
  nn::TrainedNetwork network =
      infer::testing::random_network(name, schema.columns, schema.context_columns, false, 7);
  network.row_schema = schema.digest;
  network.context_schema = schema.context_digest;
  std::string path = ::testing::TempDir() + "/search_" + name + ".safetensors";
  EXPECT_TRUE(nn::save_network(network, path).ok());
  return path;
}

double mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class TrainedNetwork : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedNetwork, GuidesASearchFromTheFirstTrialOn) {
  const space::Space space = matmul_space();
  LearnerOptions options;
  options.pretrained = {saved(GetParam())};
  options.background = false;
  options.first_fit = 10'000;  // it alone scores
  auto learner = Learner::make(options);
  ASSERT_TRUE(learner.ok()) << learner.error().message;
  PolicyOptions policy;
  policy.random_share = 0;
  policy.with_preferred = false;
  policy.population = 128;
  TaskSearch search(space, **find_policy("evolutionary"), policy, learner->get());
  const std::vector<decide::Candidate> proposed = search.propose(16);
  ASSERT_EQ(proposed.size(), 16u);
  EXPECT_GE((*learner)->state().scored, 128);
  EXPECT_EQ((*learner)->state().last_error, "");
  // What it proposes is what this network likes.
  Scorer& scorer = (*learner)->add_task(space);
  ASSERT_TRUE(scorer.ready());
  Rng rng(3);
  std::vector<decide::Candidate> drawn;
  for (int i = 0; i < 64; ++i) drawn.push_back(space.sample(rng));
  const std::vector<float> of_drawn = scorer.score(drawn), of_proposed = scorer.score(proposed);
  EXPECT_TRUE(std::all_of(of_drawn.begin(), of_drawn.end(),
                          [](float s) { return std::isfinite(s) && std::abs(s) < 1e30f; }));
  EXPECT_GT(mean(of_proposed), mean(of_drawn));
  EXPECT_GT(mean(of_proposed), *std::max_element(of_drawn.begin(), of_drawn.end()) -
                                   0.5 * (*std::max_element(of_drawn.begin(), of_drawn.end()) -
                                          *std::min_element(of_drawn.begin(), of_drawn.end())));
  // And it goes on with results.
  std::vector<TrialResult> results;
  for (const decide::Candidate& c : proposed)
    results.push_back(
        {c, measure::Outcome::kOk, 1e-3 + 1e-6 * static_cast<double>(results.size())});
  search.observe(results);
  EXPECT_EQ(search.propose(16).size(), 16u);
}

INSTANTIATE_TEST_SUITE_P(All, TrainedNetwork,
                         ::testing::Values("atformer", "lstm", "mha", "mlp", "sequence", "tabnet",
                                           "treegru"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TrainedNetworks, TheListAboveIsTheTable) { EXPECT_EQ(nn::network_table().size(), 7u); }

}  // namespace
}  // namespace tessera::search
