// Which compiler is taken, and what is said when there is none: with programs of our own in PATH.
#include "tessera/backend/artifact/toolchain.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/support/files.h"
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
constexpr const char* kWorks = "#!/bin/sh\nexit 0\n";

class ToolchainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder();
    path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_ + ":/usr/bin:/bin").c_str(), 1);
    const bool arm = target::host().arch == target::Arch::kAArch64;
    other_ = *target::find_target(arm ? "x86-64-v3" : "neoverse-n1");
    cross_gcc_ = arm ? "x86_64-linux-gnu-gcc" : "aarch64-linux-gnu-gcc";
    packages_ = arm ? "gcc-x86-64-linux-gnu libc6-dev-amd64-cross"
                    : "gcc-aarch64-linux-gnu libc6-dev-arm64-cross";
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }

  void write_program(const std::string& name, const char* text) const {
    ASSERT_TRUE(write_file(folder_ + "/" + name, {text}).ok());
    fs::permissions(folder_ + "/" + name, fs::perms::owner_all);
  }

  std::string folder_, path_, cross_gcc_, packages_;
  target::Target other_;
};

TEST_F(ToolchainTest, CompilerWithoutTheTargetsLibraryIsNotTaken) {
  write_program(cross_gcc_, "#!/bin/sh\nexit 127\n");
  write_program("clang", kWithoutLibrary);
  const auto linker = find_linker(other_, "");
  ASSERT_FALSE(linker.ok());
  EXPECT_EQ(linker.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(linker.error().message, HasSubstr(packages_));
  EXPECT_THAT(linker.error().message, HasSubstr("cannot find -lc"));
  EXPECT_THAT(linker.error().message, HasSubstr(cross_gcc_));
  EXPECT_THAT(linker.error().message, Not(HasSubstr("note: linking")));
}

TEST_F(ToolchainTest, NextCandidateIsTakenWhenTheFirstFails) {
  write_program(cross_gcc_, kWithoutLibrary);
  write_program("clang", kWorks);
  const auto linker = find_linker(other_, "");
  ASSERT_TRUE(linker.ok()) << linker.error().message;
  EXPECT_EQ((*linker)[0], "clang");
  EXPECT_THAT((*linker)[1], HasSubstr("--target="));
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
  EXPECT_THAT(linker.error().message, HasSubstr("gcc libc6-dev"));
}

TEST_F(ToolchainTest, ThisMachinesCompilerPasses) {
  const auto linker = find_linker(target::host(), "");
  ASSERT_TRUE(linker.ok()) << linker.error().message;
  EXPECT_EQ(linker->size(), 1u);
}

}  // namespace
}  // namespace tessera::artifact
