// tessera dataset on a small dataset of a log and of a collection.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string ansor_lines(int task, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += R"({"i": [["[\"mm\", )" + std::to_string(task) +
           R"(]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 2, []], [[], [["SP", 2, 0, 64, [)" +
           std::to_string(i + 1) + R"(], 1]]]], "r": [[)" + std::to_string(0.001 * (i + 1)) +
           R"(], 0, 1.5, 1620000000], "v": "v0.6"})" + "\n";
  }
  return out;
}

// `count` distinct records of ten tasks, in turns. Written piece by piece: what this process holds
// would count for those that it starts.
std::string big_log(int count) {
  std::string path = write_file("big" + std::to_string(count) + ".jsonl", "");
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < count; ++i) {
    out << R"({"i": [["[\"mm\", )" << i % 10
        << R"(]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 2, []], [[], [["SP", 2, 0, 64, [)"
        << i / 10 + 1 << R"(], 1], ["RE", 2, [0, 4, 1, 5, 2]], ["AN", 2, 3, 2]]]], "r": [[0.00)"
        << i % 97 + 1 << R"(], 0, 1.5, 1620000000], "v": "v0.6"})"
        << "\n";
  }
  return path;
}

// Far below what the records themselves take.
constexpr long kMostGrowthKib = 10 << 10;

TEST(Growth, DatasetsTakeTheSameMemoryForMoreRecords) {
  long import_kib[2], stats_kib[2], split_kib[2];
  for (const int i : {0, 1}) {
    const std::string log = big_log(i == 0 ? 50'000 : 100'000);
    const std::string set = log + ".ds";
    fs::remove_all(set);
    const Finished import = run({"dataset", "import", log, "-o", set});
    ASSERT_EQ(import.code, 0) << import.err;
    const Finished stats = run({"dataset", "stats", set});
    ASSERT_EQ(stats.code, 0) << stats.err;
    const Finished split = run({"dataset", "split", set, "--split", "within-task"});
    ASSERT_EQ(split.code, 0) << split.err;
    import_kib[i] = import.peak_kib;
    stats_kib[i] = stats.peak_kib;
    split_kib[i] = split.peak_kib;
  }
  EXPECT_LT(import_kib[1] - import_kib[0], kMostGrowthKib) << import_kib[0];
  EXPECT_LT(stats_kib[1] - stats_kib[0], kMostGrowthKib) << stats_kib[0];
  EXPECT_LT(split_kib[1] - split_kib[0], kMostGrowthKib) << split_kib[0];
}

TEST(Growth, DatabasesTakeTheSameMemoryForMoreRecords) {
  long export_kib[2], import_kib[2];
  for (const int i : {0, 1}) {
    const std::string log = big_log(i == 0 ? 10'000 : 40'000);
    const std::string db = log + ".db";
    fs::remove(db);
    ASSERT_EQ(run({"db", "import", log, "--db", db}).code, 0);
    const Finished exported = run({"db", "export", "--db", db, "-o", log + ".out"});
    ASSERT_EQ(exported.code, 0) << exported.err;
    EXPECT_GT(fs::file_size(log + ".out"), i == 0 ? 2u << 20 : 8u << 20);
    const Finished import = run({"dataset", "import", db, "-o", log + ".ds"});
    ASSERT_EQ(import.code, 0) << import.err;
    export_kib[i] = exported.peak_kib;
    import_kib[i] = import.peak_kib;
  }
  EXPECT_LT(export_kib[1] - export_kib[0], kMostGrowthKib) << export_kib[0];
  // The first shard of 50,000 is still filling.
  EXPECT_LT(import_kib[1] - import_kib[0], 3 * kMostGrowthKib) << import_kib[0];
}

class DatasetCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string lines;
    for (int t = 1; t <= 10; ++t) lines += ansor_lines(t, 20);
    log_ = write_file("net.jsonl", lines);
    folder_ = fs::path(log_).parent_path().string() + "/set";
    fs::remove_all(folder_);
    const Finished done = run({"dataset", "import", log_, "-o", folder_});
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find("200 records of 10 tasks, 1 network, 1 machine"), std::string::npos)
        << done.out;
  }

  std::string log_, folder_;
};

