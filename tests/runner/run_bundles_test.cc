// Sample, build and measure together: what goes wrong costs one candidate and is told.
#include "tessera/trials/runner/run_bundles.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/files.h"
#include "tessera/trials/measure/measurer.h"
#include "tessera/trials/measure/reference.h"
#include "tessera/trials/record/database.h"
#include "tessera/trials/record/json_lines.h"
#include "tests/runner/runner_case.h"

namespace tessera::runner {
namespace {

RunnerOptions options_of(const std::vector<std::string>& bundles, const std::string& output) {
  RunnerOptions options;
  options.bundles = bundles;
  options.output = output;
  options.measure.trial_limit_s = 0.01;
  return options;
}

TEST(Steps, SamplesAreDistinctAndFollowTheSeed) {
  const std::string a = fresh_folder("a"), b = fresh_folder("b"), c = fresh_folder("c");
  ASSERT_TRUE(app::sample_dataset(sample_options(a), {}).ok());
  ASSERT_TRUE(app::sample_dataset(sample_options(b), {}).ok());
  app::SampleOptions other = sample_options(c);
  other.scope.seed = 2;
  ASSERT_TRUE(app::sample_dataset(other, {}).ok());
  for (const char* file : {"/manifest.json", "/sample-0000.jsonl", "/sample-0001.jsonl"}) {
    EXPECT_EQ(read_file(a + file).value(), read_file(b + file).value());
    EXPECT_NE(read_file(a + file).value(), read_file(c + file).value());
  }
  std::set<std::string> schedules;
  const auto sample = app::read_sample(a, 0);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->size(), 6u);
  for (const auto& s : *sample) schedules.insert(s.schedule);
  EXPECT_EQ(schedules.size(), 6u);

