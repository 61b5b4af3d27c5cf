// The table of studies, what they run on, and the page of their results.
#include "tessera/app/study/paper_study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/search/policy.h"
#include "tessera/support/files.h"
#include "tests/dataset/dataset_case.h"
#include "tests/infer/random_network.h"
#include "tests/testing/xgboost.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

StudyResult three_seeds() {
  return {.study = "autotvm-figure-5",
          .data = "2 tasks",
          .machine = "box",
          .version = "1",
          .date = "2026-11-19T05:37:30Z",
          .command = "tessera study autotvm-figure-5",
          .measure = "share",
          .seeds = {1, 2, 3},
          .columns = {"8", "48"},
          .rows = {{"rank", {{0.5, 0.6, 0.55}, {0.8, 0.81, 0.82}}},
                   {"regression", {{0.59, 0.7, 0.65}, {0.7, 0.71, 0.72}}},
                   {"alike", {{0.6, 0.6, 0.6}, {0.82, 0.9, 0.9}}},
                   {"better", {{0.7, 0.7, 0.7}, {0.9, 0.9, 0.9}}}}};
}

TEST(PaperStudy, EveryRowIsRunOrHasAReason) {
  std::set<std::string> names, papers;
  for (const PaperStudy& s : paper_studies()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    papers.insert(s.paper);
    for (const char* text : {s.item, s.shows, s.theirs, s.note})
      EXPECT_NE(std::string_view(text), "") << s.name;
    if (s.run != nullptr) continue;
    const auto refused = run_study(s, {});
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find(s.note), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(papers.size(), 5u);
  const auto wrong = find_study("autotvm-figure-55");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("autotvm-figure-5"), std::string::npos);
}

TEST(PaperStudy, OverlappingRangesShowNoDifference) {
  const StudyResult r = three_seeds();
  EXPECT_EQ(beside_first(r, r.rows[1]), "below at 48");
  EXPECT_EQ(beside_first(r, r.rows[2]), "no difference shown");
  EXPECT_EQ(beside_first(r, r.rows[3]), "above");
  EXPECT_EQ(range_text({0.5, 0.6, 0.55}), "0.550 (0.500-0.600)");
  StudyResult counted = r;
  counted.measure = kCounts;
  counted.seeds.clear();
  counted.columns = {"files"};
  counted.rows = {{"one", {{1}}}, {"many", {{1842.25}}}};
  EXPECT_NE(study_table(counted).find("|one|1|\n|many|1842.2|\n"), std::string::npos);
}

TEST(PaperStudy, ResultsComeBackFromTheirFiles) {
  const std::string folder = dataset::test_folder("study_results");
  fs::create_directories(folder);
  const StudyResult r = three_seeds();
  ASSERT_TRUE(write_file(folder + "/a.json", {to_json(r).dump(1)}).ok());
  const auto back = read_study_results(folder);
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), 1u);
  EXPECT_EQ(to_json(back->front()).dump(), to_json(r).dump());
  const std::string page = papers_page(*back);
  for (const char* line :
       {"|rank|0.800-0.820|", "|regression|*0.700-0.720*|", "|alike|0.820-0.900|",
        "|better|**0.900**|", "`tessera study autotvm-figure-5`, 2026-11-19."})
    EXPECT_NE(page.find(line), std::string::npos) << line << "\n" << page;
  // Reasons and kinds are said once.
  EXPECT_NE(page.find("- figure 4, 6, 7, 8, 9, 11: not yet: `tessera study`\n"), std::string::npos)
      << page;
  EXPECT_NE(study_table(r).find("|regression|0.647 (0.590-0.700)|0.710 (0.700-0.720)|below at 48|"),
            std::string::npos);
  for (const PaperStudy& s : paper_studies()) {
    if (s.run != nullptr) continue;
    EXPECT_NE(page.find(s.note), std::string::npos) << s.name;
  }
  ASSERT_TRUE(write_file(folder + "/b.json", {to_json(r).dump(1)}).ok());
  EXPECT_NE(read_study_results(folder).error().message.find("b.json"), std::string::npos);
}

TEST(PaperStudy, RefusesFilesThatAreNoResults) {
  StudyResult r = three_seeds();
  r.rows[1].values[0].pop_back();
  EXPECT_NE(study_from_json(to_json(r).dump()).error().message.find("'regression'"),
            std::string::npos);
  r = three_seeds();
  r.study = "autotvm-figure-99";
  EXPECT_FALSE(study_from_json(to_json(r).dump()).ok());
  EXPECT_FALSE(study_from_json("{}").ok());
  EXPECT_FALSE(study_from_json("[1").ok());
  EXPECT_FALSE(read_study_results("/nowhere").ok());
}

class ReplayedStudy : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = dataset::test_folder("replayed_study");
    data_ = dataset::small_dataset(60);
    ASSERT_TRUE(dataset::save(data_, folder_).ok());
    options_.data = folder_;
  }

  std::string folder_;
  dataset::Dataset data_;
  StudyOptions options_;
};

TEST_F(ReplayedStudy, HasAShareForEverySearchAndSeed) {
  const auto result = replay_study({.networks = {"resnet50"},
                                    .searches = {{"random", "random"}, {"genetic", "genetic"}},
                                    .trials = {4, 16},
                                    .least_records = 8},
                                   options_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->rows.size(), 2u);
  EXPECT_EQ(result->seeds, (std::vector<std::uint64_t>{1, 2, 3}));
  for (const StudyRow& row : result->rows) {
    ASSERT_EQ(row.values.size(), 2u);
    for (std::size_t seed = 0; seed < 3; ++seed) {
      EXPECT_GT(row.values[0][seed], 0.01);
      EXPECT_GE(row.values[1][seed], row.values[0][seed]);
      EXPECT_LE(row.values[1][seed], 1);
    }
  }
  EXPECT_NE(result->rows[0].values[0][0], result->rows[0].values[0][1]) << "each seed draws anew";
}

