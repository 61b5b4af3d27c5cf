// Pages of recorded runs: which runs count, what is the best peer, and what is refused.
#include "tessera/app/report/bench_tables.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tessera::report {
namespace {

TimedModel timed(double us, std::vector<PeerTime> peers, bool trusted = true) {
  return {.name = "zoo:net",
          .device = "cpu",
          .dtype = "f32",
          .threads = 4,
          .median_us = us,
          .trusted = trusted,
          .peers = std::move(peers)};
}

PeerTime peer(const char* name, double us, double ratio, bool same = true) {
  return {.name = name,
          .version = "1.0",
          .median_us = us,
          .ratio = ratio,
          .same_precision = same,
          .trusted = true};
}

BenchRunFile run(const char* version, const char* date, TimedModel model) {
  return {.machine = "box-4",
          .description = "four cores",
          .version = version,
          .date = date,
          .command = "tessera bench",
          .models = {std::move(model)}};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(BenchTables, QuotesTheBestPeerOfEachPrecision) {
  const auto pages = result_pages({run(
      "1", "2026-01-01",
      timed(1000, {peer("slow", 3000, 3), peer("fast", 2000, 2), peer("bits", 500, 0.5, false)}))});
  ASSERT_EQ(pages.size(), 1u);
  const std::string& page = pages.at("box-4");
  EXPECT_TRUE(has(page, "## f32, batch 1, 4 threads\n")) << page;
  EXPECT_TRUE(has(page, "|network|Tessera|bits|fast|slow|same precision|as they come|")) << page;
  EXPECT_TRUE(has(page, "|net|1.00|0.500~|2.00|3.00|2.00|0.50|")) << page;
  EXPECT_TRUE(has(page, "|**2.00**|**0.50**|")) << page;
}

TEST(BenchTables, ShowsMedianAndRangeOverTheRunsOfTheNewestVersion) {
  const std::string page = result_pages({run("1", "2026-01-01", timed(9000, {peer("p", 9000, 1)})),
                                         run("2", "2026-01-02", timed(1000, {peer("p", 2000, 2)})),
                                         run("2", "2026-01-03", timed(3000, {peer("p", 12000, 4)})),
                                         run("2", "2026-01-04", timed(2000, {peer("p", 6000, 3)}))})
                               .at("box-4");
  EXPECT_TRUE(has(page, "|net|2.00 (1.00-3.00)|6.00 (2.00-12.0)|3.00 (2.00-4.00)|")) << page;
  EXPECT_TRUE(
      has(page, "Version 2; 3 runs per row; measured on 2026-01-02, 2026-01-03, 2026-01-04."))
      << page;
}

TEST(BenchTables, DisturbedRunsCountAndRowsOfNoOthersSaySo) {
  const BenchRunFile disturbed = run("1", "2026-01-01", timed(9000, {}, false));
  EXPECT_TRUE(has(result_pages({disturbed}).at("box-4"), "|net|9.00 (disturbed)|"));
  const std::string page =
      result_pages({disturbed, run("1", "2026-01-02", timed(1000, {}))}).at("box-4");
  EXPECT_TRUE(has(page, "|net|5.00 (1.00-9.00)|")) << page;
}

TEST(BenchTables, CommandsThatDifferInTheNetworkAloneAreOneLine) {
  std::vector<BenchRunFile> runs;
  const auto add = [&](const std::string& name, const std::string& command) {
    runs.push_back(run("1", "2026-01-01", timed(1000, {})));
    runs.back().command = command;
    runs.back().models[0].name = name;
  };
  add("zoo:a", "tessera bench zoo:a --threads 4");
  add("zoo:b", "tessera bench zoo:b --threads 4");
  add("zoo:c", "tessera bench --suite all.txt --threads 4");
  const std::string some = result_pages(runs).at("box-4");
  EXPECT_TRUE(has(some,
                  "```sh\ntessera bench --suite all.txt --threads 4\n"
                  "tessera bench zoo:NETWORK --threads 4  # a b\n```\n"))
      << some;
  add("zoo:c", "tessera bench zoo:c --threads 4");
  EXPECT_TRUE(has(result_pages(runs).at("box-4"), "tessera bench zoo:NETWORK --threads 4\n"));
  add("zoo:c", "tessera bench zoo:c --peers p");
  EXPECT_TRUE(has(result_pages(runs).at("box-4"), "\ntessera bench zoo:c --peers p\n"));
}

TEST(BenchTables, TheSummaryHasTheMostThreadsOfTheMachinesAskedFor) {
  TimedModel one = timed(4000, {peer("p", 2000, 0.5)});
  one.threads = 1;
  BenchRunFile other = run("1", "2026-01-01", timed(7000, {}));
  other.machine = "other-2";
  const std::string text =
      result_summary({run("1", "2026-01-01", timed(1000, {peer("p", 2000, 2)})),
                      run("1", "2026-01-01", one), other},
                     {"box-4"}, "docs/results");
  EXPECT_TRUE(has(text, "[box-4](docs/results/box-4.md)")) << text;
  EXPECT_TRUE(has(text, "|net|1.00|2.00|2.00|")) << text;
  EXPECT_TRUE(has(text, "\n\nVersion 1; measured on 2026-01-01.\n\n- ")) << text;
  EXPECT_TRUE(has(text, "on 1 of 1 networks")) << text;
  EXPECT_FALSE(has(text, "4.00")) << text;
  EXPECT_FALSE(has(text, "other-2")) << text;
}

TEST(BenchTables, ReplacesWhatIsBetweenTheMarkers) {
  const std::string begin = "<!-- generated: begin -->\n", end = "<!-- generated: end -->\n";
  EXPECT_EQ(*with_generated("a\n" + begin + "old\n" + end + "b\n", "new\n"),
            "a\n" + begin + "new\n" + end + "b\n");
  for (const std::string& text : {std::string("a\n"), begin, end + begin, begin + begin + end})
    EXPECT_FALSE(with_generated(text, "new\n").ok()) << text;
}

constexpr const char* kHead = R"({"format": 1, "machine": {"name": "m", "description": "d"},
  "version": "1", "date": "2026-01-01T00:00:00Z", "command": "c", "results": [)";
constexpr const char* kOurs = R"({"name": "zoo:net", "threads": 2, "median_us": 10, "trusted": true,
  "verified": true, "peers": [)";

TEST(BenchRuns, LeaveOutWhatIsWrongOrAbsent) {
  const auto file = bench_run_from_json(std::string(kHead) + kOurs +
                                        R"({"name": "gone", "absent": "why"},
         {"name": "wrong", "median_us": 1, "ratio": 0.1, "trusted": true, "verified": false,
          "range_error": 0.9},
         {"name": "nan", "median_us": 1, "ratio": 0.1, "trusted": true, "verified": false,
          "range_error": null},
         {"name": "bf16", "median_us": 5, "ratio": 0.5, "trusted": true, "verified": false,
          "range_error": 0.02}]},
        {"name": "zoo:bad", "threads": 2, "median_us": 1, "trusted": true, "verified": false,
         "peers": []}]})");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->models.size(), 1u);
  ASSERT_EQ(file->models[0].peers.size(), 1u);
  EXPECT_EQ(file->models[0].peers[0].name, "bf16");
  EXPECT_FALSE(file->models[0].peers[0].same_precision);
}

