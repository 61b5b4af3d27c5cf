// tessera tune as its users meet it: plans, resuming, interrupts, and what goes wrong around it.
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/model_files.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::json;

const std::string kOp = "matmul:M=48,N=40,K=32";

// Paths in a folder of the test's own.
struct Files {
  Files() : folder(std::filesystem::path(write_file("folder", "")).parent_path().string()) {
    for (const char* name : {"/t.db", "/t.db-wal", "/t.db-shm", "/t.plan"}) {
      std::filesystem::remove(folder + name);
    }
  }
  std::string folder;
  std::string db = folder + "/t.db", plan = folder + "/t.plan";

  std::string tune(const std::string& what) const {
    return fmt::format(
        "tessera tune {} --threads 1 --peers none --policy random --json --db {} --plan {}", what,
        db, plan);
  }
  std::int64_t records() const {
    const Finished list = run({"db", "list", "--db", db, "--json"});
    EXPECT_EQ(list.code, 0) << list.err;
    return list.code == 0 ? Json::parse(list.out)["records"].get<std::int64_t>() : -1;
  }
  // Records of the search. A fast machine comes to a final before it is interrupted, which repeats
  // some.
  std::int64_t trials() const {
    const Finished all = run({"db", "export", "--db", db, "-o", "-"});
    EXPECT_EQ(all.code, 0) << all.err;
    std::istringstream lines(all.out);
    std::int64_t trials = 0;
    for (std::string line; std::getline(lines, line);)
      trials += Json::parse(line).value("policy", "final") == "final" ? 0 : 1;
    return trials;
  }
};

Json tuned(const std::string& command, int code = 0) {
  const Finished done = run_shell(command);
  EXPECT_EQ(done.code, code) << done.err;
  const Json json = Json::parse(done.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << done.out << done.err;
  return json;
}

TEST(Tune, CountsTrialsOfEachTaskAndSumsTheirTimes) {
  const Files files;
  const std::string ops = fmt::format("--op {} --op matmul:M=24,N=40,K=32", kOp);
  const Json first = tuned(files.tune(ops + " --trials-per-task 6"));
  EXPECT_EQ(first["stopped_by"], "trials");
  EXPECT_EQ(first["trials"], 12);
  EXPECT_TRUE(first.contains("disturbed"));
  for (const Json& task : first["tasks"]) EXPECT_EQ(task["estimated"], false) << task;
  EXPECT_GT(first["sum_default_us"], 0);
  EXPECT_GT(first["sum_best_us"], 0);
  EXPECT_EQ(first["sum_best_us"], first["sum_session_us"]);
  const Json second = tuned(files.tune(ops + " --trials-per-task 9"));
  EXPECT_LE(second["trials"].get<int>() + second["earlier_trials"].get<int>(), 18);
  EXPECT_GE(second["sum_session_us"], second["sum_best_us"]);
}

// Its plan has the kernels that every run of the model compiles before data says more.
TEST(Tune, WhatComesBeforeDataIsTuned) {
  using onnx::testing::make_node;
  const Files files;
  Rng rng(3);
  const std::string model =
      save("find.onnx",
           onnx::testing::make_model(onnx::testing::make_graph(
               {floats("x", {"17", "33"})},
               {make_node("MatMul", {"x", "w"}, {"h"}), make_node("NonZero", {"h"}, {"at"})},
               {"at"}, {{"w", random_tensor(DType::kF32, {33, 29}, rng)}})));
  const std::string part = files.folder + "/t.known.onnx";
  const Finished done = run_shell(files.tune(model + " --alone --trials-per-task 4"));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("NonZero-17 at; the 1 of 2 nodes before are tuned, as " + part),
            std::string::npos)
      << done.err;
  EXPECT_GT(Json::parse(done.out)["trials"], 0);
  const Finished timed = run(quick_bench({model, "--plan", files.plan, "--strict", "--json"}));
  ASSERT_EQ(timed.code, 0) << timed.err;
  EXPECT_EQ(Json::parse(timed.out)["results"][0]["verified"], true) << timed.out;
  const Finished artifact =
      run_shell(files.tune(model + " --alone --trials-per-task 4 -o " + files.folder + "/out"));
  EXPECT_EQ(artifact.code, 5) << artifact.err;
  EXPECT_NE(artifact.err.find("cannot be written as an artifact"), std::string::npos)
      << artifact.err;
}