TEST_F(DatasetCommand, StatsCount) {
  const Finished done = run({"dataset", "stats", folder_, "--json", "--tasks"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  EXPECT_EQ(json["records"], 200);
  EXPECT_EQ(json["valid"], 200);
  EXPECT_EQ(json["tasks"], 10);
  EXPECT_EQ(json["networks"][0]["name"], "net");
  EXPECT_EQ(json["networks"][0]["covered"], 10);
  EXPECT_EQ(json["machines"][0]["threads"], 2);
  EXPECT_EQ(json["outcomes"]["ok"], 200);
  EXPECT_EQ(json["records_a_task"]["median"], 20);
  EXPECT_EQ(json["per_task"].size(), 10u);
  const Finished text = run({"dataset", "stats", folder_});
  EXPECT_NE(text.out.find("200 records, 200 valid, 10 tasks"), std::string::npos) << text.out;
}

TEST_F(DatasetCommand, SplitCountsAndWrites) {
  const std::string file = folder_ + ".npz";
  const Finished done = run(
      {"dataset", "split", folder_, "--split", "by_task", "--test", "0.2", "-o", file, "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  int tasks = 0, records = 0;
  for (const auto& [part, counts] : json.items()) {
    tasks += counts["tasks"].get<int>();
    records += counts["records"].get<int>();
  }
  EXPECT_EQ(tasks, 10);
  EXPECT_EQ(records, 200);
  EXPECT_GE(json["validation"]["tasks"], 1);
  EXPECT_TRUE(fs::exists(file));
  const Finished unknown = run({"dataset", "split", folder_, "--holdout", "vgg"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("the dataset has: net"), std::string::npos) << unknown.err;
  EXPECT_EQ(run({"dataset", "split", folder_, "--split", "randomly"}).code, 2);
}

// The flags are those of `train`.
TEST_F(DatasetCommand, SplitTakesTheFlagsOfTrain) {
  const auto parts = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"dataset", "split", folder_, "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Finished done = run(words);
    EXPECT_EQ(done.code, 0) << done.err;
    return Json::parse(done.out);
  };
  EXPECT_EQ(parts({"--split", "by-task"}), parts({"--split", "by_task"}));
  EXPECT_EQ(parts({"--split", "by-network", "--holdout", "net,net"})["test"]["tasks"], 10);
  const Json few = parts({"--split", "by-task", "--tasks", "3", "--per-task", "5"});
  EXPECT_EQ(few["train"]["tasks"], 3);
  EXPECT_EQ(few["train"]["records"], 15);
  EXPECT_EQ(run({"dataset", "split", folder_, "--test", "2"}).code, 2);
}

TEST_F(DatasetCommand, ExportedLinesImportAgain) {
  const std::string lines = folder_ + ".jsonl", again = folder_ + "_again";
  fs::remove_all(again);
  ASSERT_EQ(run({"dataset", "export", folder_, "-o", lines}).code, 0);
  const Finished done = run({"dataset", "import", lines, "-o", again});
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* name : {"/records-000.jsonl.gz", "/tasks.jsonl.gz"}) {
    EXPECT_EQ(read_file(folder_ + name), read_file(again + name)) << name;
  }
}

TEST_F(DatasetCommand, ExportedFeaturesHaveAManifest) {
  const std::string out = folder_ + "_steps";
  fs::remove_all(out);
  const Finished done =
      run({"dataset", "export", folder_, "-o", out, "--format", "npz", "--rows", "step"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json manifest = Json::parse(read_file(out + "/step.json"));
  EXPECT_EQ(manifest["examples"], 200);
  EXPECT_EQ(manifest["shards"].size(), 1u);
  // Logs of Ansor cannot be lowered.
  const Finished loops = run({"dataset", "export", folder_, "-o", out, "--format", "npz"});
  EXPECT_NE(loops.code, 0);
  EXPECT_NE(loops.err.find("steps alone"), std::string::npos) << loops.err;
  EXPECT_EQ(run({"dataset", "export", folder_, "-o", out, "--format", "csv"}).code, 2);
}

TEST_F(DatasetCommand, VerifyFindsDamage) {
  EXPECT_EQ(run({"dataset", "verify", folder_}).code, 0);
  const std::string path = folder_ + "/tasks.jsonl.gz";
  std::string bytes = read_file(path);
  fs::resize_file(path, bytes.size() - 1);
  const Finished done = run({"dataset", "verify", folder_, "--json"});
  EXPECT_NE(done.code, 0);
  EXPECT_EQ(Json::parse(done.out)["good"], false);
  EXPECT_NE(run({"dataset", "stats", folder_}).code, 0);
  EXPECT_NE(run({"dataset", "verify", folder_ + "_absent"}).code, 0);
}

// A model whose tasks take no time, and few candidates of them.
std::vector<std::string> tiny(const std::string& step, const std::string& folder) {
  return {"dataset",   step,       "zoo:mlp@inputs=16,hidden=8,layers=1,classes=4",
          "-o",        folder,     "--per-task",
          "3",         "--shards", "2",
          "--threads", "1"};
}

TEST(DatasetSteps, SampleThenBuild) {
  const std::string folder = fs::path(write_file("x", "")).parent_path().string() + "/steps";
  fs::remove_all(folder);
  const Finished sampled = run(tiny("sample", folder));
  ASSERT_EQ(sampled.code, 0) << sampled.err;
  EXPECT_NE(sampled.out.find("in 2 shards (0 were there)"), std::string::npos) << sampled.out;
  const Json manifest = Json::parse(read_file(folder + "/manifest.json"));
  EXPECT_GE(manifest["tasks"].size(), 1u);
  EXPECT_NE(run(tiny("sample", folder)).out.find("(2 were there)"), std::string::npos);
  std::vector<std::string> other = tiny("sample", folder);
  other.insert(other.end(), {"--seed", "2"});
  const Finished refused = run(other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("take a new folder"), std::string::npos) << refused.err;

  const Finished built = run({"dataset", "build", folder});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_NE(built.out.find("0 failed, 0 earlier"), std::string::npos) << built.out;
  EXPECT_TRUE(fs::exists(folder + "/bundle-0001.tsb"));
  const Finished again = run({"dataset", "build", folder, "--shard", "0"});
  EXPECT_NE(again.out.find("0 built, 0 failed, 3 earlier"), std::string::npos) << again.out;
  const Finished none = run({"dataset", "build", folder, "--shard", "2"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("there is no shard 2"), std::string::npos) << none.err;
}

TEST(DatasetSteps, BundlesAreOfProcessors) {
  const std::string folder = fs::path(write_file("x", "")).parent_path().string() + "/gpu";
  fs::remove_all(folder);
  std::vector<std::string> sample = tiny("sample", folder);
  sample.insert(sample.end(), {"--target", "h200"});
  ASSERT_EQ(run(sample).code, 0);
  const Finished refused = run({"dataset", "build", folder});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("dataset collect --target cuda"), std::string::npos) << refused.err;
}

TEST(DatasetSteps, GenerateDoesAllThree) {
  const std::string folder = fs::path(write_file("x", "")).parent_path().string() + "/steps";
  fs::remove_all(folder);
  const Finished done = run(tiny("generate", folder));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("ended by done"), std::string::npos) << done.out;
  const std::string data = folder + "/data";
  const Finished imported = run({"dataset", "import", folder + "/records.jsonl", "-o", data});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Json manifest = Json::parse(read_file(folder + "/manifest.json"));
  const Json stats = Json::parse(run({"dataset", "stats", data, "--json"}).out);
  EXPECT_EQ(stats["tasks"], manifest["tasks"].size());
  EXPECT_EQ(stats["valid"], 3 * manifest["tasks"].size());
  EXPECT_EQ(stats["machines"].size(), 1u);
}

TEST(DatasetSteps, MeasureTakesAsFewSamplesAsItAllows) {
  const std::string folder = fs::path(write_file("x", "")).parent_path().string() + "/few";
  fs::remove_all(folder);
  ASSERT_EQ(run(tiny("sample", folder)).code, 0);
  std::vector<std::string> words = {"dataset",        "measure",   folder, "--db",
                                    folder + "/a.db", "--samples", "4"};
  const Finished refused = run(words);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("--samples"), std::string::npos) << refused.err;
  words.back() = "5";
  const Finished done = run(words);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("ended by done"), std::string::npos) << done.out;
  const Json sessions =
      Json::parse(run({"db", "list", "--db", folder + "/a.db", "--json"}).out)["sessions"];
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0]["options"], "dataset measure");
}

