// Commands on graphs in TpuGraphs' schema: show, import, train, eval.
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/learn/graphset/npz_file.h"
#include "tests/cli/process.h"
#include "tests/graphset/graph_case.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string graph_file(std::int64_t nodes = 18, std::int64_t configs = 200) {
  std::string path = graphset::testing::temp_file("chain.npz");
  EXPECT_TRUE(graphset::write_graph(path, graphset::testing::layout_graph(nodes, configs, 1)).ok());
  return path;
}

TEST(Graphs, ShowSaysWhatIsInside) {
  const std::string file = graph_file();
  const Finished text = run({"dataset", "show", file});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("chain: layout set, 18 nodes of 8 numbers, 17 edges\n"
                          "  6 nodes can be configured (6 convolution), 1 major parts\n"),
            std::string::npos)
      << text.out;
  const Json json = Json::parse(run({"dataset", "show", file, "--json"}).out)["graphs"][0];
  EXPECT_EQ(json["configs"], 200);
  EXPECT_LE(json["distinct"], 64);
  EXPECT_NEAR(json["tau_ceiling"].get<double>(), 1, 1e-9);
}

TEST(Graphs, PlansOfAModelAreADataset) {
  const std::string folder = graphset::testing::temp_file("plans");
  fs::remove_all(folder);
  const Finished made = run({"dataset", "graphs", "zoo:lenet", "--plans", "3", "-o", folder});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("0 wrong; ended by all plans"), std::string::npos) << made.out;
  const Finished shown = run({"dataset", "show", folder + "/lenet.npz", "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(Json::parse(shown.out)["graphs"][0]["config_columns"], 18);
  EXPECT_EQ(run({"dataset", "graphs", "zoo:lenet", "--plans", "0", "-o", folder}).code, 2);
  EXPECT_EQ(run({"dataset", "graphs", "zoo:nothing", "-o", folder}).code, 2);
  fs::remove_all(folder);
}

TEST(Graphs, WrongFilesAreUsageErrors) {
  const std::string text = write_file("text.npz", "no archive");
  const Finished shown = run({"dataset", "show", text});
  EXPECT_EQ(shown.code, 2);
  EXPECT_NE(shown.err.find("text.npz"), std::string::npos) << shown.err;
  const std::string bad = write_file("bad.pb", "\xff\xff");
  const Finished imported =
      run({"dataset", "import", "--from", "tpugraphs", bad, "-o", bad + ".npz"});
  EXPECT_EQ(imported.code, 2);
  EXPECT_NE(imported.err.find("bad.pb: protobuf"), std::string::npos) << imported.err;
  EXPECT_EQ(run({"dataset", "import", "--from", "nowhere", bad, "-o", "x"}).code, 2);
  const Finished evaluated = run({"eval", "--graphs", graph_file()});
  EXPECT_EQ(evaluated.code, 2);
  EXPECT_NE(evaluated.err.find("weights of one network, or A,B,C, not 0"), std::string::npos);
  EXPECT_EQ(run({"eval", "--graphs", graph_file(), "--cost-model", text}).code, 2);
}

TEST(Graphs, EstimatesJudgeWithoutANetwork) {
  const std::string file = graphset::testing::temp_file("estimated.npz");
  graphset::ConfigGraph graph = graphset::read_graph(graph_file()).value();
  for (const std::int64_t ns : graph.runtime_ns) graph.estimate_ns.push_back(2 * ns + 1);
  ASSERT_TRUE(graphset::write_graph(file, graph).ok());
  const Finished done =
      run({"eval", "--graphs", file, "--cost-model", "estimate,estimate", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NEAR(Json::parse(done.out)["graphs"][0]["tau"].get<double>(), 1, 1e-6);
  EXPECT_EQ(run({"eval", "--graphs", file, "--cost-model", "estimate", "--unseen"}).code, 2);
  const Finished none = run({"eval", "--graphs", graph_file(), "--cost-model", "estimate"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("has no estimates"), std::string::npos) << none.err;
}

TEST(Graphs, TrainedNetworksAreEvaluated) {
  if (!fs::exists(fs::path(TESSERA_BINARY).parent_path() / "tessera-train")) {
    GTEST_SKIP() << "tessera-train was not built";
  }
  const std::string file = graph_file(36, 500), weights = file + ".safetensors";
  const Finished trained =
      run({"train", "--model", "additive", "--graphs", file, "--share", "0.6", "--epochs", "20",
           "--threads", "1", "--lr", "0.05", "-o", weights, "--json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json of_training = Json::parse(trained.out)["unseen"][0];
  const Finished done =
      run({"eval", "--graphs", file, "--cost-model", weights, "--unseen", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json graph = Json::parse(done.out)["graphs"][0];
  EXPECT_EQ(graph["name"], "chain");
  EXPECT_EQ(graph["configs"], of_training["configs"]);
  EXPECT_NEAR(graph["tau"].get<double>(), of_training["tau"].get<double>(), 0.02);
  EXPECT_GT(graph["tau"].get<double>(), 0.3);
  for (const char* k : {"1", "5", "10", "100"}) EXPECT_GE(graph["slowdown"][k], 0) << k;
  const Finished searches =
      run({"eval", "--graphs", file, "--cost-model", weights, "--searches", "--json"});
  ASSERT_EQ(searches.code, 0) << searches.err;
  const Json replayed = Json::parse(searches.out)["graphs"][0];
  EXPECT_GE(replayed["judged"], 1);
  EXPECT_GT(replayed["random"], replayed["judged"]);
  const Finished both = run(
      {"eval", "--graphs", file, "--cost-model", weights + "," + weights, "--unseen", "--json"});
  ASSERT_EQ(both.code, 0) << both.err;
  EXPECT_NEAR(Json::parse(both.out)["graphs"][0]["tau"].get<double>(), graph["tau"].get<double>(),
              1e-3);
  const Finished refused = run({"train", "--model", "no-such", "--graphs", file});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("there are additive"), std::string::npos) << refused.err;
}

TEST(Graphs, EachIsJudgedByWhatOthersTaught) {
  if (!fs::exists(fs::path(TESSERA_BINARY).parent_path() / "tessera-train")) {
    GTEST_SKIP() << "tessera-train was not built";
  }
  std::vector<std::string> words = {"train",  "--model",   "graphsage", "--leave-one-out",
                                    "--json", "--threads", "1",         "--epochs",
                                    "2",      "--hyper",   "hidden=8",  "--graphs"};
  const Finished alone = run([&] {
    std::vector<std::string> one = words;
    one.push_back(graph_file());
    return one;
  }());
  EXPECT_EQ(alone.code, 2);
  EXPECT_NE(alone.err.find("at least two graphs"), std::string::npos) << alone.err;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const std::string path = graphset::testing::temp_file(fmt::format("kernel{}.npz", seed));
    ASSERT_TRUE(graphset::write_graph(path, graphset::testing::tile_graph(40, seed)).ok());
    words.push_back(path);
  }
  const Finished done = run(words);
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  ASSERT_EQ(json["unseen"].size(), 3U);
  EXPECT_EQ(json["unseen"][2]["name"], "kernel3");
  EXPECT_GT(json["peak_bytes"], 1e6);
  std::replace(words.begin(), words.end(), std::string("--leave-one-out"),
               std::string("--leave-out=kernel2,other"));
  const Finished one = run(words);
  ASSERT_EQ(one.code, 0) << one.err;
  const Json judged = Json::parse(one.out)["unseen"];
  ASSERT_EQ(judged.size(), 1U);
  EXPECT_EQ(judged[0]["name"], "kernel2");
  std::replace(words.begin(), words.end(), std::string("--leave-out=kernel2,other"),
               std::string("--leave-out=kernel"));
  const Finished none = run(words);
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("nothing is left to learn from"), std::string::npos) << none.err;
  std::replace(words.begin(), words.end(), std::string("--leave-out=kernel"),
               std::string("--leave-out=other"));
  EXPECT_NE(run(words).err.find("no graph is called so"), std::string::npos);
}

}  // namespace
}  // namespace tessera::cli