TEST(BenchRuns, PutQuantisedNetworksIntoTablesOfTheirOwn) {
  const std::string whole = std::string(kHead) + kOurs + "]}]}";
  EXPECT_EQ(bench_run_from_json(whole)->models[0].dtype, "f32");
  const std::size_t name = whole.find("zoo:net");
  ASSERT_NE(name, std::string::npos) << whole;
  const auto quantised =
      bench_run_from_json(std::string(whole).replace(name, 7, "zoo:net@quant=qdq"));
  ASSERT_TRUE(quantised.ok()) << quantised.error().message;
  EXPECT_EQ(quantised->models[0].dtype, "int8");
}

TEST(BenchRuns, RefuseDamagedFiles) {
  const std::string whole = std::string(kHead) + kOurs + "]}]}";
  ASSERT_TRUE(bench_run_from_json(whole).ok());
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return bench_run_from_json(text);
  };
  EXPECT_FALSE(bench_run_from_json("").ok());
  EXPECT_FALSE(bench_run_from_json("[]").ok());
  EXPECT_FALSE(damaged("\"format\": 1", "\"format\": 2").ok());
  EXPECT_FALSE(damaged("\"median_us\": 10", "\"median_us\": 0").ok());
  EXPECT_FALSE(damaged("\"median_us\": 10", "\"median_us\": \"x\"").ok());
  EXPECT_FALSE(damaged("\"command\": \"c\",", "").ok());
  const std::string folder = ::testing::TempDir() + "/damaged_runs";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/x.json") << "{";
  const auto runs = read_bench_runs(folder);
  ASSERT_FALSE(runs.ok());
  EXPECT_TRUE(has(runs.error().message, "x.json")) << runs.error().message;
  EXPECT_FALSE(read_bench_runs(folder + "/absent").ok());
}

}  // namespace
}  // namespace tessera::report