TEST(DatasetSteps, NumbersThatMakeNoSenseAreUsageErrors) {
  const std::string folder = fs::path(write_file("x", "")).parent_path().string() + "/nothing";
  fs::remove_all(folder);
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"--shards", "0"},   {"--per-task", "0"},  {"--per-task", "-3"},  {"--threads", "0"},
      {"--threads", "-1"}, {"--uniform", "1.5"}, {"--uniform", "-0.1"}, {"--max-flops", "0"}};
  for (const char* step : {"collect", "sample", "generate"}) {
    for (const auto& [flag, value] : bad) {
      const bool collects = std::string(step) == "collect";
      const Finished done = run({"dataset", step, "--op", "matmul:M=8,N=8,K=8",
                                 collects ? "--db" : "-o", folder, flag, value});
      EXPECT_EQ(done.code, 2) << step << " " << flag << " " << value << ": " << done.err;
      EXPECT_NE(done.err.find(flag), std::string::npos) << done.err;
    }
  }
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{
           {"--shard", "1"}, {"--shard", "-1"}, {"--round", "0"}, {"--budget", "-1"}}) {
    const Finished done =
        run({"dataset", "collect", "--op", "matmul:M=8,N=8,K=8", "--db", folder, flag, value});
    EXPECT_EQ(done.code, 2) << flag << ": " << done.err;
    EXPECT_NE(done.err.find(flag.substr(2)), std::string::npos) << done.err;
  }
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace tessera::cli
