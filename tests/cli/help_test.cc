// What --help prints is an interface: it changes only on purpose.
#include <filesystem>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/process.h"
#include "tests/testing/testing.h"

namespace tessera::cli {
namespace {

void expect_help(const std::vector<std::string>& args, const std::string& golden) {
  const Finished help = run(args);
  EXPECT_EQ(help.code, 0) << help.err;
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(help.out.find(TESSERA_ROOT), std::string::npos) << "a path of this machine in the help";
  tessera::testing::expect_golden("cli/" + golden, help.out);
}

TEST(Help, Machine) { expect_help({"machine", "--help"}, "help_machine.txt"); }
TEST(Help, MachineFit) { expect_help({"machine", "fit", "--help"}, "help_machine_fit.txt"); }
TEST(Help, MachineList) { expect_help({"machine", "list", "--help"}, "help_machine_list.txt"); }
TEST(Help, MachineShow) { expect_help({"machine", "show", "--help"}, "help_machine_show.txt"); }
TEST(Help, MachineSchedules) {
  expect_help({"machine", "schedules", "--help"}, "help_machine_schedules.txt");
}
TEST(Help, Program) { expect_help({"--help"}, "help.txt"); }
TEST(Help, Agent) { expect_help({"agent", "--help"}, "help_agent.txt"); }
TEST(Help, Bench) { expect_help({"bench", "--help"}, "help_bench.txt"); }
TEST(Help, Cache) { expect_help({"cache", "--help"}, "help_cache.txt"); }
TEST(Help, Check) { expect_help({"check", "--help"}, "help_check.txt"); }
TEST(Help, Compile) { expect_help({"compile", "--help"}, "help_compile.txt"); }
TEST(Help, Completion) { expect_help({"completion", "--help"}, "help_completion.txt"); }
TEST(Help, Conformance) { expect_help({"conformance", "--help"}, "help_conformance.txt"); }
TEST(Help, Dataset) { expect_help({"dataset", "--help"}, "help_dataset.txt"); }
TEST(Help, DatasetCollect) {
  expect_help({"dataset", "collect", "--help"}, "help_dataset_collect.txt");
}
TEST(Help, DatasetSample) {
  expect_help({"dataset", "sample", "--help"}, "help_dataset_sample.txt");
}
TEST(Help, DatasetMeasure) {
  expect_help({"dataset", "measure", "--help"}, "help_dataset_measure.txt");
}
TEST(Help, DatasetBuild) { expect_help({"dataset", "build", "--help"}, "help_dataset_build.txt"); }
TEST(Help, DatasetGenerate) {
  expect_help({"dataset", "generate", "--help"}, "help_dataset_generate.txt");
}
TEST(Help, DatasetGraphs) {
  expect_help({"dataset", "graphs", "--help"}, "help_dataset_graphs.txt");
}
TEST(Help, DatasetImport) {
  expect_help({"dataset", "import", "--help"}, "help_dataset_import.txt");
}
TEST(Help, DatasetExport) {
  expect_help({"dataset", "export", "--help"}, "help_dataset_export.txt");
}
TEST(Help, DatasetShow) { expect_help({"dataset", "show", "--help"}, "help_dataset_show.txt"); }
TEST(Help, DatasetStats) { expect_help({"dataset", "stats", "--help"}, "help_dataset_stats.txt"); }
TEST(Help, DatasetSplit) { expect_help({"dataset", "split", "--help"}, "help_dataset_split.txt"); }
TEST(Help, DatasetUpdate) {
  expect_help({"dataset", "update", "--help"}, "help_dataset_update.txt");
}
TEST(Help, DatasetReplay) {
  expect_help({"dataset", "replay", "--help"}, "help_dataset_replay.txt");
}
TEST(Help, DatasetVerify) {
  expect_help({"dataset", "verify", "--help"}, "help_dataset_verify.txt");
}
TEST(Help, Db) { expect_help({"db", "--help"}, "help_db.txt"); }
TEST(Help, DbList) { expect_help({"db", "list", "--help"}, "help_db_list.txt"); }
TEST(Help, DbExplain) { expect_help({"db", "explain", "--help"}, "help_db_explain.txt"); }
TEST(Help, DbDiff) { expect_help({"db", "diff", "--help"}, "help_db_diff.txt"); }
TEST(Help, DbExport) { expect_help({"db", "export", "--help"}, "help_db_export.txt"); }
TEST(Help, DbImport) { expect_help({"db", "import", "--help"}, "help_db_import.txt"); }
TEST(Help, Eval) { expect_help({"eval", "--help"}, "help_eval.txt"); }
TEST(Help, Fleet) { expect_help({"fleet", "--help"}, "help_fleet.txt"); }
TEST(Help, FleetStatus) { expect_help({"fleet", "status", "--help"}, "help_fleet_status.txt"); }
TEST(Help, FleetDrain) { expect_help({"fleet", "drain", "--help"}, "help_fleet_drain.txt"); }
TEST(Help, FleetGrant) { expect_help({"fleet", "grant", "--help"}, "help_fleet_grant.txt"); }
TEST(Help, FleetSimulate) {
  expect_help({"fleet", "simulate", "--help"}, "help_fleet_simulate.txt");
}
TEST(Help, FleetSystemd) { expect_help({"fleet", "systemd", "--help"}, "help_fleet_systemd.txt"); }
TEST(Help, FleetSlurm) { expect_help({"fleet", "slurm", "--help"}, "help_fleet_slurm.txt"); }
TEST(Help, FleetKubernetes) {
  expect_help({"fleet", "kubernetes", "--help"}, "help_fleet_kubernetes.txt");
}
TEST(Help, Generate) { expect_help({"generate", "--help"}, "help_generate.txt"); }
TEST(Help, Info) { expect_help({"info", "--help"}, "help_info.txt"); }
TEST(Help, Lm) { expect_help({"lm", "--help"}, "help_lm.txt"); }
TEST(Help, LmCorpus) { expect_help({"lm", "corpus", "--help"}, "help_lm_corpus.txt"); }
TEST(Help, LmEval) { expect_help({"lm", "eval", "--help"}, "help_lm_eval.txt"); }
TEST(Help, LmGenerate) { expect_help({"lm", "generate", "--help"}, "help_lm_generate.txt"); }
TEST(Help, LmShow) { expect_help({"lm", "show", "--help"}, "help_lm_show.txt"); }
TEST(Help, Quantize) { expect_help({"quantize", "--help"}, "help_quantize.txt"); }
TEST(Help, Report) { expect_help({"report", "--help"}, "help_report.txt"); }
TEST(Help, Run) { expect_help({"run", "--help"}, "help_run.txt"); }
TEST(Help, Show) { expect_help({"show", "--help"}, "help_show.txt"); }
TEST(Help, Study) { expect_help({"study", "--help"}, "help_study.txt"); }
TEST(Help, Targets) { expect_help({"targets", "--help"}, "help_targets.txt"); }
TEST(Help, Tasks) { expect_help({"tasks", "--help"}, "help_tasks.txt"); }
TEST(Help, Tune) { expect_help({"tune", "--help"}, "help_tune.txt"); }
TEST(Help, Zoo) { expect_help({"zoo", "--help"}, "help_zoo.txt"); }

TEST(Help, EveryCommandHasAGoldenFile) {
  const std::string help = run({"--help"}).out;
  const std::size_t list = help.find("Subcommands:\n");
  ASSERT_NE(list, std::string::npos);
  int commands = 0;
  for (std::size_t at = help.find("\n  ", list); at != std::string::npos;
       at = help.find("\n  ", at + 1)) {
    const std::string name = help.substr(at + 3, help.find(' ', at + 3) - at - 3);
    if (name.empty()) continue;  // the rest of a description
    const std::string golden = std::string(TESSERA_ROOT "/tests/golden/cli/help_") + name + ".txt";
    EXPECT_NE(read_file(golden), "") << golden;
    ++commands;
  }
  EXPECT_GE(commands, 8);
}

TEST(Help, EveryHelpHasExamples) {
  namespace fs = std::filesystem;
  for (const fs::directory_entry& f : fs::directory_iterator(TESSERA_ROOT "/tests/golden/cli")) {
    if (f.path().filename().string().rfind("help", 0) != 0) continue;
    EXPECT_NE(read_file(f.path().string()).find("Examples:"), std::string::npos) << f.path();
  }
}

TEST(Help, FlagsFitATerminalOfEightyColumns) {
  namespace fs = std::filesystem;
  for (const fs::directory_entry& f : fs::directory_iterator(TESSERA_ROOT "/tests/golden/cli")) {
    const std::string name = f.path().filename().string();
    // Training prints its flags itself.
    if (name.rfind("help", 0) != 0 || name == "help_train.txt") continue;
    std::stringstream lines(read_file(f.path().string()));
    for (std::string line; std::getline(lines, line) && line != "Examples:";) {
      if (line.rfind("  ", 0) != 0) continue;  // what the command is, and its usage
      const std::size_t word = line.find_first_not_of(' ');
      const bool one_word = line.find(' ', word) == std::string::npos;
      EXPECT_TRUE(line.size() <= 80 || one_word) << f.path() << ": " << line;
    }
  }
}

TEST(Help, HelpIsACommandToo) {
  EXPECT_EQ(run({"help"}).out, run({"--help"}).out);
  EXPECT_EQ(run({"help", "tune"}).out, run({"tune", "--help"}).out);
  EXPECT_EQ(run({"help", "db", "list"}).out, run({"db", "list", "--help"}).out);
  EXPECT_EQ(run({"help", "tuna"}).code, 2);
}

TEST(Help, DurationsAreWrittenAlikeEverywhere) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"bench", "--pool", "--time-limit"},
        {"bench", "--pool", "--warmup"},
        {"machine", "fit", "--time-limit"},
        {"tune", "zoo:mlp", "--budget"},
        {"dataset", "collect", "zoo:mlp", "--db", "x.db", "--budget"},
        {"dataset", "build", "x.ds", "--build-timeout"},
        {"train", "--model", "gbt", "--data", "x.ds", "--time-limit"}}) {
    for (const char* wrong : {"soon", "inf", "3 m", "-1s", "2d"}) {
      std::vector<std::string> args = command;
      args.emplace_back(wrong);
      const Finished done = run(args);
      EXPECT_EQ(done.code, 2) << command[0] << wrong;
      EXPECT_NE(done.err.find("write 90s, 5m or 1h30m"), std::string::npos) << done.err;
    }
  }
}

