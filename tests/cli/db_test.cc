// tessera db on small databases that the test makes from logs.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string ansor_line(const std::string& lengths, const std::string& unroll, double seconds,
                       int code = 0) {
  return R"({"i": [["[\"mm\", 64]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 2, []], [[], [["SP", 2, 0, 64, [)" +
         lengths + R"(], 1], ["PR", 2, 0, "auto_unroll_max_step$)" + unroll + R"("]]]], "r": [[)" +
         (code == 0 ? std::to_string(seconds) : "10000000000.0") + "], " + std::to_string(code) +
         R"(, 1.5, 1620000000], "v": "v0.6"})" + "\n";
}

const std::string kAutotvm =
    R"({"input": ["llvm", "dense", [1, 2], {}], "config": {"index": 3, "code_hash": null, )"
    R"("entity": [["tile", "sp", [-1, 4]]]}, "result": [[0.5], 0, 1.5, 1620000000.5], )"
    R"("version": 0.2, "tvm_version": "0.8"})"
    "\n";

class Db : public ::testing::Test {
 protected:
  void SetUp() override {
    log_ = write_file("log.json", ansor_line("4", "16", 0.002) + ansor_line("8", "16", 0.001) +
                                      ansor_line("8", "64", 0.004) + ansor_line("2", "16", 0.008) +
                                      ansor_line("2", "0", 0, 4));
    folder_ = fs::path(log_).parent_path().string();
    for (const char* name : {"a.db", "b.db"}) fs::remove(file(name));
  }
  void import(const std::string& log, const std::string& db) {
    const Finished done = run({"db", "import", log, "--db", file(db)});
    ASSERT_EQ(done.code, 0) << done.err;
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }

  std::string log_, folder_;
};

TEST_F(Db, ImportCountsAndListsInJson) {
  const Finished imported = run({"db", "import", log_, "--db", file("a.db"), "--json"});
  ASSERT_EQ(imported.code, 0) << imported.err;
  EXPECT_EQ(Json::parse(imported.out)["records"], 5);
  EXPECT_EQ(Json::parse(imported.out)["good"], 4);
  EXPECT_EQ(Json::parse(imported.out)["files"][0]["format"], "ansor");
  const Finished listed = run({"db", "list", "--db", file("a.db"), "--json"});
  ASSERT_EQ(listed.code, 0) << listed.err;
  const Json json = Json::parse(listed.out);
  EXPECT_EQ(json["records"], 5);
  ASSERT_EQ(json["sessions"].size(), 1u);
  EXPECT_EQ(json["sessions"][0]["state"], "imported");
  EXPECT_EQ(json["sessions"][0]["records"], 5);
  ASSERT_EQ(json["tasks"].size(), 1u);
  EXPECT_EQ(json["tasks"][0]["key"], "[\"mm\", 64]");
  EXPECT_EQ(json["tasks"][0]["best_s"], 0.001);
  EXPECT_EQ(json["tasks"][0]["failed"], 1);
}

TEST_F(Db, ListPrintsTables) {
  import(log_, "a.db");
  const Finished listed = run({"db", "list", "--db", file("a.db")});
  ASSERT_EQ(listed.code, 0) << listed.err;
  EXPECT_NE(listed.out.find("5 records, 1 session, 1 task"), std::string::npos) << listed.out;
  EXPECT_NE(listed.out.find("1.000 ms"), std::string::npos) << listed.out;
}

TEST_F(Db, SubjectsAreListedAndExplainedApart) {
  const auto line = [](const std::string& subject, double seconds) {
    return fmt::format(R"({{"kind":"record","task":"k","target":"t","candidate":"a: x={0}",)"
                       R"("outcome":"ok","seconds":{0},"subject":"{1}","policy":"p"}})"
                       "\n",
                       seconds, subject);
  };
  const std::string lines = write_file(
      "subjects.jsonl", line("kernel", 0.5) + line("in_place", 0.25) + line("model", 0.125));
  import(lines, "a.db");
  const std::string list = run({"db", "list", file("a.db")}).out;
  EXPECT_NE(list.find("k  (in place)\n"), std::string::npos) << list;
  EXPECT_NE(list.find("k  (whole model)\n"), std::string::npos) << list;
  EXPECT_NE(list.find("3 records"), std::string::npos) << list;
  const Json json = Json::parse(run({"db", "list", file("a.db"), "--json"}).out);
  EXPECT_EQ(json["tasks"][1]["subject"], "in_place");
  const auto best = [&](const std::vector<std::string>& more) -> double {
    std::vector<std::string> args = {"db", "explain", file("a.db"), "--task", "k", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return Json::parse(run(args).out)["best"][0]["seconds"];
  };
  EXPECT_EQ(best({}), 0.5);
  EXPECT_EQ(best({"--subject", "in_place"}), 0.25);
  EXPECT_EQ(best({"--subject", "model"}), 0.125);
  const Finished exported = run({"db", "export", "--db", file("a.db"), "-o", "-"});
  EXPECT_NE(exported.out.find(R"("subject":"model")"), std::string::npos) << exported.out;
  EXPECT_NE(exported.err.find("3 records"), std::string::npos) << exported.err;
}

TEST_F(Db, TheEnvironmentNamesTheDatabase) {
  import(log_, "a.db");
  const Finished listed = run_shell("TESSERA_DB=" + file("a.db") + " tessera db list");
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_NE(listed.out.find("5 records"), std::string::npos) << listed.out;
}

TEST_F(Db, ImportingTwiceAddsNothing) {
  import(log_, "a.db");
  const Finished again = run({"db", "import", log_, "--db", file("a.db")});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.out.find("5 were there already"), std::string::npos) << again.out;
}

TEST_F(Db, ExplainSaysWhatTheBestHas) {
  import(log_, "a.db");
  const Finished text = run({"db", "explain", "--task", "[\"mm\", 64]", "--db", file("a.db")});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("5 records, 4 timed"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("run_error: 4 runtime_device"), std::string::npos) << text.out;
  const Finished done = run(
      {"db", "explain", "--task", "[\"mm\", 64]", "--db", file("a.db"), "--top", "2", "--json"});
  const Json json = Json::parse(done.out);
  ASSERT_EQ(json["best"].size(), 2u);
  EXPECT_EQ(json["best"][0]["seconds"], 0.001);
  ASSERT_EQ(json["decisions"].size(), 2u);
  // Split 8: median 2.5 ms, else 5 ms. Unroll 16: 2 ms, else 4 ms.
  EXPECT_EQ(json["decisions"][1]["best_value"], "8");
  EXPECT_DOUBLE_EQ(json["decisions"][0]["effect"], 2.0);
  EXPECT_EQ(json["decisions"][0]["best_value"], "auto_unroll_max_step$16");
  EXPECT_DOUBLE_EQ(json["decisions"][1]["effect"], 2.0);
  EXPECT_EQ(json["failures"]["run_error"], 1);
}

TEST_F(Db, DiffSaysWhichIsFaster) {
  import(log_, "a.db");
  import(write_file("other.json", ansor_line("4", "16", 0.002)), "b.db");
  const Finished text = run({"db", "diff", file("a.db"), file("b.db")});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("A is faster on 1, B on 0 of 1 common tasks"), std::string::npos)
      << text.out;
  const Json json = Json::parse(run({"db", "diff", file("a.db"), file("b.db"), "--json"}).out);
  EXPECT_EQ(json["tasks"][0]["better"], "A");
  EXPECT_NEAR(json["geometric_mean_a_over_b"].get<double>(), 0.5, 1e-12);
}