  // The same call finds its shards; another sample is refused.
  std::filesystem::remove(a + "/sample-0001.jsonl");
  const auto again = app::sample_dataset(sample_options(a), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->earlier, 1u);
  EXPECT_EQ(read_file(a + "/sample-0001.jsonl").value(),
            read_file(b + "/sample-0001.jsonl").value());
  other.folder = a;
  EXPECT_FALSE(app::sample_dataset(other, {}).ok());
}

TEST(Steps, RecordsComeOutAndCanBeImported) {
  const std::string folder = fresh_folder("f"), output = folder + "/records.jsonl";
  const auto bundles = make_bundles(sample_options(folder));
  const auto done = run_bundles(options_of(bundles, output), {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->records, 12);
  EXPECT_EQ(done->valid, 12);
  for (const record::Record& r : records_of(output)) {
    EXPECT_TRUE(r.outcome == "ok" || r.outcome == "censored") << r.reason;
    EXPECT_GT(r.seconds, 0);
    EXPECT_GT(r.calibration_s, 0);
    EXPECT_EQ(r.target, target::to_text(target::host()));
  }
  const auto again = run_bundles(options_of(bundles, output), {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->records, 0);
  EXPECT_EQ(again->earlier, 12);

  auto database = record::Database::open(folder + "/r.db");
  ASSERT_TRUE(database.ok());
  const auto imported = record::import_file(*database, output);
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_EQ(imported->records, 12);
  EXPECT_EQ(database->tasks()->size(), 2u);
}

// The in-process measurer computes the whole output; the bundle has points of it.
TEST(Steps, ReferencePointsAreThoseOfTheLocalMeasurer) {
  const std::string folder = fresh_folder("f");
  for (const std::string& path : make_bundles(sample_options(folder))) {
    const auto bundle = measure::Bundle::open(path);
    ASSERT_TRUE(bundle.ok());
    for (const measure::BundleTask& task : bundle->tasks()) {
      const te::Dag dag = te::dag_from_text(task.definition).value();
      runtime::ThreadPool pool({.threads = 1});
      const auto inputs = kernel::random_inputs(dag, bundle->header().input_seed);
      const auto whole = measure::compute_reference(dag, inputs, target::host(), pool, {});
      ASSERT_TRUE(whole.ok());
      ASSERT_EQ(task.outputs.size(), whole->outputs.size());
      for (std::size_t o = 0; o < whole->outputs.size(); ++o) {
        EXPECT_GE(task.outputs[o].points.size(), 500u);
        for (std::size_t i = 0; i < task.outputs[o].points.size(); ++i) {
          EXPECT_NEAR(whole->outputs[o].get_float(task.outputs[o].points[i]),
                      task.outputs[o].values[i], 1e-4);
        }
      }
    }
  }
}

TEST(Steps, AnInterruptedBuildGoesOn) {
  const std::string folder = fresh_folder("f");
  ASSERT_TRUE(app::sample_dataset(sample_options(folder), {}).ok());
  app::BuildOptions build;
  build.folder = folder;
  const auto stopped =
      app::build_dataset(build, [](const app::BuildProgress& p) { return p.done < 3; });
  ASSERT_TRUE(stopped.ok()) << stopped.error().message;
  EXPECT_FALSE(stopped->finished);
  EXPECT_FALSE(measure::Bundle::open(app::bundle_path(folder, 0)).ok());
  const auto done = app::build_dataset(build, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_TRUE(done->finished);
  EXPECT_GE(done->earlier, 3);
  EXPECT_EQ(done->earlier + done->built, 6);
  EXPECT_EQ(items_of(app::bundle_path(folder, 0)).size(), 6u);
}

TEST(Steps, BundlesOfAnotherSampleAreRefused) {
  const std::string a = fresh_folder("a"), b = fresh_folder("b");
  const auto bundles = make_bundles(sample_options(a));
  app::SampleOptions other = sample_options(b);
  other.uniform_share = 0.25;
  ASSERT_TRUE(app::sample_dataset(other, {}).ok());
  std::filesystem::copy_file(bundles[0], app::bundle_path(b, 0));
  app::BuildOptions build;
  build.folder = b;
  const auto refused = app::build_dataset(build, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("another sample"), std::string::npos)
      << refused.error().message;
  other.folder = a;  // the share is part of what a sample is
  EXPECT_FALSE(app::sample_dataset(other, {}).ok());
}

TEST(Steps, NumbersThatMakeNoSenseAreRefused) {
  const std::string folder = fresh_folder("f");
  const auto refuses = [&](const char* what, auto change) {
    app::SampleOptions o = sample_options(folder);
    change(o);
    const auto done = app::sample_dataset(o, {});
    ASSERT_FALSE(done.ok()) << what;
    EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(done.error().message.find(what), std::string::npos) << done.error().message;
  };
  refuses("0 shards", [](app::SampleOptions& o) { o.scope.shards = 0; });
  refuses("0 candidates", [](app::SampleOptions& o) { o.per_task = 0; });
  refuses("share of -1", [](app::SampleOptions& o) { o.uniform_share = -1; });
  refuses("0 threads", [](app::SampleOptions& o) { o.threads = 0; });
  EXPECT_FALSE(std::filesystem::exists(folder + "/manifest.json"));
  app::BuildOptions build;
  build.folder = folder;
  build.jobs = 0;
  EXPECT_EQ(app::build_dataset(build, {}).error().code, ErrorCode::kInvalidArgument);
}

class Faulty : public ::testing::Test {
 protected:
  // Candidate 1 of each task misbehaves; its record.
  record::Record run(std::function<void(std::span<void* const>)> fault) {
    const std::string folder = fresh_folder("f"), output = folder + "/records.jsonl";
    const auto bundles = make_bundles(sample_options(folder));
    RunnerOptions options = options_of({bundles[0]}, output);
    options.measure.run_timeout_s = 2;
    options.measure.hooks.call = [fault](const measure::Trial& trial,
                                         const std::function<void()>& call,
                                         std::span<void* const> params) {
      call();
      if (trial.id == 1) fault(params);
    };
    const auto done = run_bundles(options, {});
    EXPECT_TRUE(done.ok()) << done.error().message;
    record::Record bad;
    int good = 0;
    for (const record::Record& r : records_of(output)) {
      if (r.trial == 1) {
        bad = r;
      } else {
        good += r.seconds > 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(good, 5);
    EXPECT_EQ(bad.seconds, 0);
    EXPECT_NE(bad.reason, "");
    return bad;
  }
};

TEST_F(Faulty, ACrashIsARunError) {
  const record::Record r = run([](auto) { raise(SIGILL); });
  EXPECT_EQ(r.outcome, "run_error");
  EXPECT_EQ(r.reason, "SIGILL");
}

TEST_F(Faulty, AHangEndsAtTheDeadline) {
  const record::Record r = run([](auto) { std::this_thread::sleep_for(std::chrono::hours(1)); });
  EXPECT_EQ(r.outcome, "run_timeout");
}

TEST_F(Faulty, AWriteBeyondTheOutputIsSeen) {
  const record::Record r =
      run([](std::span<void* const> params) { static_cast<float*>(params.back())[32 * 48] = 1; });
  EXPECT_EQ(r.outcome, "out_of_bounds");
}

TEST_F(Faulty, AWrongValueIsSeenAtAPoint) {
  const record::Record r =
      run([](std::span<void* const> params) { static_cast<float*>(params.back())[0] += 1; });
  EXPECT_EQ(r.outcome, "wrong_result");
}

TEST(Runner, FailuresOfTheBuildAreRecorded) {
  const std::string folder = fresh_folder("f"), output = folder + "/records.jsonl";
  const auto bundles = make_bundles(sample_options(folder));
  const auto fail = [](measure::BundleItem& item) {
    if (item.trial != 2) return;
    item.outcome = measure::Outcome::kBuildError;
    item.built.error = "no registers";
    item.built.object.clear();
  };
  rewrite(bundles[0], folder + "/failed.tsb", {}, fail);
  const auto done = run_bundles(options_of({folder + "/failed.tsb"}, output), {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->records, 6);
  EXPECT_EQ(done->valid, 5);
  for (const record::Record& r : records_of(output)) {
    EXPECT_EQ(r.outcome + ": " + r.reason == "build_error: no registers", r.trial == 2);
  }
}

TEST(Runner, ObjectsThatDoNotLoadAreRunErrors) {
  const std::string folder = fresh_folder("f"), output = folder + "/records.jsonl";
  const auto bundles = make_bundles(sample_options(folder));
  rewrite(bundles[0], folder + "/cut.tsb", {},
          [](measure::BundleItem& item) { item.built.object.resize(100); });
  const auto done = run_bundles(options_of({folder + "/cut.tsb"}, output), {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  for (const record::Record& r : records_of(output)) EXPECT_EQ(r.outcome, "run_error");
}

TEST(Runner, RefusesOtherMachinesAndBundlesThatMakeNoSense) {
  const std::string folder = fresh_folder("f"), cross = fresh_folder("x");
  const bool arm = target::host().arch == target::Arch::kAArch64;
  const auto foreign = make_bundles(sample_options(cross, arm ? "skylake-avx512" : "neoverse-v1"));
  EXPECT_EQ(items_of(foreign[0]).size(), 6u);  // all built, and loadable there
  for (const auto& item : items_of(foreign[0])) EXPECT_EQ(item.outcome, measure::Outcome::kOk);
  const auto refused = run_bundles(options_of({foreign[0]}, folder + "/o.jsonl"), {});
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported) << refused.error().message;
  EXPECT_FALSE(std::filesystem::exists(folder + "/o.jsonl"));

  const auto bundles = make_bundles(sample_options(folder));
  int n = 0;
  const auto refuses = [&](const std::function<void(measure::BundleTask&)>& task,
                           const std::function<void(measure::BundleItem&)>& item) {
    const std::string path = fmt::format("{}/bad{}.tsb", folder, n++);
    rewrite(bundles[0], path, task, item);
    EXPECT_FALSE(run_bundles(options_of({path}, folder + "/o.jsonl"), {}).ok());
  };
  refuses([](measure::BundleTask& t) { t.definition = "nonsense"; }, {});
  refuses([](measure::BundleTask& t) { t.outputs.clear(); }, {});
  refuses([](measure::BundleTask& t) { t.outputs[0].points[0] = 1 << 30; }, {});
  refuses([](measure::BundleTask& t) { t.outputs[0].values.pop_back(); }, {});
  refuses({}, [](measure::BundleItem& i) { i.built.shared_bytes = -1; });
  EXPECT_FALSE(run_bundles(options_of({folder + "/absent.tsb"}, folder + "/o.jsonl"), {}).ok());
  std::ofstream(folder + "/letter.jsonl") << "no rows\n";
  EXPECT_FALSE(run_bundles(options_of({bundles[0]}, folder + "/letter.jsonl"), {}).ok());
}

// Same instructions, other caches: it runs, but its times are of another machine.
TEST(Runner, TimesOfAnotherMachineAreTakenOnDemandAndSaySo) {
  const std::string folder = fresh_folder("f"), output = folder + "/records.jsonl";
  app::SampleOptions sample = sample_options(folder);
  sample.scope.target.l2_bytes *= 2;
  const auto bundles = make_bundles(sample);
  RunnerOptions options = options_of({bundles[0]}, output);
  const auto refused = run_bundles(options, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  for (const char* part : {"l2", "--any-machine"}) {
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE(std::filesystem::exists(output));
  options.any_machine = true;
  const auto done = run_bundles(options, {});
  ASSERT_TRUE(done.ok()) << done.error().message;
  const auto records = records_of(output);
  ASSERT_EQ(records.size(), 6u);
  for (const record::Record& r : records) {
    EXPECT_TRUE(r.target.starts_with(target::to_text(sample.scope.target) + " ran=")) << r.target;
    // The space that the candidates are of is still read from it.
    const auto of_space = target::target_from_text(r.target);
    ASSERT_TRUE(of_space.ok()) << of_space.error().message;
    EXPECT_EQ(target::to_text(*of_space), target::to_text(sample.scope.target));
  }
}

pid_t spawn(const std::vector<std::string>& words) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& w : copies) argv.push_back(w.data());
  argv.push_back(nullptr);
  if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(9);
  if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(9);
  execv(argv[0], argv.data());
  _exit(9);
}

int exit_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Program, GoesOnAfterAKill) {
  const std::string folder = fresh_folder("f"), output = folder + "/records.jsonl";
  app::SampleOptions sample = sample_options(folder);
  sample.per_task = 60;
  sample.scope.shards = 1;
  const auto bundles = make_bundles(sample);
  const std::size_t all = items_of(bundles[0]).size();
  std::vector<std::string> words = {TESSERA_RUNNER, bundles[0], "-o", output, "--threads", "1"};
  const pid_t pid = spawn(words);
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::error_code error;
    if (std::filesystem::exists(output, error) && std::filesystem::file_size(output, error) > 4000)
      break;
  }
  kill(pid, SIGKILL);
  EXPECT_EQ(exit_of(pid), -SIGKILL);
  // The worst moment: in the middle of a line.
  std::ofstream(output, std::ios::app) << R"({"kind":"record","ta)";
  EXPECT_EQ(exit_of(spawn(words)), 0);
  std::set<std::string> seen;
  for (const record::Record& r : records_of(output)) {
    EXPECT_TRUE(seen.insert(r.task + r.candidate).second);
  }
  EXPECT_EQ(seen.size(), all);
}

TEST(Program, MistakesAreNamed) {
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "--help"})), 0);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "--machine"})), 0);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--threads", "many"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--threads", "0"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--threads", "-1"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--budget", "-1"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--budget", "nan"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--cores", "3-1"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--colour"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "a.tsb", "-o", "x", "--budget", "5 minutes"})), 2);
  EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "absent.tsb", "-o", "x"})), 6);
  for (const char* time : {"300", "5m", "1h30m", "2.5s"})
    EXPECT_EQ(exit_of(spawn({TESSERA_RUNNER, "absent.tsb", "-o", "x", "--budget", time})), 6);
}

}  // namespace
}  // namespace tessera::runner
