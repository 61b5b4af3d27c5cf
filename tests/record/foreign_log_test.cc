// Small logs of other programs: what is read, what is refused, what is written back.
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "tessera/trials/record/ansor_log.h"
#include "tessera/trials/record/autotvm_log.h"
#include "tessera/trials/record/log_file.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

using Json = nlohmann::json;

// Every kind of step once.
const std::string kSteps =
    R"([["AN",2,0,3],["FU",3,[0,1]],["PR",2,0,"auto_unroll_max_step$64"],["RE",2,[1,0]],)"
    R"(["SP",2,0,128,[4,2,8],1],["FSP",3,0,0,2],["FFSP",4,0,[4,3],1,0],["SA",1,0,32,8],)"
    R"(["CA",2,3,3],["CI",5],["CR",2],["CHR",2,"shared",[3]],["CHW",3,"local"],["RF",2,1,0]])";

std::string ansor_line(const std::string& task_rest, const std::string& steps = kSteps,
                       const std::string& result = "[[0.5, 0.25, 1.0], 0, 1.37, 1620000000]") {
  return R"({"i": [["[\"mm\", 4, \"float32\"]", "llvm -keys=cpu ")" + task_rest + "], [[], " +
         steps + R"(]], "r": )" + result + R"(, "v": "v0.6"})";
}

TEST(AnsorLog, ReadsEveryField) {
  const Result<Record> r =
      parse_ansor_line(ansor_line(R"(, [24, 64, 64, 0, 0, 0, 0, 0], "", 2, [])"));
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->format, "ansor");
  EXPECT_EQ(r->task, "[\"mm\", 4, \"float32\"]");
  EXPECT_EQ(r->target, "llvm -keys=cpu ");
  EXPECT_EQ(r->threads, 24);
  EXPECT_EQ(r->candidate, kSteps);
  EXPECT_EQ(r->outcome, "ok");
  EXPECT_EQ(r->samples_s, (std::vector<double>{0.5, 0.25, 1.0}));
  EXPECT_EQ(r->seconds, 0.5);
  EXPECT_EQ(r->unix_time, 1620000000);
}

TEST(AnsorLog, WritesBackEveryLengthOfTask) {
  for (const char* rest : {"", ", [-1,16,64,1,2,3,4,5]", ", [8,64,64,0,0,0,0,0], \"llvm\", 1",
                           ", [8,64,64,0,0,0,0,0], \"\", 2, [\"x\"]"}) {
    const std::string line = ansor_line(rest);
    const Result<Record> r = parse_ansor_line(line);
    ASSERT_TRUE(r.ok()) << r.error().message;
    const Result<std::string> back = to_ansor_line(*r);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(Json::parse(*back), Json::parse(line));
  }
}

TEST(AnsorLog, StepsAreTyped) {
  const Result<std::vector<ansor::Step>> steps = ansor::parse_steps(kSteps);
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  ASSERT_EQ(steps->size(), 14u);
  EXPECT_EQ(std::get<ansor::Annotate>((*steps)[0]).annotation, ansor::Annotation::kParallel);
  const auto& split = std::get<ansor::Split>((*steps)[4]);
  EXPECT_EQ(split.extent, 128);
  EXPECT_EQ(split.lengths, (std::vector<std::int64_t>{4, 2, 8}));
  EXPECT_TRUE(split.inner_to_outer);
  const auto& fused = std::get<ansor::FollowFusedSplit>((*steps)[6]);
  EXPECT_EQ(fused.sources, (std::vector<int>{4, 3}));
  EXPECT_EQ(fused.level, 1);
  EXPECT_FALSE(fused.factor);
  EXPECT_EQ(std::get<ansor::CacheRead>((*steps)[11]).scope, "shared");
  EXPECT_EQ(ansor::to_json(*steps), kSteps);
}

TEST(AnsorLog, CodesAreOutcomesAndComeBack) {
  const char* outcomes[] = {"ok",         "invalid_static", "build_error",   "build_error",
                            "run_error",  "wrong_result",   "build_timeout", "run_timeout",
                            "worker_lost"};
  for (int code = 1; code <= 8; ++code) {
    const Result<Record> r =
        parse_ansor_line(ansor_line("", "[]", "[[1e10], " + std::to_string(code) + ", 2.5, 7]"));
    ASSERT_TRUE(r.ok()) << r.error().message;
    EXPECT_EQ(r->outcome, outcomes[code]);
    EXPECT_EQ(r->seconds, 0);
    EXPECT_EQ(r->samples_s, std::vector<double>{1e10});
    EXPECT_EQ(code_of(*r), code);
    EXPECT_EQ(Json::parse(*to_ansor_line(*r))["r"][1], code);
  }
}