TEST_F(Db, ExportsGoBackToTheirFormat) {
  import(log_, "a.db");
  import(write_file("tvm.log", kAutotvm), "a.db");
  const Finished ansor =
      run({"db", "export", "--db", file("a.db"), "-o", "-", "--format", "ansor"});
  ASSERT_EQ(ansor.code, 0) << ansor.err;
  EXPECT_EQ(ansor.err, "5 records\n");
  EXPECT_EQ(Json::parse(ansor.out.substr(0, ansor.out.find('\n'))),
            Json::parse(ansor_line("4", "16", 0.002)));
  const Finished tvm =
      run({"db", "export", "--db", file("a.db"), "-o", file("back.log"), "--format", "autotvm"});
  ASSERT_EQ(tvm.code, 0) << tvm.err;
  EXPECT_EQ(Json::parse(read_file(file("back.log"))), Json::parse(kAutotvm));
  ASSERT_EQ(run({"db", "export", "--db", file("a.db"), "-o", file("all.jsonl")}).code, 0);
  import(file("all.jsonl"), "b.db");
  EXPECT_EQ(run({"db", "list", "--db", file("b.db"), "--json"}).out,
            run({"db", "list", "--db", file("a.db"), "--json"}).out);
}

TEST_F(Db, Mistakes) {
  import(log_, "a.db");
  struct Mistake {
    std::vector<std::string> args;
    int code;
    std::string said;
  };
  const Mistake mistakes[] = {
      {{"db"}, 2, "Usage: tessera db "},
      {{"db", "lits"}, 2, "did you mean 'list'?"},
      {{"db", "list", "--db", file("absent.db")}, 6, "there is no such database"},
      {{"db", "list", "--db", log_}, 2, "not a database"},
      {{"db", "list", "--bd", "x"}, 2, "did you mean '--db'?"},
      {{"db", "explain"}, 2, "--task is required"},
      {{"db", "explain", "--task", "[\"mm\", 65]", "--db", file("a.db")},
       2,
       "did you mean '[\"mm\", 64]'?"},
      {{"db", "diff", file("a.db")}, 2, "FILES"},
      {{"db", "diff", file("a.db"), file("absent.db")}, 6, "there is no such database"},
      {{"db", "import", file("absent"), "--db", file("a.db")}, 6, "there is no such file"},
      {{"db", "import", write_file("bad", "{\"a\": 1}\n"), "--db", file("a.db")}, 2, "bad:1: "},
      {{"db", "import", log_, "--db", file("a.db"), "--format", "autotvm"},
       2,
       "is of the format ansor, not autotvm"},
      {{"db", "export", "--db", file("a.db"), "-o", "x", "--format", "csv"}, 2, "csv"},
      {{"db", "export", "--db", file("a.db"), "-o", "/proc/none/x"}, 2, "/proc/none/x"},
  };
  for (const Mistake& m : mistakes) {
    const Finished done = run(m.args);
    EXPECT_EQ(done.code, m.code) << m.said << "\n" << done.err;
    EXPECT_NE(done.err.find(m.said), std::string::npos) << "no '" << m.said << "' in: " << done.err;
    EXPECT_EQ(done.out, "") << m.said;
  }
}