TEST(Tune, DecisionsOfAModelAreALevel) {
  const Files files;
  const Json json = tuned(files.tune("zoo:lenet --level graph --budget 60s --plans 3"));
  EXPECT_GT(json["before_us"], 0);
  EXPECT_LE(json["after_us"], json["before_us"]);
  EXPECT_GT(json["graph"]["points"], 0);
  EXPECT_TRUE(json["graph"]["plans"].is_array());
  EXPECT_EQ(run({"run", "zoo:lenet", "--random", "--plan", files.plan}).code, 0);
  for (const Json& plan : json["graph"]["plans"]) {
    EXPECT_TRUE(plan.contains("kept")) << plan;
    EXPECT_GT(plan["gain"], 0);
  }
  EXPECT_EQ(run({"tune", "--op", kOp, "--level", "graph"}).code, 2);
  EXPECT_NE(run({"tune", "zoo:lenet", "--level", "graph", "--judge", "/nonexistent"}).code, 0);
  EXPECT_EQ(run({"tune", "zoo:lenet", "--level", "loop"}).code, 2);
}

TEST(Tune, AModelWithoutKernelsIsNamed) {
  const std::string model = save(
      "none.onnx",
      onnx::testing::make_model(onnx::testing::make_graph(
          {floats("x", {"0", "4"})}, {onnx::testing::make_node("Relu", {"x"}, {"y"})}, {"y"})));
  for (const char* level : {"kernel", "graph"}) {
    const Finished done = run({"tune", model, "--level", level, "--db", ""});
    EXPECT_EQ(done.code, 5) << level;
    EXPECT_NE(done.err.find("none.onnx: there is no kernel to tune"), std::string::npos)
        << done.err;
  }
}

TEST(Tune, NumbersOfTrialsAreAboveZero) {
  using Pair = std::pair<const char*, const char*>;
  for (const auto& [flag, value] :
       {Pair("--trials", "0"), Pair("--trials", "-3"), Pair("--trials-per-task", "x")}) {
    const Finished done = run({"tune", "zoo:mlp", flag, value});
    EXPECT_EQ(done.code, 2) << flag;
    EXPECT_NE(done.err.find("is not a number above 0"), std::string::npos) << done.err;
  }
}

TEST(Tune, TheTransferStudyPrintsItsTable) {
  const Files files;
  const Finished study = run_shell("sh bench/studies/transfer.sh -m none -n 3 -l 2 -d " +
                                   files.folder + "/study zoo:mlp");
  ASSERT_EQ(study.code, 0) << study.err;
  EXPECT_EQ(study.out.find("| model | default ms | setting | without ms | with ms |"), 0u);
  for (const char* row : {"| zoo:mlp | ", " | 1 | ", " | 2 | "}) {
    EXPECT_NE(study.out.find(row), std::string::npos) << study.out;
  }
  EXPECT_EQ(study.out.find("| - |"), std::string::npos) << "every sum is known: " << study.out;
  // The same again measures nothing.
  EXPECT_EQ(run_shell("sh bench/studies/transfer.sh -m none -n 3 -l 2 -b /nonexistent -d " +
                      files.folder + "/study zoo:mlp")
                .out,
            study.out);
  // Another command does not print these results under its own name.
  const Finished other = run_shell("sh bench/studies/transfer.sh -m none -n 4 -l 2 -d " +
                                   files.folder + "/study zoo:mlp");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("another command"), std::string::npos) << other.err;
  EXPECT_EQ(run_shell("sh bench/studies/transfer.sh").code, 2);
  std::filesystem::remove_all(files.folder + "/study");
}