TEST(AnsorLog, RefusesWithTheReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"{", "not JSON"},
      {"[1]", "has no \"i\""},
      {R"({"i": [], "r": [[1], 0, 1, 1], "v": "v0.6"})", "the input has 0 elements"},
      {R"({"i": [["k"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"})", "the task has 1"},
      {R"({"i": [["k", 3], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"})",
       "the target is not text"},
      {R"({"i": [["k", "t"], [[], []]], "r": [[1], 0], "v": "v0.6"})", "the result has 2"},
      {R"({"i": [["k", "t"], [[], []]], "r": [["x"], 0, 1, 1], "v": "v0.6"})",
       "a cost is not a number"},
      {R"({"i": [["k", "t"], [[], []]], "r": [[], 0, 1, 1], "v": "v0.6"})", "has no costs"},
      {R"({"i": [["k", "t"], [[], []]], "r": [[1], 0, 1, 1]})", "has no version"},
      {ansor_line("", R"([["SP",2,0,128,[4],1],["XX",1]])"), "step 1: unknown tag 'XX'"},
      {ansor_line("", R"([["SP",2,0,128]])"), "step 0: SP has too few arguments"},
      {ansor_line("", R"([["CI",2,3]])"), "CI has too many arguments"},
      {ansor_line("", R"([["CI","x"]])"), "CI argument 1 is not an integer"},
      {ansor_line("", R"([["FU",1,2]])"), "FU argument 2 is not a list"},
      {ansor_line("", R"([["PR",1,2,3]])"), "PR argument 3 is not text"},
      {ansor_line("", R"([["AN",1,2,12]])"), "AN has the annotation 12"},
      {ansor_line("", "3"), "the list of steps is not a list"},
  };
  for (const auto& [line, reason] : cases) {
    const Result<Record> r = parse_ansor_line(line);
    ASSERT_FALSE(r.ok()) << line;
    EXPECT_NE(r.error().message.find(reason), std::string::npos)
        << r.error().message << " does not say: " << reason;
  }
}

const std::string kConfig =
    R"({"index": 42, "code_hash": null, "entity": [["tile_f", "sp", [-1, 2, 16]], )"
    R"(["order", "re", [1, 0]], ["ann", "an", ["none", "vec"]], ["unroll", "ot", true]]})";

std::string autotvm_line(const std::string& config = kConfig,
                         const std::string& result = "[[0.5, 0.25], 0, 2.4, 1700000000.25]") {
  return R"({"input": ["cuda -model=v100", "conv2d_nchw.cuda", [["TENSOR", [1, 3], "float32"], )"
         R"([1, 1], null], {}], "config": )" +
         config + R"(, "result": )" + result + R"(, "version": 0.2, "tvm_version": "0.12.0"})";
}

TEST(AutotvmLog, ReadsEveryFieldAndWritesItBack) {
  const Result<Record> r = parse_autotvm_line(autotvm_line());
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->format, "autotvm");
  EXPECT_EQ(r->task, R"(["conv2d_nchw.cuda",[["TENSOR",[1,3],"float32"],[1,1],null],{}])");
  EXPECT_EQ(r->target, "cuda -model=v100");
  EXPECT_EQ(Json::parse(r->candidate), Json::parse(kConfig));
  EXPECT_EQ(r->seconds, 0.375);
  EXPECT_EQ(r->unix_time, 1700000000);
  EXPECT_EQ(Json::parse(*to_autotvm_line(*r)), Json::parse(autotvm_line()));
}

TEST(AutotvmLog, ReadsTheFirstVersion) {
  const std::string line =
      R"({"i": ["llvm", "conv2d", [["TENSOR", [1, 3], "float32"]], {}, ["conv2d", 1], )"
      R"({"i": 7, "t": "direct", "c": null, "e": [["tile_y", "sp", [-1, 4]]]}], )"
      R"("r": [[1000000000.0], 4, 1.5, 1540000000.5], "v": 0.1})";
  ASSERT_EQ(*detect_format(line), LogFormat::kAutotvm);
  const Result<Record> r = parse_autotvm_line(line);
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->outcome, "run_error");
  EXPECT_EQ(r->seconds, 0);
  const Result<autotvm::Config> config = autotvm::parse_config(r->candidate);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->index, 7);
  EXPECT_EQ(config->knobs.at(0).sizes, (std::vector<std::int64_t>{-1, 4}));
  EXPECT_EQ(Json::parse(*to_autotvm_line(*r)), Json::parse(line));
}

TEST(AutotvmLog, KnobsAreTyped) {
  const Result<autotvm::Config> config = autotvm::parse_config(kConfig);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->index, 42);
  ASSERT_EQ(config->knobs.size(), 4u);
  EXPECT_EQ(config->knobs[0].kind, autotvm::KnobKind::kSplit);
  EXPECT_EQ(config->knobs[0].sizes, (std::vector<std::int64_t>{-1, 2, 16}));
  EXPECT_EQ(config->knobs[1].kind, autotvm::KnobKind::kReorder);
  EXPECT_EQ(config->knobs[2].words, (std::vector<std::string>{"none", "vec"}));
  EXPECT_EQ(config->knobs[3].text, "true");
}