TEST_F(Db, CopyMergeAndPrune) {
  import(log_, "a.db");
  const Finished copied = run({"db", "copy", file("a.db"), file("b.db")});
  ASSERT_EQ(copied.code, 0) << copied.err;
  EXPECT_EQ(copied.out, "5 records copied\n");
  EXPECT_EQ(run({"db", "export", file("b.db"), "-o", "-"}).out,
            run({"db", "export", file("a.db"), "-o", "-"}).out);
  const Finished twice = run({"db", "copy", file("a.db"), file("b.db")});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("is not empty"), std::string::npos) << twice.err;
  const Finished merged = run({"db", "merge", file("a.db"), file("b.db"), "--json"});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_EQ(Json::parse(merged.out)["skipped"], 5);
  EXPECT_EQ(Json::parse(merged.out)["files"][0]["format"], "database");
  const Finished none = run({"db", "prune", "--db", file("b.db")});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--older"), std::string::npos);
  EXPECT_EQ(run({"db", "prune", "--db", file("b.db"), "--older", "30", "--dry-run"}).out,
            "would remove 5 records and 1 session\n");
  EXPECT_EQ(run({"db", "prune", "--db", file("b.db"), "--older", "30"}).out,
            "removed 5 records and 1 session\n");
  const Finished again = run({"db", "import", file("a.db"), "--db", file("b.db")});
  EXPECT_NE(again.out.find("5 records (4 good) of 1 tasks, database"), std::string::npos)
      << again.out << again.err;
}

TEST_F(Db, MovesMakeNothingWhereThereIsNothing) {
  fs::remove(file("none.db"));
  fs::remove(file("new.db"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"db", "import", file("none.db"), "--db", file("new.db")},
        {"db", "merge", file("none.db"), file("new.db")},
        {"db", "merge", log_, file("new.db")},
        {"db", "copy", file("none.db"), file("new.db")},
        {"db", "migrate", "--db", file("none.db")},
        {"db", "prune", "--db", file("none.db"), "--session", "1"}}) {
    const Finished done = run(words);
    EXPECT_NE(done.code, 0) << words[1];
    EXPECT_FALSE(done.err.empty());
    EXPECT_FALSE(fs::exists(file("none.db"))) << words[1];
    EXPECT_FALSE(fs::exists(file("new.db"))) << words[1];
  }
}

TEST_F(Db, MigrateSaysWhatItDid) {
  import(log_, "a.db");
  EXPECT_EQ(run({"db", "migrate", "--db", file("a.db")}).out, file("a.db") + ": is up to date\n");
}

TEST_F(Db, UrlsNeedLibpqAndHaveNoPasswords) {
  const Finished secret = run({"db", "list", "--db", "postgresql://ada:s3cret@127.0.0.1/db"});
  EXPECT_EQ(secret.code, 2);
  EXPECT_EQ((secret.out + secret.err).find("s3cret"), std::string::npos) << secret.err;
  EXPECT_NE(secret.err.find("~/.pgpass"), std::string::npos);
  ::setenv("TESSERA_LIBPQ", "/nowhere/libpq.so.5", 1);
  const Finished absent = run({"db", "list", "--db", "postgresql://127.0.0.1/db"});
  ::unsetenv("TESSERA_LIBPQ");
  EXPECT_NE(absent.code, 0);
  EXPECT_NE(absent.err.find("libpq5"), std::string::npos) << absent.err;
}

TEST_F(Db, GrantPrintsSql) {
  const Finished done = run({"db", "grant", "tuner"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("GRANT INSERT ON tessera.sessions"), std::string::npos);
  EXPECT_EQ(done.out.find("DELETE"), std::string::npos);
}

}  // namespace
}  // namespace tessera::cli
