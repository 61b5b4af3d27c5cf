// What ./do nightly makes of parts that fail. The tools it calls are one script that notes how it
// was called and fails where a test says so.
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

class Nightly : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file("tests/CMakeLists.txt", "foreach(folder support train)\n");
    write_file(
        "tests/support/CMakeLists.txt",
        "tessera_fuzzer(a SOURCES a.cc)\nif(ZLIB_FOUND)\n  tessera_fuzzer(b SOURCES b.cc)\n");
    write_file("tests/train/CMakeLists.txt", "tessera_test(train)\n");
    write_file("tessera/support/CMakeLists.txt", "tessera_library(support)\n");
    write_file("tessera/learn/train/CMakeLists.txt", "tessera_library(train)\n");
    write_file("tessera/support/parallel.cc", "std::thread t;\n");
    for (const char* tool :
         {"tools/cmake", "tools/ctest", "tools/dpkg-query", "tools/apt-get", "tools/clang++-14",
          "build/debug/bin/support_tests", "build/tsan/bin/support_tests",
          "build/fuzz/bin/a_fuzzer", "build/fuzz/bin/b_fuzzer", "tests/python/run.sh"}) {
      fs::permissions(write_file(tool, kTool), fs::perms::owner_all);
    }
    root_ = fs::path(write_file("calls", "")).parent_path();
    fs::copy_file(fs::path(TESSERA_ROOT) / "do", root_ / "do",
                  fs::copy_options::overwrite_existing);
  }

  // `fails`: what the calls that fail match.
  Finished nightly(const std::string& fails) const {
    return run_shell("TESSERA_CACHE= TSAN_OPTIONS= PATH='" + (root_ / "tools").string() +
                     "':$PATH CALLS='" + calls() + "' FAILS='" + fails + "' '" +
                     (root_ / "do").string() + "' nightly");
  }

  std::string calls() const { return (root_ / "calls").string(); }

 private:
  fs::path root_;
};

TEST_F(Nightly, RunsEveryPart) {
  const Finished done = nightly("");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("nightly: all passed"), std::string::npos) << done.err;
  const std::string called = read_file(calls());
  for (const char* call :
       {"ctest --preset release", "-L nightly", "debug/bin/support_tests --gtest_brief=1 cache:off",
        "tsan/bin/support_tests --gtest_brief=1 cache:off tsan:ignore_noninstrumented_modules=1",
        "tests/python/run.sh --build build/release", "a_fuzzer -max_total_time=1800", "b_fuzzer -max_total_time=1800"}) {
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
      {"debug/bin/support_tests", "nightly: sanitizers\n"},
      {"build --preset tsan", "nightly: sanitizers\n"},
      {"cmake --preset debug", "nightly: sanitizers\n"},
      {"build --preset fuzz", "nightly: fuzzers\n"},
      {"a_fuzzer", "nightly: fuzzers\n"},
      {"ctest|support_tests|b_fuzzer", "nightly: tests nightly sanitizers fuzzers\n"},
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

}  // namespace
}  // namespace tessera::cli
