// Which compiler is taken, and what is said when there is none: with programs of our own in PATH.
#include "tessera/backend/artifact/toolchain.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/backend/artifact/compile_artifact.h"
#include "tessera/backend/artifact/load_artifact.h"
#include "tessera/frontend/graph/builder.h"
#include "tessera/support/files.h"
#include "tessera/support/run_tool.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// What clang says when another machine's C library is not installed.
constexpr const char* kWithoutLibrary = R"(#!/bin/sh
[ "$1" = --version ] && exit 0
echo "clang: note: linking for another machine"
echo "ld: error: cannot find -lc: No such file or directory"
exit 1
)";
constexpr const char* kOnlyWithoutLibrary = R"(#!/bin/sh
case "$*" in *-nostdlib*) exec cc "$@" ;; esac
echo "ld: error: cannot find crti.o: No such file or directory"
exit 1
)";
constexpr const char* kWorks = "#!/bin/sh\nexit 0\n";

// Kernels that call libm, and a function of the host.
graph::Graph of_all_libraries() {
  graph::GraphBuilder b("libraries");
  const graph::ValueId x = b.input("x", {DType::kF32, {64, 96}});
  const graph::ValueId y = *b.add("sinh", {*b.add("tan", {x})});
  const auto top = *b.add_node("topk", {y}, {{"axis", 1}, {"k", 2}, {"largest", 1}, {"sorted", 1}});
  return b.finish({y, top[0]}, {"y", "top"});
}

class ToolchainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder();
    path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_ + ":/usr/bin:/bin").c_str(), 1);
    const bool arm = target::host().arch == target::Arch::kAArch64;
    other_ = *target::find_target(arm ? "x86-64-v3" : "neoverse-n1");
    cross_gcc_ = arm ? "x86_64-linux-gnu-gcc" : "aarch64-linux-gnu-gcc";
    package_ = arm ? "gcc-x86-64-linux-gnu)" : "gcc-aarch64-linux-gnu)";
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }

  void write_program(const std::string& name, const char* text) const {
    ASSERT_TRUE(write_file(folder_ + "/" + name, {text}).ok());
    fs::permissions(folder_ + "/" + name, fs::perms::owner_all);
  }

  std::string folder_, path_, cross_gcc_, package_;
  target::Target other_;
};

TEST_F(ToolchainTest, CompilerThatLinksNothingIsNotTaken) {
  write_program(cross_gcc_, "#!/bin/sh\nexit 127\n");
  write_program("clang", kWithoutLibrary);
  const auto linker = find_linker(other_, "");
  ASSERT_FALSE(linker.ok());
  EXPECT_EQ(linker.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(linker.error().message, HasSubstr(package_));
  EXPECT_THAT(linker.error().message, HasSubstr("cannot find -lc"));
  EXPECT_THAT(linker.error().message, HasSubstr(cross_gcc_));
  EXPECT_THAT(linker.error().message, Not(HasSubstr("note: linking")));
}

TEST_F(ToolchainTest, NextCandidateIsTakenWhenTheFirstFails) {
  write_program(cross_gcc_, kWithoutLibrary);
  write_program("clang", kWorks);
  const auto linker = find_linker(other_, "");
  ASSERT_TRUE(linker.ok()) << linker.error().message;
  EXPECT_EQ(linker->command[0], "clang");
  EXPECT_THAT(linker->command[1], HasSubstr("--target="));
  EXPECT_TRUE(linker->has_c_library);
}

TEST_F(ToolchainTest, CompilerWithTheTargetsLibraryIsPreferred) {
  write_program(cross_gcc_, kOnlyWithoutLibrary);
  const auto without = find_linker(other_, "");
  ASSERT_TRUE(without.ok()) << without.error().message;
  EXPECT_EQ(without->command, std::vector<std::string>{cross_gcc_});
  EXPECT_FALSE(without->has_c_library);
  write_program("clang", kWorks);
  const auto with = find_linker(other_, "");
  ASSERT_TRUE(with.ok()) << with.error().message;
  EXPECT_EQ(with->command[0], "clang");
  EXPECT_TRUE(with->has_c_library);
}

TEST_F(ToolchainTest, NamedCompilerIsProbedAndNoOther) {
  write_program(cross_gcc_, kWorks);
  write_program("mine", kWithoutLibrary);
  const auto linker = find_linker(other_, folder_ + "/mine");
  ASSERT_FALSE(linker.ok());
  EXPECT_THAT(linker.error().message, HasSubstr(folder_ + "/mine: "));
  EXPECT_THAT(linker.error().message, HasSubstr("cannot find -lc"));
}

TEST_F(ToolchainTest, AbsentCompilerIsNamed) {
  const auto linker = find_linker(target::host(), "no-such-compiler");
  ASSERT_FALSE(linker.ok());
  EXPECT_EQ(linker.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(linker.error().message, HasSubstr("cannot run no-such-compiler"));
  EXPECT_THAT(linker.error().message, HasSubstr("Ubuntu: gcc)"));
}

TEST_F(ToolchainTest, ThisMachinesCompilerPasses) {
  const auto linker = find_linker(target::host(), "");
  ASSERT_TRUE(linker.ok()) << linker.error().message;
  EXPECT_EQ(linker->command.size(), 1u);
  EXPECT_TRUE(linker->has_c_library);
}

// As on a machine with a compiler for the target and no C library of it: here for this one, so that
// what was linked can run.
TEST_F(ToolchainTest, ArtifactsLinkedWithoutTheLibraryFindItsFunctions) {
  write_program("mine", kOnlyWithoutLibrary);
  const graph::Graph graph = of_all_libraries();
  const auto report = compile_artifact(graph, target::host(), folder_ + "/net",
                                       {.name = "net", .cc = folder_ + "/mine"});
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto needed = run_tool({"readelf", "-d", folder_ + "/net/libnet.so"}, folder_);
  ASSERT_TRUE(needed.ok()) << needed.error().message;
  for (const char* name : {"[libc.so.6]", "[libm.so.6]", "[libpthread.so.0]"})
    EXPECT_THAT(*needed, HasSubstr(name));
  const auto inputs = inputs_for(graph);
  const auto loaded = load_artifact(folder_ + "/net", {.threads = 2});
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  const auto outputs = (*loaded)->run(inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message;
  expect_close(*outputs, expected(graph, inputs));
}

}  // namespace
}  // namespace tessera::artifact
