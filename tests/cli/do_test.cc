// What ./do demo and deps call, and what ./do nightly makes of parts that fail. The tools are one
// script that notes how it was called and fails where a test says so.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTool = R"(#!/bin/bash
echo "$0 $* cache:$TESSERA_CACHE tsan:$TSAN_OPTIONS" >>"$CALLS"
if [[ $0 == */dpkg-query ]]; then echo installed; fi
if [[ $* == *"--target help" ]]; then echo "support_tests: phony"; fi
if [[ -n $FAILS && "$0 $*" =~ $FAILS ]]; then exit 1; fi
)";

// A checkout with ./do, in which all tools are the script above.
class Checkout : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* tool : {"tools/cmake", "tools/dpkg-query", "tools/apt-get", "tools/sudo"})
      add_tool(tool);
    root_ = fs::path(write_file("calls", "")).parent_path();
    fs::copy_file(fs::path(TESSERA_ROOT) / "do", root_ / "do",
                  fs::copy_options::overwrite_existing);
  }

  static void add_tool(const std::string& path) {
    fs::permissions(write_file(path, kTool), fs::perms::owner_all);
  }

  // `fails`: what the calls that fail match.
  Finished run_do(const std::string& command, const std::string& fails) const {
    return run_shell("TESSERA_CACHE= TSAN_OPTIONS= PATH='" + (root_ / "tools").string() +
                     "':$PATH CALLS='" + calls() + "' FAILS='" + fails + "' '" +
                     (root_ / "do").string() + "' " + command);
  }

  std::string calls() const { return (root_ / "calls").string(); }

 private:
  fs::path root_;
};

class Nightly : public Checkout {
 protected:
  void SetUp() override {
    Checkout::SetUp();
    write_file("tests/CMakeLists.txt", "foreach(folder support train)\n");
    write_file(
        "tests/support/CMakeLists.txt",
        "tessera_fuzzer(a SOURCES a.cc)\nif(ZLIB_FOUND)\n  tessera_fuzzer(b SOURCES b.cc)\n");
    write_file("tests/train/CMakeLists.txt", "tessera_test(train)\n");
    write_file("tessera/support/CMakeLists.txt", "tessera_library(support)\n");
    write_file("tessera/learn/train/CMakeLists.txt", "tessera_library(train)\n");
    write_file("tessera/support/parallel.cc", "std::thread t;\n");
    for (const char* tool :
         {"tools/ctest", "tools/clang++-14", "tools/package.sh", "build/debug/bin/support_tests",
          "build/tsan/bin/support_tests", "build/fuzz/bin/a_fuzzer", "build/fuzz/bin/b_fuzzer",
          "tests/python/run.sh"}) {
      add_tool(tool);
    }
  }

  Finished nightly(const std::string& fails) const { return run_do("nightly", fails); }
};

TEST_F(Nightly, RunsEveryPart) {
  const Finished done = nightly("");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("nightly: all passed"), std::string::npos) << done.err;
  const std::string called = read_file(calls());
  for (const char* call :
       {"ctest --preset release", "-L nightly", "tools/package.sh", "build/release -L package",
        "-B build/planted --log-level=WARNING -DTESSERA_TESTS=ON -DTESSERA_PLANTED_BUGS=ON",
        "build/planted -L planted", "debug/bin/support_tests --gtest_brief=1 cache:off",
        "tsan/bin/support_tests --gtest_brief=1 cache:off tsan:ignore_noninstrumented_modules=1",
        "tests/python/run.sh --build build/release", "a_fuzzer -max_total_time=1800",
        "b_fuzzer -max_total_time=1800"}) {
    EXPECT_NE(called.find(call), std::string::npos) << call << "\n" << called;
  }
}

TEST_F(Nightly, FoldersThatAreNotBuiltHereAreNamedAndPassedOver) {
  const Finished done = nightly("");
  EXPECT_NE(done.err.find("train, preset debug: not built here"), std::string::npos) << done.err;
  EXPECT_EQ(read_file(calls()).find("--target train_tests"), std::string::npos);
}

TEST_F(Nightly, NamesThePartsThatFail) {
  const struct {
    const char *fails, *part;
  } cases[] = {
      {"ctest --preset release", "nightly: tests\n"},
      {"-L nightly", "nightly: nightly\n"},
      {"python/run.sh", "nightly: pytorch\n"},
      {"package.sh", "nightly: package\n"},
      {"-L package", "nightly: package\n"},
      {"DTESSERA_PLANTED_BUGS", "nightly: planted\n"},
      {"-L planted", "nightly: planted\n"},
      {"debug/bin/support_tests", "nightly: sanitizers\n"},
      {"build --preset tsan", "nightly: sanitizers\n"},
      {"cmake --preset debug", "nightly: sanitizers\n"},
      {"build --preset fuzz", "nightly: fuzzers\n"},
      {"a_fuzzer", "nightly: fuzzers\n"},
      {"ctest|support_tests|b_fuzzer",
       "nightly: tests nightly package planted sanitizers fuzzers\n"},
  };
  for (const auto& [fails, part] : cases) {
    const Finished done = nightly(fails);
    EXPECT_EQ(done.code, 1) << fails << "\n" << done.err;
    EXPECT_NE(done.err.find(part), std::string::npos) << fails << "\n" << done.err;
    EXPECT_EQ(done.err.find("all passed"), std::string::npos) << fails << "\n" << done.err;
  }
}