TEST(AutotvmLog, RefusesWithTheReason) {
  const auto config = [](const std::string& entity) {
    return autotvm_line(R"({"index": 1, "entity": )" + entity + "}");
  };
  const std::pair<std::string, std::string> cases[] = {
      {"7", "not a JSON object"},
      {"{}", "has no \"input\""},
      {R"({"input": ["t"]})", "the input has 1 elements"},
      {R"({"input": ["t", "n", [], {}]})", "has no \"config\""},
      {autotvm_line("{}"), "the config has no index"},
      {autotvm_line(R"({"index": 1})"), "the config has no entity"},
      {config("3"), "the entity of the config is not a list"},
      {config(R"([["a", "sp"]])"), "the knob has 2 elements"},
      {config(R"([["a", "xx", [1]]])"), "knob 'a': unknown kind 'xx'"},
      {config(R"([["a", "sp", ["x"]]])"), "knob 'a': a size is not an integer"},
      {autotvm_line(kConfig, "[]"), "the result has 0 elements"},
  };
  for (const auto& [line, reason] : cases) {
    const Result<Record> r = parse_autotvm_line(line);
    ASSERT_FALSE(r.ok()) << line;
    EXPECT_NE(r.error().message.find(reason), std::string::npos)
        << r.error().message << " does not say: " << reason;
  }
}

TEST(ForeignLog, FormatsAreNotMistakenForEachOther) {
  EXPECT_EQ(*detect_format(ansor_line("")), LogFormat::kAnsor);
  EXPECT_EQ(*detect_format(autotvm_line()), LogFormat::kAutotvm);
  EXPECT_EQ(*detect_format(R"({"kind": "record"})"), LogFormat::kTessera);
  EXPECT_FALSE(detect_format(R"({"a": 1})").ok());
  EXPECT_FALSE(to_autotvm_line(*parse_ansor_line(ansor_line(""))).ok());
  EXPECT_FALSE(to_ansor_line(*parse_autotvm_line(autotvm_line())).ok());
}

class LogFile : public TempFolder {};

void write_gz(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
}

TEST_F(LogFile, PlainAndCompressedWithCommentsAndNoLastLineBreak) {
  const std::string text = "# made by hand\n\n" + ansor_line("") + "\r\n" + ansor_line("", "[]");
  std::ofstream(path("a.json")) << text;
  write_gz(path("a.json.gz"), text);
  for (const char* name : {"a.json", "a.json.gz"}) {
    std::vector<std::string> candidates;
    const Result<ForeignLog> log = read_foreign_log(path(name), [&](Record& r) -> Result<void> {
      candidates.push_back(r.candidate);
      return {};
    });
    ASSERT_TRUE(log.ok()) << log.error().message;
    EXPECT_EQ(log->records, 2);
    EXPECT_EQ(log->good, 2);
    EXPECT_EQ(candidates, (std::vector<std::string>{kSteps, "[]"}));
  }
}

TEST_F(LogFile, LinesLongerThanTheBuffer) {
  const std::string key(3'000'000, 'k');
  std::ofstream(path("a")) << R"({"i": [[")" + key +
                                  R"(", "t"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"})"
                           << "\n"
                           << ansor_line("") << "\n";
  std::vector<std::size_t> sizes;
  const Result<ForeignLog> log = read_foreign_log(path("a"), [&](Record& r) -> Result<void> {
    sizes.push_back(r.task.size());
    return {};
  });
  ASSERT_TRUE(log.ok()) << log.error().message;
  EXPECT_EQ(sizes, (std::vector<std::size_t>{key.size(), 20}));
}

TEST_F(LogFile, ErrorsNameFileAndLine) {
  std::ofstream(path("a.json")) << "# comment\n" << ansor_line("") << "\n{broken\n";
  const auto ignore = [](Record&) -> Result<void> { return {}; };
  const Result<ForeignLog> log = read_foreign_log(path("a.json"), ignore);
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().message.find(path("a.json") + ":3: is not JSON"), 0u)
      << log.error().message;
  const Result<ForeignLog> absent = read_foreign_log(path("absent"), ignore);
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(read_foreign_log(path(""), ignore).error().message.find("is a folder"),
            std::string::npos);
}

TEST_F(LogFile, TruncatedCompressionIsAnError) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += ansor_line(", [" + std::to_string(i * 7919) + "]") + "\n";
  write_gz(path("whole.gz"), text);
  std::ifstream in(path("whole.gz"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::ofstream(path("cut.gz"), std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  const Result<ForeignLog> log =
      read_foreign_log(path("cut.gz"), [](Record&) -> Result<void> { return {}; });
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.error().message.find("cannot be read after line"), std::string::npos)
      << log.error().message;
}

}  // namespace
}  // namespace tessera::record
