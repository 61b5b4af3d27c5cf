// Candidates that misbehave and processes that are killed: each costs one trial at most.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/support/files.h"
#include "tessera/trials/measure/bug_report.h"
#include "tessera/trials/measure/confine.h"
#include "tests/measure/workers.h"
#include "tests/testing/confinement.h"

namespace tessera::measure {
namespace {

using namespace std::chrono_literals;

const char* const kMatmul = "matmul:M=32,N=32,K=32";

using Call =
    std::function<void(const Trial&, const std::function<void()>&, std::span<void* const>)>;

// Trial 1 misbehaves, trials 0 and 2 do not. Without an incumbent, lest it be stopped as a loser.
std::vector<Measurement> measure_around(Call fault, MeasureOptions options = {},
                                        double incumbent_s = 0) {
  options.hooks.call = [fault](const Trial& trial, const std::function<void()>& call,
                               std::span<void* const> params) {
    if (trial.id == 1) {
      fault(trial, call, params);
    } else {
      call();
    }
  };
  const auto measurer = start({dag_of(kMatmul)}, options);
  measurer->submit({{.id = 0}, {.id = 1, .incumbent_s = incumbent_s}, {.id = 2}});
  std::vector<Measurement> all = collect_all(*measurer);
  EXPECT_EQ(all.size(), 3u);
  all.resize(3);
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  EXPECT_EQ(all[2].outcome, Outcome::kOk) << all[2].reason;
  return all;
}

// Since 5.13, unless it is switched off.
bool has_landlock() {
  constexpr long kCreateRuleset = 444;
  constexpr unsigned kAskVersion = 1;
  return syscall(kCreateRuleset, nullptr, std::size_t{0}, kAskVersion) > 0;
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(1h);
}

TEST(Faults, AHangIsARunTimeoutScaledToTheIncumbent) {
  const auto all = measure_around([](auto&&...) { hang(); }, {.run_timeout_s = 600}, 1e-3);
  EXPECT_EQ(all[1].outcome, Outcome::kRunTimeout) << all[1].reason;
  EXPECT_GT(all[1].build_ms, 0);
}

TEST(Faults, ACrashIsARunErrorWithItsSignal) {
  const auto all = measure_around([](auto&&...) { raise(SIGILL); });
  EXPECT_EQ(all[1].outcome, Outcome::kRunError);
  EXPECT_EQ(all[1].reason, "SIGILL");
  const auto wild = measure_around([](auto&&...) {
    volatile std::uintptr_t nowhere = 16;
    *reinterpret_cast<volatile char*>(nowhere) = 1;
  });
  EXPECT_EQ(wild[1].outcome, Outcome::kRunError);
  EXPECT_EQ(wild[1].reason, "SIGSEGV");
}

TEST(Faults, AnExitIsARunError) {
  const auto all = measure_around([](auto&&...) { _exit(3); });
  EXPECT_EQ(all[1].outcome, Outcome::kRunError);
  EXPECT_EQ(all[1].reason, "exit status 3");
}

TEST(Faults, WritingBeyondAnOutputIsSeen) {
  const auto near = measure_around([](auto&&, const auto& call, std::span<void* const> params) {
    call();
    static_cast<float*>(params[2])[32 * 32] = 1;
  });
  EXPECT_EQ(near[1].outcome, Outcome::kOutOfBounds) << near[1].reason;
  EXPECT_NE(near[1].reason.find("output C"), std::string::npos) << near[1].reason;
  const auto far = measure_around([](auto&&, const auto& call, std::span<void* const> params) {
    call();
    static_cast<volatile float*>(params[2])[32 * 32 + 4096] = 1;
  });
  EXPECT_EQ(far[1].outcome, Outcome::kOutOfBounds) << far[1].reason;
  const auto input = measure_around([](auto&&, const auto& call, std::span<void* const> params) {
    call();
    static_cast<volatile float*>(params[0])[0] = 1;
  });
  EXPECT_EQ(input[1].outcome, Outcome::kOutOfBounds) << input[1].reason;
}

TEST(Faults, AWrongResultIsNotTimed) {
  const auto all = measure_around([](auto&&, const auto& call, std::span<void* const> params) {
    call();
    static_cast<float*>(params[2])[5] += 1;
  });
  EXPECT_EQ(all[1].outcome, Outcome::kWrongResult);
  EXPECT_NE(all[1].reason.find("1 of 1024 elements"), std::string::npos) << all[1].reason;
  EXPECT_TRUE(all[1].samples_s.empty());
  const auto idle = measure_around([](auto&&...) {});
  EXPECT_EQ(idle[1].outcome, Outcome::kWrongResult) << idle[1].reason;
}

TEST(Faults, AResultThatTurnsWrongLaterIsSeen) {
  const auto all =
      measure_around([n = 0](auto&&, const auto& call, std::span<void* const> params) mutable {
        call();
        if (++n > 2) static_cast<float*>(params[2])[5] += 1;
      });
  EXPECT_EQ(all[1].outcome, Outcome::kWrongResult) << all[1].reason;
}

TEST(Faults, ASlowBuildIsABuildTimeout) {
  MeasureOptions options{.build_timeout_s = 0.5};
  options.hooks.before_build = [](const Trial& trial) {
    if (trial.id == 1) hang();
  };
  const auto measurer = start({dag_of(kMatmul)}, options);
  measurer->submit({{.id = 0}, {.id = 1}, {.id = 2}});
  const auto all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  EXPECT_EQ(all[1].outcome, Outcome::kBuildTimeout);
  EXPECT_EQ(all[2].outcome, Outcome::kOk) << all[2].reason;
}

TEST(Faults, ACrashOfTheCompilerIsABugWithItsInputSaved) {
  const std::string folder = ::testing::TempDir() + "tessera_bugs";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  MeasureOptions options;
  options.bug_folder = folder;
  options.hooks.before_build = [](const Trial& trial) {
    if (trial.id == 1) raise(SIGABRT);
    if (trial.id == 2) throw std::runtime_error("an invariant");
  };
  const te::Dag dag = dag_of(kMatmul);
  const auto measurer = start({dag}, options);
  measurer->submit({{.id = 0}, {.id = 1, .steps = steps("split C i 4\n")}, {.id = 2}, {.id = 3}});
  const auto all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  EXPECT_EQ(all[1].outcome, Outcome::kCompilerBug);
  EXPECT_EQ(all[1].reason.rfind(
                "a defect of the compiler: ended by SIGABRT; please report it with " + folder, 0),
            0u)
      << all[1].reason;
  EXPECT_EQ(all[2].outcome, Outcome::kCompilerBug);
  EXPECT_EQ(all[3].outcome, Outcome::kOk) << all[3].reason;
  const std::string path = all[1].reason.substr(all[1].reason.find(folder));
  const std::string text = read_file(path).value();
  EXPECT_NE(text.find(te::to_text(dag)), std::string::npos) << text;
  EXPECT_NE(text.find("split C i 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find(target::to_text(target::host())), std::string::npos) << text;
}

TEST(Faults, ABugWhoseInputCannotBeSavedIsToldAllTheSame) {
  const std::string told =
      report_bug(dag_of(kMatmul), {}, target::host(), "ended by SIGSEGV", "/nowhere/at/all");
  EXPECT_NE(told.find("ended by SIGSEGV; its input could not be saved"), std::string::npos) << told;
}

#if defined(__x86_64__)
constexpr long kX32 = 0x40000000;  // in the number of a system call: as programs of 32 bits make it
#endif

// What `act` does in place of a candidate, told by its outcome.
Measurement confined(const std::function<void()>& act) {
  return measure_around([=](auto&&, const auto& call, auto&&) {
    act();
    call();
  })[1];
}

TEST(Faults, ACandidateMayNotReachBeyondItsProcess) {
  if (!testing::is_confined()) GTEST_SKIP() << confinement_note();
  const std::string path = ::testing::TempDir() + "tessera_confined";
  std::vector<std::function<void()>> forbidden = {
      [] { (void)socket(AF_INET, SOCK_STREAM, 0); },
      [=] { (void)open(path.c_str(), O_WRONLY | O_CREAT, 0600); },
      [] { (void)open("/dev/null", O_RDWR); },
      [] { execl("/bin/true", "true", nullptr); },
      [] { (void)fork(); },
      [] { ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); },
      [] { kill(getppid(), SIGTERM); },
      [] {
        rlimit files{64, 64};
        (void)prlimit(getppid(), RLIMIT_NOFILE, &files, nullptr);
      },
      [] {
        cpu_set_t first;
        CPU_ZERO(&first);
        CPU_SET(0, &first);
        (void)sched_setaffinity(getppid(), sizeof(first), &first);
      },
      [=] { (void)unlink(path.c_str()); },
  };
#if defined(__x86_64__)
  forbidden.emplace_back([] { syscall(kX32 | SYS_getpid); });
#endif
  int n = 0;
  for (const auto& act : forbidden) {
    const Measurement m = confined(act);
    EXPECT_EQ(m.outcome, Outcome::kRunError) << n;
    EXPECT_EQ(m.reason, "a system call that candidates may not make") << n;
    ++n;
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "nothing was written";
}

TEST(Faults, ACandidateMayReadAndFailAtTheRest) {
  const bool filtered = confinement_note().empty();
  const Measurement m = confined([=] {
    const int fd = open("/proc/self/stat", O_RDONLY);
    char byte = 0;
    if (fd < 0 || read(fd, &byte, 1) != 1) _exit(3);
    close(fd);
    std::thread([] {}).join();
    // Not among what ends the process, but refused.
    if (filtered && (sethostname("x", 1) == 0 || errno != EPERM)) _exit(4);
  });
  EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

TEST(Faults, ACandidateMaySetItsOwnLimitsAndProcessors) {
  const Measurement m = confined([] {
    rlimit files{};
    if (prlimit(0, RLIMIT_NOFILE, nullptr, &files) != 0) _exit(3);
    if (prlimit(getpid(), RLIMIT_NOFILE, &files, nullptr) != 0) _exit(4);
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof(mine), &mine) != 0) _exit(5);
    if (sched_setaffinity(0, sizeof(mine), &mine) != 0) _exit(6);
  });
  EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

TEST(Faults, ACandidateReadsNoFilesOfTheUser) {
  if (!testing::is_confined()) GTEST_SKIP() << confinement_note();
  if (!has_landlock()) GTEST_SKIP() << "this kernel has no Landlock";
  const std::string secret = ::testing::TempDir() + "tessera_secret";
  ASSERT_TRUE(write_file(secret, {"secret"}).ok());
  const Measurement m = confined([=] {
    if (open(secret.c_str(), O_RDONLY) >= 0 || errno != EACCES) _exit(3);
    if (open("/etc/passwd", O_RDONLY) >= 0) _exit(4);
    const int status = open("/proc/self/status", O_RDONLY);
    if (status < 0) _exit(5);
    close(status);  // it is called many times
  });
  EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

// The same holds for the compiler, whose input are the definitions and steps of strangers.
TEST(Faults, ABuilderMayNotReachBeyondItsProcess) {
  if (!testing::is_confined()) GTEST_SKIP() << confinement_note();
  const std::string path = ::testing::TempDir() + "tessera_confined_build";
  MeasureOptions options{.build_workers = 1};
  options.bug_folder = ::testing::TempDir();
  options.hooks.before_build = [=](const Trial& trial) {
    if (trial.id == 1) (void)open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    if (trial.id == 2) execl("/bin/true", "true", nullptr);
    if (trial.id == 3) kill(getppid(), SIGTERM);
  };
  const auto measurer = start({dag_of(kMatmul)}, options);
  measurer->submit({{.id = 0}, {.id = 1}, {.id = 2}, {.id = 3}, {.id = 4}});
  const auto all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 5u);
  for (const std::size_t i : {0u, 4u}) EXPECT_EQ(all[i].outcome, Outcome::kOk) << all[i].reason;
  for (const std::size_t i : {1u, 2u, 3u}) {
    EXPECT_EQ(all[i].outcome, Outcome::kCompilerBug) << i;
    EXPECT_NE(all[i].reason.find("SIGSYS"), std::string::npos) << all[i].reason;
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "nothing was written";
}

// What `act` finds out in a process that drives a GPU: 0, or the number of what was not as it
// should be.
int as_driver(const std::string& scratch, const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("TMPDIR", scratch.c_str(), 1);
    setenv("HOME", scratch.c_str(), 1);
    confine_process(Work::kDevice);
    _exit(act());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST(Faults, ADriverReachesItsDeviceAndItsCachesOnly) {
  if (!testing::is_confined()) GTEST_SKIP() << confinement_note();
  std::string base = ::testing::TempDir() + "tessera_driver_XXXXXX";
  ASSERT_NE(mkdtemp(base.data()), nullptr);
  const std::string outside = base + "/outside", scratch = base + "/scratch";
  std::filesystem::create_directories(scratch);
  const auto refused = [](long result) { return result < 0 && errno == EPERM; };
  const int found = as_driver(scratch, [&] {
    rlimit files{64, 64};
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    if (!refused(socket(AF_INET, SOCK_STREAM, 0))) return 1;
    if (!refused(kill(getppid(), 0)) || !refused(kill(0, 0))) return 2;
    if (!refused(prlimit(getppid(), RLIMIT_NOFILE, &files, nullptr))) return 3;
    if (!refused(sched_setaffinity(getppid(), sizeof(first), &first))) return 4;
    if (!refused(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr))) return 5;
#if defined(__x86_64__)
    if (!refused(syscall(kX32 | SYS_ptrace, PTRACE_TRACEME, 0, nullptr, nullptr))) return 14;
#endif
    // What drivers and assemblers do.
    if (open("/dev/null", O_RDWR) < 0) return 6;
    if (open((scratch + "/file").c_str(), O_WRONLY | O_CREAT, 0600) < 0) return 7;
    if (open((scratch + "/.cache/pocl/file").c_str(), O_WRONLY | O_CREAT, 0600) < 0) return 8;
    if (socket(AF_UNIX, SOCK_STREAM, 0) < 0) return 9;
    if (system("true") != 0) return 10;
    std::thread([] {}).join();
    if (open("/proc/self/comm", O_WRONLY | O_TRUNC) < 0) return 13;
    if (open("/etc/passwd", O_RDONLY) < 0) return 11;
    if (has_landlock() && open(outside.c_str(), O_WRONLY | O_CREAT, 0600) >= 0) return 12;
    return 0;
  });
  EXPECT_EQ(found, 0);
  std::filesystem::remove_all(base);
}

TEST(Faults, ACandidateHasLimits) {
  const Measurement m = confined([] {
    rlimit core{}, file{}, memory{}, cpu{};
    getrlimit(RLIMIT_CORE, &core);
    getrlimit(RLIMIT_FSIZE, &file);
    getrlimit(RLIMIT_DATA, &memory);
    getrlimit(RLIMIT_CPU, &cpu);
    if (core.rlim_max != 0 || file.rlim_max != 0 || cpu.rlim_cur == RLIM_INFINITY) _exit(3);
    if (memory.rlim_max == RLIM_INFINITY) return;  // sanitizers need what there is
    void* p = mmap(nullptr, memory.rlim_max, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) _exit(4);
  });
  EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
}

// Waits until the named worker left its mark, a file, and kills it.
void kill_worker(const char* name, const std::string& mark) {
  ASSERT_TRUE(eventually([&] { return access(mark.c_str(), F_OK) == 0; })) << mark;
  const std::vector<pid_t> found = descendants(getpid(), name);
  ASSERT_FALSE(found.empty()) << name;
  for (const pid_t pid : found) kill(pid, SIGKILL);
}

TEST(Faults, AWorkerKilledFromOutsideIsReplacedAndTheTrialRepeated) {
  // The first try of each hangs, so that there is something to kill.
  std::string base = ::testing::TempDir() + "tessera_measure_XXXXXX";
  ASSERT_NE(mkdtemp(base.data()), nullptr);
  const auto hang_once = [base](const std::string& what) {
    const std::string path = base + "/" + what;
    if (access(path.c_str(), F_OK) == 0) return;
    fclose(fopen(path.c_str(), "w"));
    hang();
  };
  MeasureOptions options{.build_workers = 1, .confine = false};  // it leaves a mark in a file
  options.hooks.before_build = [=](const Trial&) { hang_once("build"); };
  options.hooks.call = [=](const Trial&, const std::function<void()>& call, auto&&) {
    hang_once("run");
    call();
  };
  const auto measurer = start({dag_of(kMatmul)}, options);
  measurer->submit({{.id = 1}});
  kill_worker("tessera-build", base + "/build");
  kill_worker("tessera-run", base + "/run");
  const auto all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  unlink((base + "/build").c_str());
  unlink((base + "/run").c_str());
  rmdir(base.c_str());
}

TEST(Faults, AWorkerLostTwiceIsSaidSo) {
  MeasureOptions options;
  options.hooks.call = [](const Trial& trial, const std::function<void()>& call, auto&&) {
    if (trial.id == 1) raise(SIGKILL);
    call();
  };
  const auto measurer = start({dag_of(kMatmul)}, options);
  measurer->submit({{.id = 1}, {.id = 2}});
  const auto all = collect_all(*measurer);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].outcome, Outcome::kWorkerLost);
  EXPECT_EQ(all[0].reason, "run worker ended by SIGKILL");
  EXPECT_EQ(all[1].outcome, Outcome::kOk) << all[1].reason;
}

TEST(Faults, ACompareLosesOnlyTheCulprit) {
  MeasureOptions options{.trial_limit_s = 0.05};
  options.hooks.call = [n = 0](const Trial& trial, const std::function<void()>& call,
                               auto&&) mutable {
    if (trial.id == 1) raise(SIGFPE);
    if (trial.id == 3 && ++n > 3) raise(SIGILL);  // right at first, then while timed
    call();
  };
  const auto measurer = start({dag_of(kMatmul)}, options);
  const auto all = measurer->compare({{.id = 0}, {.id = 1}, {.id = 2}, {.id = 3}});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].outcome, Outcome::kOk) << all[0].reason;
  EXPECT_EQ(all[1].outcome, Outcome::kRunError);
  EXPECT_EQ(all[1].reason, "SIGFPE");
  EXPECT_EQ(all[2].outcome, Outcome::kOk) << all[2].reason;
  EXPECT_EQ(all[3].reason, "SIGILL");
}

TEST(Faults, WithoutItsServerEverythingIsLostAtOnce) {
  const auto measurer = start({dag_of(kMatmul)}, {});
  EXPECT_EQ(measure_one(*measurer, {}).outcome, Outcome::kOk);
  std::vector<pid_t> below = descendants(getpid(), "");
  ASSERT_GE(below.size(), 3u);
  measurer->submit({{.id = 1}, {.id = 2}});
  for (const pid_t pid : descendants(getpid(), "tessera-serve")) kill(pid, SIGKILL);
  for (const Measurement& m : collect_all(*measurer)) {
    EXPECT_TRUE(m.outcome == Outcome::kOk || m.outcome == Outcome::kWorkerLost) << m.reason;
  }
  EXPECT_EQ(measure_one(*measurer, {}).outcome, Outcome::kWorkerLost);
  EXPECT_TRUE(measurer->compare({{.id = 5}})[0].outcome == Outcome::kWorkerLost);
  EXPECT_TRUE(eventually([&] { return std::ranges::none_of(below, is_alive); }));
}

// As one that waits for a lock that nobody gives back.
TEST(Faults, AServerThatHangsEndsWithTheMeasurer) {
  std::vector<pid_t> below;
  {
    const auto measurer = start({dag_of(kMatmul)}, {});
    EXPECT_EQ(measure_one(*measurer, {}).outcome, Outcome::kOk);
    below = descendants(getpid(), "");
    const std::vector<pid_t> servers = descendants(getpid(), "tessera-serve");
    ASSERT_FALSE(servers.empty());
    for (const pid_t pid : servers) kill(pid, SIGSTOP);
    measurer->submit({{.id = 1}});
    EXPECT_TRUE(measurer->collect(0.2).empty()) << "the fault did not happen";
  }
  EXPECT_TRUE(eventually([&] { return std::ranges::none_of(below, is_alive); }));
}

TEST(Faults, WorkersEndWithTheMeasurer) {
  std::vector<pid_t> below;
  {
    const auto measurer = start({dag_of(kMatmul)}, {});
    EXPECT_EQ(measure_one(*measurer, {}).outcome, Outcome::kOk);
    below = descendants(getpid(), "");
    EXPECT_GE(below.size(), 3u);
  }
  EXPECT_TRUE(eventually([&] { return std::ranges::none_of(below, is_alive); }));
}

TEST(Faults, WorkersEndWithAnOwnerThatIsKilled) {
  const pid_t owner = fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    MeasureOptions options{.run_timeout_s = 1000};
    options.hooks.call = [](auto&&...) { hang(); };
    const auto a = start_local_measurer({{"", dag_of(kMatmul)}}, target::host(), options);
    const auto b = start_local_measurer({{"", dag_of(kMatmul)}}, target::host(), options);
    (*a)->submit({{.id = 1}});
    (*b)->submit({{.id = 1}});
    (*a)->collect(1000);
    _exit(0);
  }
  std::vector<pid_t> below;
  // Two servers, each with a builder, and runners that hang in their candidate.
  EXPECT_TRUE(eventually([&] { return descendants(owner, "tessera-run").size() == 2; }));
  below = descendants(owner, "");
  EXPECT_GE(below.size(), 6u);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return std::ranges::none_of(below, is_alive); }));
}

}  // namespace
}  // namespace tessera::measure
