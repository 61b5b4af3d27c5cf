// `tessera study`, and the page that `tessera results` makes of its results.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/documents.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(Study, ListsEveryTableAndFigure) {
  const Finished list = run({"study", "--list", "--json"});
  ASSERT_EQ(list.code, 0) << list.err;
  const json studies = json::parse(list.out).at("studies");
  EXPECT_GE(studies.size(), 45u);
  int not_run = 0;
  for (const json& s : studies) {
    if (s.at("status") != "not run") continue;
    ++not_run;
    EXPECT_NE(s.at("reason"), "");
    if (not_run > 1) continue;
    const Finished refused = run({"study", s.at("name")});
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.err.find(s.at("reason").get<std::string>()), std::string::npos);
  }
  EXPECT_GT(not_run, 0);
  // What a script runs says which.
  for (const auto& [name, script] :
       {std::pair("tenset-table-5", "transfer.sh"), {"tenset-figure-6", "pretrained.sh"}}) {
    const auto s = std::find_if(studies.begin(), studies.end(),
                                [&](const json& row) { return row.at("name") == name; });
    ASSERT_NE(s, studies.end()) << name;
    const std::string path = std::string("bench/studies/") + script;
    EXPECT_NE(s->at("reason").get<std::string>().find("`" + path + "`"), std::string::npos) << *s;
    EXPECT_TRUE(fs::exists(root() / path)) << path;
  }
  const std::string text = run({"study", "--list"}).out;
  for (const json& s : studies)
    EXPECT_NE(text.find(s.at("name").get<std::string>() + ": "), std::string::npos);
}

TEST(Study, ARunBecomesAPage) {
  const std::string folder = ::testing::TempDir() + "/study", pages = folder + "-pages";
  fs::remove_all(folder);
  fs::remove_all(pages);
  fs::create_directories(pages);
  const std::string data = (root() / "data").string();
  const Finished done = run({"study", "tenset-table-1", "tpugraphs-table-1", "--seeds", "2",
                             "--data", data, "-o", folder});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("|random|41|"), std::string::npos) << done.out;
  const json recorded = json::parse(read_file(folder + "/tpugraphs-table-1.json"));
  EXPECT_EQ(recorded.at("study"), "tpugraphs-table-1");
  const std::string command = recorded.at("command");
  EXPECT_TRUE(command.starts_with("tessera study tpugraphs-table-1 --seeds 2")) << command;
  EXPECT_EQ(command.find(folder), std::string::npos) << command;
  const std::string runs = (root() / "bench/results").string();
  ASSERT_EQ(run({"results", runs, "--papers", folder, "--pages", pages}).code, 0);
  const std::string page = read_file(pages + "/papers.md");
  EXPECT_NE(page.find("|random|41|"), std::string::npos) << page;
  EXPECT_NE(page.find("Not run:"), std::string::npos) << page;
}

// The runs that lie beside the datasets of the source tree, and the plans among them.
TEST(Study, ReadsWhatWasRecorded) {
  const std::string data = (root() / "data").string();
  const Finished done = run({"study", "autotvm-figure-11", "tlm-figure-13", "tenset-figure-7",
                             "tpugraphs-table-7", "--data", data, "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const json results = json::parse(done.out).at("results");
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0].at("rows").size(), 6u) << "five networks and their mean";
  EXPECT_EQ(results[1].at("rows").size(), 10u);
  EXPECT_EQ(results[1].at("columns").size(), 2u);
  EXPECT_EQ(results[2].at("seeds").size(), 3u);
  EXPECT_EQ(results[3].at("rows").size(), 12u);
  const Finished timed = run({"study", "tpugraphs-table-10", "--data", data, "--json"});
  ASSERT_EQ(timed.code, 0) << timed.err;
  for (const json& row : json::parse(timed.out).at("results")[0].at("rows")) {
    const auto values = row.at("values").get<std::vector<std::vector<double>>>();
    EXPECT_NEAR(values[2][0], values[0][0] / values[1][0], 1e-9) << row;
  }
}

TEST(Study, SaysWhatCannotBeRun) {
  const Finished unknown = run({"study", "tenset-table-44"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("tenset-table-4"), std::string::npos) << unknown.err;
  EXPECT_EQ(run({"study"}).code, 2);
  const Finished absent = run({"study", "tenset-table-1", "--data", "/nowhere"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.err.find("/nowhere"), std::string::npos) << absent.err;
  const Finished place = run({"study", "tenset-table-1", "-o", "/dev/null/x"});
  EXPECT_NE(place.code, 0);
  EXPECT_NE(place.err.find("/dev/null/x"), std::string::npos) << place.err;
  const std::string broken = ::testing::TempDir() + "/broken_studies";
  fs::create_directories(broken);
  { std::ofstream(broken + "/x.json") << "{}"; }
  const Finished bad = run({"results", (root() / "bench/results").string(), "--papers", broken});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("x.json"), std::string::npos) << bad.err;
}

}  // namespace
}  // namespace tessera::cli
