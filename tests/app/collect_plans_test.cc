// Datasets of plans: what a row says, and folders that are gone on with.
#include "tessera/app/collect/collect_plans.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/tune/plan_graphs.h"
#include "tessera/frontend/task/task.h"
#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/graphset/opcodes.h"
#include "tessera/learn/graphset/ranking.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

TEST(PlanGraph, ConfigurationsHoldLayoutsAndAlgorithms) {
  CompileOptions load;
  const auto imported = import_graph("zoo:squeezenet1_1@size=40,classes=10", load);
  ASSERT_TRUE(imported.ok());
  const auto graph = PlanGraph::make(*imported, passes_for(load), "squeezenet");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const auto row_of = [&](const plan::Decisions& given) {
    const auto planned = task::apply_plan(*imported, passes_for(load), {}, plan::Decider(given));
    EXPECT_TRUE(planned.ok());
    plan::Decisions all;
    for (const plan::Decided& d : planned->decided) all[d.point.name] = d.text();
    return PlanGraph::Measured{all, 2e-3};
  };
  const auto made = graph->with({row_of({}), row_of({{"layouts", plan::kFirst}}),
                                 row_of({{"convolutions", "winograd4"}}),
                                 row_of({{"concatenations", plan::kSplitUp}})});
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->config_columns(), 18);
  EXPECT_EQ(made->runtime_ns[0], 2'000'000);
  // Every convolution is a place: 26 of them, with pools and concatenations.
  int convolutions = 0;
  for (std::size_t p = 0; p < made->config_nodes.size(); ++p) {
    const auto node = static_cast<std::size_t>(made->config_nodes[p]);
    if (graphset::opcode_name(made->opcode[node]) != "convolution") continue;
    ++convolutions;
    const auto at = [&](std::int64_t config, std::size_t column) {
      return made->config(config)[p * 18 + column];
    };
    EXPECT_EQ(at(0, 0), 1);  // channels vary fastest
    EXPECT_EQ(at(0, 1), 3);
    EXPECT_EQ(at(1, 0), 3);
    EXPECT_EQ(at(1, 2), 1);
    EXPECT_EQ(at(2, 12), at(0, 12) < 0 ? -1 : 2);
    EXPECT_EQ(at(3, 14), at(0, 14) < 0 ? -1 : 1);
  }
  EXPECT_EQ(convolutions, 26);
}

struct Folder {
  explicit Folder(const char* name) : path(::testing::TempDir() + "/" + name) {
    fs::remove_all(path);
  }
  ~Folder() { fs::remove_all(path); }
  std::string path;
};

CollectPlansOptions lenet_plans(const Folder& folder, std::int64_t plans) {
  CollectPlansOptions options;
  options.models = {"zoo:lenet"};
  options.folder = folder.path;
  options.plans = plans;
  return options;
}

TEST(CollectPlans, GoesOnWithWhatIsThere) {
  const Folder folder("collect_plans");
  CollectPlansOptions options = lenet_plans(folder, 4);
  const auto first = collect_plans(options, {});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->stopped_by, "all plans");
  EXPECT_EQ(first->wrong, 0);
  EXPECT_EQ(first->plans, 4);
  options.plans = 7;
  const auto second = collect_plans(options, {});
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->earlier, first->plans);
  EXPECT_GT(second->plans, first->plans);
  const auto graph = graphset::read_graph(folder.path + "/lenet.npz");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->size(), second->plans);
  EXPECT_TRUE(graph->labelled());
  EXPECT_EQ(graph->columns(), 140);
}

TEST(CollectPlans, EstimatesWhatWasMeasuredBefore) {
  const Folder folder("collect_plans_estimates");
  CollectPlansOptions options = lenet_plans(folder, 3);
  ASSERT_TRUE(collect_plans(options, {}).ok());
  const auto read = [&] { return graphset::read_graph(folder.path + "/lenet.npz").value(); };
  EXPECT_TRUE(read().estimate_ns.empty());
  options.models_of_kernels = model_paths(kShipped, options.compile.target);
  if (options.models_of_kernels.empty()) GTEST_SKIP() << "no cost model for this machine";
  const auto again = collect_plans(options, {});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->plans, again->earlier);
  EXPECT_EQ(read().estimate_ns.size(), 3u);
}

TEST(CollectPlans, EstimatesByKernelsTimedAlone) {
  const Folder folder("collect_plans_kernels");
  CollectPlansOptions options;
  options.models = {"zoo:lenet"};
  options.folder = folder.path;
  options.plans = 6;
  options.again_share = 0.5;
  options.time_kernels = true;
  ASSERT_TRUE(collect_plans(options, {}).ok());
  const auto graph = graphset::read_graph(folder.path + "/lenet.npz").value();
  ASSERT_EQ(graph.estimate_ns.size(), 6u);
  for (const std::int64_t ns : graph.estimate_ns) EXPECT_GT(ns, 0);
  // A kernel is timed once: plans that are equal have equal sums.
  for (const std::vector<std::int64_t>& equal : graphset::equal_configs(graph)) {
    for (const std::int64_t i : equal) {
      EXPECT_EQ(graph.estimate_ns[static_cast<std::size_t>(i)],
                graph.estimate_ns[static_cast<std::size_t>(equal[0])]);
    }
  }
}

TEST(CollectPlans, MeasuresPlansAgain) {
  const Folder folder("collect_plans_again");
  CollectPlansOptions options = lenet_plans(folder, 8);
  options.again_share = 0.7;
  ASSERT_TRUE(collect_plans(options, {}).ok());
  const auto graph = graphset::read_graph(folder.path + "/lenet.npz");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->size(), 8);
  const graphset::Repeats repeats = graphset::study_repeats(*graph);
  EXPECT_GT(repeats.repeated, 0);
  EXPECT_LT(repeats.distinct, 8);
}

TEST(CollectPlans, SaysWhatStandsInTheWay) {
  const Folder folder("collect_plans_bad");
  CollectPlansOptions options = lenet_plans(folder, 2);
  fs::create_directories(folder.path);
  std::ofstream(folder.path + "/lenet.plans.jsonl") << "{\"seconds\": 1}\n";
  const auto bad = collect_plans(options, {});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(bad.error().message.find("line 1 is not a plan"), std::string::npos);
  std::ofstream(folder.path + "/file") << "x";
  options.folder = folder.path + "/file";
  EXPECT_EQ(collect_plans(options, {}).error().code, ErrorCode::kIo);
  options.folder = folder.path + "/other";
  options.models = {"zoo:mlp"};
  const auto nothing = collect_plans(options, {});
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(nothing->models + std::ssize(nothing->skipped), 1);
}

}  // namespace
}  // namespace tessera::app
