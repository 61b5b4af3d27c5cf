// `tessera bench --record` and `tessera results`, and that the documents hold no figure of their
// own.
#include <cctype>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/documents.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(Results, ARecordedRunBecomesAPage) {
  const std::string folder = ::testing::TempDir() + "/recorded", pages = folder + "-pages";
  fs::remove_all(folder);
  fs::remove_all(pages);
  fs::create_directories(pages);
  const Finished bench = run(quick_bench({"zoo:mlp", "--threads", "1", "--record", folder}));
  ASSERT_EQ(bench.code, 0) << bench.err;
  std::string file;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) file = entry.path().string();
  }
  const json recorded = json::parse(read_file(file));
  EXPECT_EQ(recorded.at("results").at(0).at("name"), "zoo:mlp");
  const std::string command = recorded.at("command");
  EXPECT_TRUE(command.starts_with("tessera bench ")) << command;
  EXPECT_NE(command.find("zoo:mlp"), std::string::npos) << command;
  EXPECT_EQ(command.find("--record"), std::string::npos) << command;
  EXPECT_EQ(command.find(folder), std::string::npos) << command;

  const std::string machine = recorded.at("machine").at("name");
  EXPECT_NE(run({"results", folder}).out.find("|mlp|"), std::string::npos);
  const std::vector<std::string> write = {"results", folder, "--pages", pages};
  std::vector<std::string> check = write;
  check.emplace_back("--check");
  EXPECT_EQ(run(check).code, 1);
  ASSERT_EQ(run(write).code, 0);
  EXPECT_EQ(run(check).code, 0);
  fs::resize_file(pages + "/" + machine + ".md", 10);
  const Finished stale = run(check);
  EXPECT_EQ(stale.code, 1);
  EXPECT_NE(stale.out.find(machine + ".md"), std::string::npos) << stale.out;
}

TEST(Results, RefuseAFolderWithoutRuns) {
  const std::string folder = ::testing::TempDir() + "/no_runs";
  fs::create_directories(folder);
  const Finished none = run({"results", folder});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("no recorded runs"), std::string::npos) << none.err;
  EXPECT_EQ(run({"results", folder + "/absent"}).code, 2);
  const Finished op = run({"bench", "--op", "matmul:M=4,N=4,K=4", "--record", folder});
  EXPECT_EQ(op.code, 2);
  EXPECT_NE(op.err.find("--record"), std::string::npos) << op.err;
}

TEST(Results, AFolderThatCannotBeMadeIsSaidBeforeAnythingIsTimed) {
  const Finished done = run(quick_bench({"zoo:mlp", "--record", "/dev/null/runs"}));
  EXPECT_EQ(done.code, 2);
  EXPECT_EQ(done.out, "");
  EXPECT_NE(done.err.find("/dev/null/runs"), std::string::npos) << done.err;
}

TEST(Results, TheDocumentsHoldWhatTheRecordedRunsSay) {
  const Finished check = run_shell("TESSERA=$(command -v tessera) ./do results --check");
  EXPECT_EQ(check.code, 0) << check.out << check.err;
}

// The prose of a document: without code, generated blocks and `code` in a line.
std::string prose(const std::string& document) {
  std::stringstream lines(document);
  std::string text;
  bool code = false, generated = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) code = !code;
    if (line == "<!-- generated: begin -->") generated = true;
    if (line == "<!-- generated: end -->") generated = false;
    if (!code && !generated) text += std::regex_replace(line, std::regex("`[^`]*`"), "``");
    text += "\n";
  }
  return text;
}

// A measured figure, which a command must have written.
const std::regex& figure() {
  static const std::regex is(
      "[0-9] ?(ms|us|µs|×|%|GB/s|GFLOP/s|TFLOP/s)(?![a-zA-Z])|[0-9]x(?![0-9a-zA-Z])");
  return is;
}

TEST(Results, FindsFiguresInProse) {
  for (const char* text :
       {"takes 3 ms", "3.5 µs a call", "1.2x", "40 %", "40%", "2× as fast", "9 GB/s"})
    EXPECT_TRUE(std::regex_search(prose(text), figure())) << text;
  for (const char* text :
       {"`--budget 10ms`", "```\n3 ms\n```", "3x3 windows", "F(4x4, 3x3)", "int8", "a 2 MB cache",
        "<!-- generated: begin -->\n3 ms\n<!-- generated: end -->\n"})
    EXPECT_FALSE(std::regex_search(prose(text), figure())) << text;
}

TEST(Results, NoDocumentHoldsAFigureOfItsOwn) {
  std::vector<std::string> names = documents();
  for (const std::string& name : folder_documents()) names.push_back(name);
  for (const std::string& name : names) {
    if (name.starts_with("docs/results/")) continue;  // generated as a whole
    std::stringstream lines(prose(read_file((root() / name).string())));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      EXPECT_FALSE(std::regex_search(line, figure())) << name << ":" << number << ": " << line;
    }
  }
}

}  // namespace
}  // namespace tessera::cli