TEST_F(ReplayedStudy, EveryPolicyWorksWithoutTheDefault) {
  options_.seeds = 1;
  for (const search::PolicyEntry& entry : search::policy_table()) {
    if (std::string_view(entry.name) == "exec") continue;  // needs a program
    const std::string policy = std::string(entry.name) + (entry.uses_model ? "+model=none" : "");
    const auto result = replay_study({.networks = {"resnet50"},
                                      .searches = {{entry.name, policy.c_str()}},
                                      .trials = {8, 24},
                                      .least_records = 8},
                                     options_);
    EXPECT_TRUE(result.ok()) << entry.name << ": " << result.error().message;
  }
}

TEST_F(ReplayedStudy, RefusesModelsTrainedOnWhatIsTested) {
  nn::TrainedNetwork network = infer::testing::random_network("mlp", 233, 0, false, 1);
  const std::string path = folder_ + "/seen.safetensors";
  const std::string policy = "evolutionary+pretrained=" + path;
  const ReplaySpec spec{.networks = {"resnet50"}, .searches = {{"own", policy.c_str()}}};
  ASSERT_TRUE(nn::save_network(network, path).ok());
  const auto silent = replay_study(spec, options_);
  ASSERT_FALSE(silent.ok());
  EXPECT_NE(silent.error().message.find("do not list the tasks"), std::string::npos)
      << silent.error().message;
  const std::vector<std::string> keys = data_.tasks_of({"resnet50"}).value();
  nn::note_tasks({keys.front()}, {}, &network.notes);
  ASSERT_TRUE(nn::save_network(network, path).ok());
  const auto seen = replay_study(spec, options_);
  ASSERT_FALSE(seen.ok());
  EXPECT_NE(seen.error().message.find(keys.front()), std::string::npos) << seen.error().message;
}

TEST_F(ReplayedStudy, EndsWhereItIsStopped) {
  options_.progress = [](const std::string&, std::size_t, std::size_t) { return false; };
  const auto stopped = replay_study(
      {.networks = {"resnet50"}, .searches = {{"random", "random"}}, .trials = {4}}, options_);
  ASSERT_FALSE(stopped.ok());
  EXPECT_NE(stopped.error().message.find("interrupted"), std::string::npos);
}

TEST_F(ReplayedStudy, TreesAreScoredOnNetworksHeldOut) {
  if (!testing::has_trees(model::make_model("gbt", {})))
    GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  options_.seeds = 2;
  TreesSpec spec{.machine = "neoverse-v1",
                 .rows = {{"rank", "rank"}, {"error", "regression"}, {"random", nullptr}},
                 .columns = {"pairwise", "top-1", "top-5", "resnet50 top-1"},
                 .rounds = 5};
  const auto result = trees_study(spec, options_);
  ASSERT_TRUE(result.ok()) << result.error().message;
  for (const StudyRow& row : result->rows) {
    for (const std::vector<double>& column : row.values) {
      ASSERT_EQ(column.size(), 2u);
      for (const double v : column) EXPECT_TRUE(v > 0 && v <= 1) << v;
    }
    EXPECT_EQ(row.values[1], row.values[3]) << "resnet50 is the one test network";
  }
  EXPECT_NE(result->rows[2].values[0][0], result->rows[2].values[0][1]) << "each seed draws anew";
  spec.columns = {"vgg16 top-1"};
  const auto absent = trees_study(spec, options_);
  ASSERT_FALSE(absent.ok());
  EXPECT_NE(absent.error().message.find("vgg16"), std::string::npos);
}

// Three tables of a paper are of the same trees.
TEST_F(ReplayedStudy, TreesOfOneStudyAreThoseOfTheNext) {
  if (!testing::has_trees(model::make_model("gbt", {})))
    GTEST_SKIP() << "XGBoost is not installed (package libxgboost-dev)";
  options_.seeds = 2;
  std::vector<std::size_t> totals;  // of every training
  options_.progress = [&](const std::string&, std::size_t, std::size_t total) {
    totals.push_back(total);
    return true;
  };
  TreesSpec spec{.machine = "neoverse-v1",
                 .rows = {{"rank", "rank"}, {"random", nullptr}},
                 .columns = {"pairwise"},
                 .rounds = 3};
  const auto first = trees_study(spec, options_);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(totals, (std::vector<std::size_t>(4, 4)));
  totals.clear();
  spec.columns = {"top-1", "pairwise"};
  spec.rows = {{"another name", "rank"}, {"error", "regression"}};
  const auto second = trees_study(spec, options_);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(totals, (std::vector<std::size_t>(2, 2))) << "those of the other loss alone";
  EXPECT_EQ(second->rows[0].values[1], first->rows[0].values[0]);
  EXPECT_NE(second->rows[1].values[1], first->rows[0].values[0]);
  totals.clear();
  spec.rounds = 4;
  spec.rows = {{"rank", "rank"}, {"few", "rank", 0, 4}};
  ASSERT_TRUE(trees_study(spec, options_).ok());
  EXPECT_EQ(totals.size(), 4u) << "other trees are fitted";
}

}  // namespace
}  // namespace tessera::app