TEST(Help, ListsLeaveTheModelBehindThemAlone) {
  for (const std::vector<std::string>& list :
       {std::vector<std::string>{"bench", "--peers", "none"},
        {"show", "--stage", "graph", "--print-after", "all"},
        {"check", "--skip-pass", "select_algorithms"},
        {"dataset", "collect", "--db", "", "--dtype", "f16"}}) {
    std::vector<std::string> args = list;
    args.emplace_back("/no/such.onnx");
    const Finished done = run(args);
    EXPECT_EQ(done.code, 2) << list[0];
    EXPECT_NE(done.err.find("cannot read '/no/such.onnx'"), std::string::npos) << done.err;
  }
}

TEST(Help, FormerNamesOfFlagsAreTakenWithALine) {
  const std::string out = write_file("former/marker", "") + ".out";
  const Finished compiled =
      run({"compile", "zoo:mlp", "--emit", "obj", "-o", out, "--search-model", "none"});
  EXPECT_EQ(compiled.code, 0) << compiled.err;
  EXPECT_NE(compiled.err.find("warning: --search-model is called --cost-model now\n"),
            std::string::npos)
      << compiled.err;
  const Finished tuned = run({"tune", "/no/such.onnx", "--pretrained=none", "--model", "none"});
  EXPECT_NE(tuned.err.find("--pretrained is called --cost-model now\n"), std::string::npos);
  EXPECT_NE(tuned.err.find("--model is called --learner now\n"), std::string::npos) << tuned.err;
  EXPECT_NE(tuned.err.find("cannot read '/no/such.onnx'"), std::string::npos) << tuned.err;
  const Finished learner = run({"tune", "zoo:mlp", "--learner", "xgb"});
  EXPECT_EQ(learner.code, 2);
  EXPECT_NE(learner.err.find("{none,gbt,gbt_ensemble,random}"), std::string::npos) << learner.err;
  // Of one command alone, and not behind a word that only looks like one.
  EXPECT_NE(run({"run", "zoo:mlp", "--search-model", "x"}).err.find("no flag '--search-model'"),
            std::string::npos);
}

TEST(Help, Version) {
  const Finished version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("tessera ", 0), 0u) << version.out;
}

TEST(Help, WithoutArgumentsItIsAUsageErrorWithTheHelp) {
  const Finished none = run({});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, run({"--help"}).out);
}

}  // namespace
}  // namespace tessera::cli