TEST(Tune, ThePretrainedStudyPrintsItsTable) {
  const Files files;
  const std::string study = "sh bench/studies/pretrained.sh -m none -d " + files.folder + "/study ";
  const Finished done = run_shell(study + "-n 20 " + kOp);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out.find("| | 20 trials, ms | 2 trials | 2 trials, trained model |"), 0u);
  EXPECT_NE(done.out.find("| `" + kOp + "` | "), std::string::npos) << done.out;
  EXPECT_EQ(done.out.find("| - |"), std::string::npos) << "every sum is known: " << done.out;
  std::filesystem::remove_all(files.folder + "/study");
  const Finished few = run_shell(study + "-n 9 " + kOp);
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.err.find("a tenth of it is no trial"), std::string::npos) << few.err;
  std::filesystem::remove_all(files.folder + "/study");
}

TEST(Tune, AnOperationIsNeverSlowerThanByDefaultAndTheSameCommandResumes) {
  const Files files;
  const std::string command = files.tune("--op " + kOp + " --trials 20");
  const Json first = tuned(command);
  EXPECT_EQ(first["trials"], 20);
  EXPECT_EQ(first["earlier_trials"], 0);
  EXPECT_LE(first["subjects"][0]["after_us"], first["subjects"][0]["before_us"]);
  const std::int64_t kept = files.records();
  EXPECT_GE(kept, 20);
  const Json second = tuned(command);
  EXPECT_EQ(second["trials"], 0);
  EXPECT_EQ(second["earlier_trials"], 20);
  const Json more = tuned(files.tune("--op " + kOp + " --trials 28"));
  EXPECT_EQ(more["trials"], 8);
}

TEST(Tune, BenchTakesThePlanOfAnOperation) {
  const Files files;
  const std::string op = "conv2d:N=1,H=10,W=10,CI=8,CO=16,KH=3,KW=3,S=1,P=1";
  const Json json = tuned(files.tune("--op " + op + " --trials 24"));
  EXPECT_EQ(json["tasks"].size(), 4u);  // direct and three sizes of winograd
  std::string used;
  for (const Json& t : json["tasks"]) {
    if (t["used"]) used = t["algorithm"];
  }
  const Finished bench = run(quick_bench({"--op", op, "--plan", files.plan, "--json"}));
  EXPECT_EQ(bench.code, 0) << bench.err;
  const std::string name = Json::parse(bench.out)["results"][0]["name"];
  EXPECT_NE(name.find("algo=" + used), std::string::npos) << name;
}

TEST(Tune, AModelGivesAPlanThatIsWholeAndVerified) {
  const Files files;
  const Json json = tuned(files.tune("zoo:mlp --trials 40 --no-recombine"));
  EXPECT_LE(json["subjects"][0]["max_error"], 1);
  EXPECT_GT(json["subjects"][0]["after_us"], 0);
  const Finished bench = run(quick_bench({"zoo:mlp", "--plan", files.plan, "--strict"}));
  EXPECT_EQ(bench.code, 0) << bench.err;
}

TEST(Tune, TheBatchIsThatOfTheModel) {
  const Files files;
  const Json json = tuned(files.tune("zoo:mlp --batch 3 --trials 4 --no-recombine"));
  EXPECT_EQ(json["subjects"][0]["name"], "zoo:mlp@batch=3");
  EXPECT_EQ(run(quick_bench({"zoo:mlp", "--batch", "3", "--plan", files.plan, "--strict"})).code,
            0);
}

TEST(Tune, ABudgetThatIsTooShortIsNamed) {
  const Files files;
  for (const char* level : {"kernel", "graph"}) {
    const Finished done = run({"tune", "zoo:resnet18", "--level", level, "--budget", "1ms", "--db",
                               "", "--plan", files.plan, "--peers", "none"});
    EXPECT_EQ(done.code, 3) << done.err;
    EXPECT_NE(done.err.find("--budget"), std::string::npos) << done.err;
  }
}