TEST_F(Nightly, AFuzzerThatFailsStopsNoOther) {
  const Finished done = nightly("a_fuzzer");
  EXPECT_NE(done.err.find("fuzzers: a_fuzzer;"), std::string::npos) << done.err;
  EXPECT_NE(read_file(calls()).find("b_fuzzer"), std::string::npos);
}

class Demo : public Checkout {
 protected:
  void SetUp() override {
    Checkout::SetUp();
    for (const char* tool : {"tools/python3", "tools/python_package.sh", "tools/demo_table.sh",
                             "examples/digits/run.sh", "build/release/bin/tessera"}) {
      add_tool(tool);
    }
    write_file("build/release/lib/peers/ort/libonnxruntime.so.1", "");
  }
};

// Including what comes after the tuning: 45 s.
TEST_F(Demo, TakesThreeMinutesAfterTheBuild) {
  const Finished done = run_do("demo", "");
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string called = read_file(calls()), flag = "tune zoo:squeezenet1_1 --budget ";
  ASSERT_NE(called.find(flag), std::string::npos) << called;
  const int budget = std::stoi(called.substr(called.find(flag) + flag.size()));
  EXPECT_GE(budget, 60);
  EXPECT_LE(budget, 135);
  EXPECT_NE(called.find("--target tessera tessera_peer_ort tessera_shared"), std::string::npos)
      << called;
  EXPECT_NE(done.err.find("==> the same from Python"), std::string::npos) << done.err;
}

TEST_F(Demo, SaysWhyPythonIsLeftOut) {
  const Finished done = run_do("demo --short", "import numpy");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("not from Python: NumPy is not installed"), std::string::npos)
      << done.err;
  EXPECT_EQ(done.err.find("the same from Python"), std::string::npos) << done.err;
  EXPECT_NE(read_file(calls()).find("--budget 10s"), std::string::npos);
}

TEST_F(Checkout, InstallsTheLanguagesOfTheExamples) {
  write_file("tools/dpkg-query", "#!/bin/sh\necho absent\n");
  const Finished done = run_do("deps --languages", "");
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string called = read_file(calls());
  for (const char* package : {" rustc ", " golang-go ", " default-jdk-headless", " mono-mcs "})
    EXPECT_NE(called.find(package), std::string::npos) << package << called;
}

constexpr const char* kTuned =
    "task  weight  before  after  gain  GFLOP/s  trials  what it computes\n"
    "zoo:squeezenet1_1: 4.00 ms -> 3.70 ms (1.08x)\n"
    "    beside ort 1.2: ours 3.70 ms, theirs 5.00 ms: 1.35x\n";
constexpr const char* kBench =
    "threads     p50 us     p90 us  result    what\n"
    "      4     3900.0     4000.0  verified  zoo:squeezenet1_1\n"
    "    ort               5500.0 us    1.41x  best\n"
    "    loops           610000.0 us  156.41x (busy machine)\n"
    "    defaults          4100.0 us    1.05x\n";

Finished demo_table(const std::string& tuning, const std::string& bench) {
  return run_shell("tools/demo_table.sh '" + write_file("tuning.txt", tuning) + "' '" +
                   write_file("bench.txt", bench) + "' learned.plan");
}

TEST(DemoTable, HasTheGainThatTheTuningTold) {
  const Finished done = demo_table(kTuned, kBench);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(
      done.out,
      "                              time     speed\n"
      "  loops as written       595.12 ms    0.007x (busy machine)\n"
      "  our default              4.00 ms     1.00x\n"
      "  learned default          4.00 ms     1.00x  the learned model keeps our default here\n"
      "  tuned in place           3.70 ms     1.08x\n"
      "  ONNX Runtime             5.37 ms     0.75x\n");
}

TEST(DemoTable, SaysWhatIsNotThere) {
  std::string bench = kBench;
  const std::size_t at = bench.find("    ort"), end = bench.find("    loops");
  bench.replace(at, end - at,
                "    ort           absent: not installed: no libtessera_peer_ort.so\n");
  EXPECT_NE(demo_table(kTuned, bench).out.find("  ONNX Runtime       not installed\n"),
            std::string::npos);
  bench.replace(at, bench.find("    loops") - at, "    ort           absent: its process ended\n");
  EXPECT_NE(
      demo_table(kTuned, bench).out.find("ONNX Runtime       not compared: its process ended"),
      std::string::npos);
  EXPECT_EQ(demo_table(kTuned, "").code, 1) << "nothing was timed";
}

TEST(DemoTable, SaysWhatComputesSomethingElse) {
  std::string bench = kBench;
  bench.replace(bench.find("verified"), 8, "WRONG   ");
  bench.replace(bench.find(" (busy machine)"), 15,
                "  its outputs differ from ours, 1.2 times what is allowed");
  const Finished done = demo_table(kTuned, bench);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("0.007x  its outputs differ\n"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("1.08x  its outputs differ\n"), std::string::npos) << done.out;
}

// A short budget leaves no time for the model, so that nothing was told of it on the way.
TEST(DemoTable, TimesWhatTheTuningDidNot) {
  const Finished done = demo_table("12 trials; ended by budget\n",
                                   std::string(kBench) + "    learned.plan  4000.0 us    1.03x\n");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("  learned default          4.00 ms     1.02x\n"), std::string::npos)
      << done.out;
  EXPECT_NE(done.out.find("  tuned in place           3.90 ms     1.05x\n"), std::string::npos)
      << done.out;
}

}  // namespace
}  // namespace tessera::cli