TEST(Tune, OperationsHaveNoBatch) {
  const Finished done = run({"tune", "--op", "matmul:M=8,N=8,K=8", "--batch", "3"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("--round"), std::string::npos) << done.err;
  EXPECT_EQ(run({"show", "--op", "matmul:M=8,N=8,K=8", "--batch", "3"}).code, 2);
}

// One of its outputs is NaN everywhere: whatever was computed, nothing shows that it is right.
TEST(Tune, AModelThatCannotBeVerifiedGivesNoPlan) {
  using onnx::testing::make_node;
  const std::string model = save(
      "nan.onnx",
      onnx::testing::make_model(onnx::testing::make_graph(
          {floats("x", {"8", "16"})},
          {make_node("MatMul", {"x", "w"}, {"y"}), make_node("Mul", {"x", "x"}, {"square"}),
           make_node("Sub", {"minus", "square"}, {"below"}), make_node("Sqrt", {"below"}, {"z"})},
          {"y", "z"},
          {{"w", onnx::testing::float_tensor({16, 4}, std::vector<double>(64, 0.5))},
           {"minus", onnx::testing::float_tensor({1}, {-1})}})));
  const Files files;
  const Finished done = run_shell(files.tune(model + " --trials 8"));
  EXPECT_EQ(done.code, 4) << done.out << done.err;
  EXPECT_NE(done.err.find("NaN everywhere"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("no plan"), std::string::npos) << done.err;
  EXPECT_EQ(Json::parse(done.out)["state"], "rejected: wrong results");
  EXPECT_FALSE(std::filesystem::exists(files.plan));
}

TEST(Tune, InterruptSavesTheBestSoFar) {
  const Files files;
  const Json json = tuned(
      files.tune("--op " + kOp + " --budget 60s") + " & pid=$!; sleep 3; kill -INT $pid; wait $pid",
      130);
  EXPECT_EQ(json["state"], "interrupted");
  EXPECT_GT(json["trials"], 0);
  EXPECT_LE(files.trials(), json["trials"]);
  if (json["disturbed"] == 0) {
    EXPECT_EQ(files.trials(), json["trials"]);
  }
  const Finished bench = run(quick_bench({"--op", kOp, "--plan", files.plan}));
  EXPECT_EQ(bench.code, 0) << bench.err;
}

TEST(Tune, OtherSignalsEndLikeCtrlC) {
  const Files files;
  for (const auto& [signal, code] : {std::pair("TERM", 143), std::pair("HUP", 129)}) {
    std::filesystem::remove(files.plan);
    const Json json = tuned(files.tune("--op " + kOp + " --budget 60s") +
                                fmt::format(" & pid=$!; sleep 3; kill -{} $pid; wait $pid", signal),
                            code);
    EXPECT_EQ(json["state"], "interrupted");
    EXPECT_TRUE(std::filesystem::exists(files.plan)) << signal;
  }
}

TEST(Tune, ASecondCtrlCSavesToo) {
  const Files files;
  const Finished done =
      run_shell(files.tune("zoo:mlp --budget 60s") +
                " & pid=$!; sleep 3; kill -INT $pid; kill -INT $pid; wait $pid; echo $? >&2");
  EXPECT_NE(done.err.find("130\n"), std::string::npos) << done.err;
  const Finished bench = run(quick_bench({"zoo:mlp", "--plan", files.plan, "--strict"}));
  EXPECT_EQ(bench.code, 0) << bench.err;
}

TEST(Tune, AnInterruptSaysHowToWriteTheArtifact) {
  const Files files;
  const std::string out = files.folder + "/out";
  const Finished done = run_shell(files.tune("zoo:mlp --budget 60s -o " + out) +
                                  " & pid=$!; sleep 3; kill -INT $pid; wait $pid");
  EXPECT_NE(done.err.find("`tessera compile zoo:mlp --plan " + files.plan + " -o " + out + "`"),
            std::string::npos)
      << done.err;
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(Tune, NoTrialBeforeTheOutputsCanBeWritten) {
  const Files files;
  const std::string nowhere = files.folder + "/nowhere/t.plan", db = " --db " + files.db;
  for (const std::string& more : {db + " --plan " + nowhere, db + " --plan " + files.folder,
                                  db + " --plan " + files.plan + " -o " + files.folder,
                                  db + " --plan " + files.plan + " -o /proc/none/out",
                                  " --db " + nowhere + " --plan " + files.plan}) {
    const Finished done = run_shell("tessera tune zoo:mlp --peers none" + more);
    EXPECT_TRUE(done.code == 2 || done.code == 6) << more << done.err;
    EXPECT_EQ(done.out, "") << more;
    EXPECT_EQ(done.err.find("trials"), std::string::npos) << done.err;
    EXPECT_NE(done.err.find("/"), std::string::npos) << done.err;
  }
  EXPECT_FALSE(std::filesystem::exists(files.plan));
}

TEST(Tune, AnAlgorithmThatTheUserNamedStays) {
  const Files files;
  const std::string op = "conv2d:N=1,H=10,W=10,CI=8,CO=16,KH=3,KW=3,S=1,P=1";
  const Json fixed = tuned(files.tune("--op " + op + ",algo=direct --trials 12"));
  ASSERT_EQ(fixed["tasks"].size(), 1u);
  EXPECT_EQ(fixed["tasks"][0]["algorithm"], "direct");
  // Without a name bench takes what the plan has.
  const Finished bench = run(quick_bench({"--op", op, "--plan", files.plan, "--json"}));
  const std::string name = Json::parse(bench.out)["results"][0]["name"];
  EXPECT_NE(name.find("algo=direct"), std::string::npos) << name;
  // One that is named stays, whatever the plan has.
  const Finished other =
      run(quick_bench({"--op", op + ",algo=winograd2", "--plan", files.plan, "--json"}));
  ASSERT_EQ(other.code, 0) << other.err;
  const std::string kept = Json::parse(other.out)["results"][0]["name"];
  EXPECT_NE(kept.find("algo=winograd2"), std::string::npos) << kept;
  EXPECT_NE(other.err.find("is not in the plan and gets its default schedule"), std::string::npos);
  EXPECT_EQ(
      run(quick_bench({"--op", op + ",algo=winograd2", "--plan", files.plan, "--strict"})).code, 7);
  // A task of the user's choice is tuned, however fast another algorithm is.
  const std::string key = fixed["tasks"][0]["key"];
  const Json one = tuned(files.tune("--op " + op + " --tasks " + key + " --trials 40"));
  std::int64_t of_key = 0;
  for (const Json& t : one["tasks"]) {
    if (t["key"] == key) of_key = t["trials"];
  }
  EXPECT_GE(of_key, 30);
}

TEST(Tune, ThreadsAreAllCoresOfTheProcessUnlessTheUserSays) {
  const Files files;
  const std::string tune = fmt::format(
      "tessera tune --op {} --trials 2 --peers none --policy random --json --db {} --plan {}", kOp,
      files.db, files.plan);
  const std::string bench = "tessera bench --op " + kOp + " --samples 1 --time-limit 50ms --json";
  const auto threads = [](const std::string& command) -> int {
    const Finished done = run_shell(command);
    const Json json = Json::parse(done.out, nullptr, false);
    EXPECT_FALSE(json.is_discarded()) << done.out << done.err;
    if (json.is_discarded()) return 0;
    return json.contains("results") ? json["results"][0]["threads"].get<int>()
                                    : json["threads"].get<int>();
  };
  const int all = threads("tessera bench --pool --json");
  EXPECT_EQ(threads(bench), all);
  EXPECT_EQ(threads(tune), all);
  EXPECT_EQ(threads("taskset -c 0 " + bench), 1);
  EXPECT_EQ(threads("taskset -c 0 " + tune), 1);
  EXPECT_EQ(threads(bench + " --threads 3"), 3);
}

TEST(Tune, TakesOptionsOfThePolicyAsSimulationsDo) {
  const Files files;
  const std::string command = fmt::format(
      "tessera tune --op {} --threads 1 --trials 12 --peers none --json --db {} --plan {} "
      "--policy ",
      kOp, files.db, files.plan);
  const Json json =
      tuned(command + "annealing+diversity=1+acquisition=ei+features=curve --learner gbt_ensemble");
  EXPECT_EQ(json["trials"], 12);
  EXPECT_TRUE(json["pretrained"].is_array());
  for (const char* wrong : {"annealing+colour=red", "annealing+model=none_such", "luck"}) {
    EXPECT_EQ(run_shell(command + wrong).code, 2) << wrong;
  }
}

TEST(Tune, SaysWhichModelJudgedAndWhyTrialsFailed) {
  const Files files;
  const std::string command =
      fmt::format("tessera tune --op {} --threads 1 --trials 24 --db {} --plan {} --peers none",
                  kOp, files.db, files.plan);
  const Finished done = run_shell(command);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("trained model: "), std::string::npos) << done.out;
  EXPECT_NE(done.out.find(".safetensors"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("48x40 over 32"), std::string::npos) << done.out;
  const Finished without = run_shell(command + " --cost-model none");
  EXPECT_EQ(without.out.find("trained model: "), std::string::npos) << without.out;
}

TEST(Tune, WhatCannotRunIsSaidAndNotTriedAgain) {
  using onnx::testing::make_node;
  const std::string model = save(
      "nan.onnx",
      onnx::testing::make_model(onnx::testing::make_graph(
          {floats("x", {"8", "16"})},
          {make_node("Mul", {"x", "x"}, {"square"}),
           make_node("Sub", {"minus", "square"}, {"below"}), make_node("Sqrt", {"below"}, {"z"})},
          {"z"}, {{"minus", onnx::testing::float_tensor({1}, {-1})}})));
  const Files files;
  const Json first = tuned(files.tune(model + " --trials 40"), 3);
  EXPECT_EQ(first["state"], "no valid measurement");
  const Json& task = first["tasks"][0];
  ASSERT_EQ(task["reasons"].size(), 1u) << task;
  EXPECT_NE(task["reasons"].begin().key().find("NaN everywhere"), std::string::npos) << task;
  EXPECT_LE(first["trials"], 32);
  const Json second = tuned(files.tune(model + " --trials 40"), 3);
  EXPECT_EQ(second["trials"], 0) << second;
  EXPECT_EQ(second["tasks"][0]["reasons"], task["reasons"]);
}

TEST(Tune, TheLiveLineFitsATerminal) {
  const Files files;
  const Finished done = run_shell(
      fmt::format("script -qec 'stty cols 80; {}' {}/terminal </dev/null >/dev/null",
                  files.tune("--op conv2d:N=1,H=14,W=14,CI=16,CO=16,KH=3,KW=3,S=1,P=1 --budget 5s"),
                  files.folder));
  if (done.code == 127) GTEST_SKIP() << "no program script: " << done.err;
  const std::string text = read_file(files.folder + "/terminal");
  const std::string begin = "\r\033[K";
  int lines = 0, gains = 0, left = 0;
  for (std::size_t at = text.find(begin); at != std::string::npos;
       at = text.find(begin, at + begin.size())) {
    const std::size_t from = at + begin.size();
    const std::string line = text.substr(from, text.find_first_of("\r\n", from) - from);
    EXPECT_LE(line.size(), 79u) << line;
    left += line.find(" left, ") < 8 ? 1 : 0;
    gains += line.find("x)") != std::string::npos ? 1 : 0;
    ++lines;
  }
  EXPECT_GT(lines, 2) << text;
  EXPECT_GT(gains, 0) << text;
  EXPECT_GT(left, 0) << text;
}

TEST(Tune, KilledTunerLosesNothingThatWasRecorded) {
  const Files files;
  const std::string command = files.tune("--op " + kOp + " --budget 60s");
  run_shell(command + " & pid=$!; sleep 4; kill -9 $pid; wait $pid");
  const std::int64_t kept = files.trials();
  EXPECT_GT(kept, 0);
  const Finished list = run({"db", "list", "--db", files.db, "--json"});
  EXPECT_EQ(Json::parse(list.out)["sessions"][0]["state"], "killed");
  const Json json = tuned(files.tune(fmt::format("--op {} --trials {}", kOp, kept + 4)));
  EXPECT_EQ(json["earlier_trials"], kept);
  EXPECT_EQ(json["trials"], 4);
}

TEST(Tune, KilledSearchOfPlansLosesNoneThatWasMeasured) {
  const Files files;
  const std::string command = files.tune("zoo:lenet --level graph --budget 240s");
  const std::string plans = fmt::format("tessera db export --db {} -o - 2>/dev/null | grep -c {}",
                                        files.db, R"('"subject":"model"')");
  const Finished killed =
      run_shell(command + " & pid=$!; while kill -0 $pid; do test \"$(" + plans +
                ")\" -ge 2 && break; sleep 0.1; done; before=$(" + plans +
                "); kill -9 $pid; wait $pid; after=$(" + plans + "); echo $before $after >&2");
  int before = 0, after = 0;
  const std::string counts =
      killed.err.substr(killed.err.find_last_of('\n', killed.err.size() - 2) + 1);
  ASSERT_EQ(std::sscanf(counts.c_str(), "%d %d", &before, &after), 2) << killed.err;
  EXPECT_GE(before, 2);
  EXPECT_GE(after, before);
  const Finished list = run({"db", "list", "--db", files.db});
  EXPECT_NE(list.out.find("zoo:lenet (whole model)"), std::string::npos) << list.out;
}

TEST(Tune, TrialsInPlaceGiveEveryTaskSoManyRecords) {
  const Files files;
  const Json json = tuned(files.tune("zoo:lenet --trials-in-place 3"));
  EXPECT_EQ(json["stopped_by"], "trials");
  const Json list = Json::parse(run({"db", "list", "--db", files.db, "--json"}).out);
  EXPECT_GT(list["tasks"].size(), 1u);
  for (const Json& task : list["tasks"]) {
    EXPECT_EQ(task["subject"], "in_place");
    EXPECT_EQ(task["records"], 3);
  }
  EXPECT_EQ(run({"tune", "--op", kOp, "--trials-in-place", "3"}).code, 2);
  EXPECT_EQ(run({"tune", "--op", kOp, "--contention", "2"}).code, 2);
  const Finished both =
      run({"tune", "zoo:lenet", "--trials-in-place", "3", "--trials-per-task", "3"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("give one of them"), std::string::npos) << both.err;
}

TEST(Tune, AModelIsTunedInPlaceUnlessAloneIsAskedFor) {
  const auto subject = [](const std::string& more) {
    const Files files;
    tuned(files.tune("zoo:mlp --trials 6 --no-recombine" + more));
    return Json::parse(run({"db", "list", "--db", files.db, "--json"}).out)["tasks"][0]["subject"];
  };
  EXPECT_EQ(subject(""), "in_place");
  EXPECT_EQ(subject(" --contention 1"), "in_place");
  EXPECT_EQ(subject(" --alone"), "kernel");
  for (const char* other : {"--in-place", "--trials-in-place=3", "--contention=1"}) {
    const Finished both = run({"tune", "zoo:mlp", "--alone", other});
    EXPECT_EQ(both.code, 2) << other;
    EXPECT_NE(both.err.find("--alone contradicts"), std::string::npos) << both.err;
  }
}

TEST(Tune, InPlaceWithinABudgetEndsWithARaceAndAPlan) {
  const Files files;
  const Json json = tuned(files.tune("zoo:lenet --in-place --budget 12s"));
  EXPECT_EQ(json["state"], "done");
  EXPECT_GT(json["trials"], 0);
  EXPECT_TRUE(std::filesystem::exists(files.plan));
  const Json list = Json::parse(run({"db", "list", "--db", files.db, "--json"}).out);
  for (const Json& task : list["tasks"]) EXPECT_EQ(task["subject"], "in_place");
}

TEST(Tune, GoesOnWhenAWorkerIsKilled) {
  const Files files;
  const Json json = tuned(files.tune("--op " + kOp + " --budget 6s") +
                          " & pid=$!; sleep 3; for server in $(pgrep -P $pid); do kill -9 "
                          "$(pgrep -P $server | tail -n 1); done; wait $pid");
  EXPECT_EQ(json["state"], "done");
  EXPECT_GT(json["trials"], 0);
}

TEST(Tune, FullDiskIsSaidAndKeepsWhatWasThere) {
  const Files files;
  tuned(files.tune("--op " + kOp + " --trials 12"));
  const std::int64_t kept = files.records();
  const Finished full =
      run_shell("ulimit -f 160; " + files.tune("--op " + kOp + " --budget 20s --trials 4000"));
  EXPECT_EQ(full.code, 6) << full.err;
  EXPECT_NE(full.err.find("t.db"), std::string::npos) << full.err;
  EXPECT_GE(files.records(), kept);
}

TEST(Tune, TwoTunersShareADatabase) {
  const Files files;
  const std::string command = files.tune("--op " + kOp + " --budget 4s");
  const Finished both = run_shell(command + " --seed 2 >/dev/null & first=$!; " + command +
                                  " --seed 3 >/dev/null; second=$?; wait $first; echo $? $second");
  EXPECT_EQ(both.out, "0 0\n") << both.err;
  const Finished list = run({"db", "list", "--db", files.db, "--json"});
  EXPECT_EQ(Json::parse(list.out)["sessions"].size(), 2u) << list.out;
  EXPECT_GT(files.records(), 0);
}

TEST(Tune, SimulationComparesPoliciesOnWhatWasRecorded) {
  const Files files;
  tuned(files.tune("--op " + kOp + " --record --trials 80"));
  const std::string plot = files.folder + "/plot.svg";
  const Finished done =
      run({"tune", "--op", kOp, "--threads", "1", "--simulate", files.db, "--policy",
           "random,local", "--trials", "32", "--seeds", "2", "--plot", plot, "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Json json = Json::parse(done.out);
  EXPECT_EQ(json["curves"].size(), 4u);
  for (const Json& curve : json["curves"]) {
    EXPECT_EQ(curve["best_us"].size(), 32u);
    EXPECT_GT(curve["best_us"].back(), 0);
  }
  EXPECT_NE(read_file(plot).find("<polyline"), std::string::npos);
  const auto compare = [&](const std::string& policies) {
    return run({"tune", "--op", kOp, "--threads", "1", "--simulate", files.db, "--policy", policies,
                "--trials", "40", "--seeds", "1", "--json"});
  };
  const Finished variants = compare("annealing+diversity=1,annealing+acquisition=ei");
  ASSERT_EQ(variants.code, 0) << variants.err;
  EXPECT_EQ(Json::parse(variants.out)["curves"][0]["policy"], "annealing+diversity=1 rank");
  const Finished refused = compare("annealing+colour=red");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("'colour=red' is not an option of a policy"), std::string::npos)
      << refused.err;
}

TEST(Tune, RefusesWhatItCannotDo) {
  const Files files;
  const auto code = [](const std::vector<std::string>& args) { return run(args).code; };
  EXPECT_EQ(code({"tune"}), 2);
  EXPECT_EQ(code({"tune", "--op", kOp, "--budget", "soon", "--db", ""}), 2);
  EXPECT_EQ(code({"tune", "--op", kOp, "--budget", "inf", "--db", ""}), 2);
  EXPECT_EQ(code({"tune", "--op", kOp, "--policy", "luck", "--db", ""}), 2);
  const Finished wordless =
      run({"tune", "--op", kOp, "--policy", "lm", "--language", "/no/such.file", "--db", ""});
  EXPECT_NE(wordless.code, 0);
  EXPECT_NE(wordless.err.find("/no/such.file"), std::string::npos) << wordless.err;
  const Finished unjudged =
      run({"lm", "corpus", "--op", kOp, "--machine", "neoverse-v1", "--machine", "h200", "--judge",
           "shipped", "-o", files.folder + "/drawn"});
  EXPECT_EQ(unjudged.code, 2);
  EXPECT_NE(unjudged.err.find("one kind of machine"), std::string::npos) << unjudged.err;
  EXPECT_EQ(code({"tune", "--op", "matmull:M=1", "--db", ""}), 2);
  const Finished taskless =
      run({"tune", "--op", kOp, "--tasks", "0123456789abcdef", "--db", files.db});
  EXPECT_EQ(taskless.code, 2);
  EXPECT_FALSE(std::filesystem::exists(files.db)) << "no session began";
  EXPECT_NE(taskless.err.find("0123456789abcdef; `tessera tasks` lists them"), std::string::npos)
      << taskless.err;
  const Finished unreachable =
      run({"tune", "--op", kOp, "--trials", "2", "--db", files.folder + "/none/t.db"});
  EXPECT_EQ(unreachable.code, 6) << unreachable.err;
  EXPECT_NE(unreachable.err.find("none/t.db"), std::string::npos) << unreachable.err;
}

}  // namespace
}  // namespace tessera::cli
