// Which compiler is taken, and what is said when there is none: with programs of our own in PATH.
#include "tessera/artifact/toolchain.h"

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

// What clang says of another machine's headers when only this one's are installed.
constexpr const char* kWithoutHeaders = R"(#!/bin/sh
[ "$1" = --version ] && exit 0
case " $* " in *" -print-prog-name=ar "*) echo ar; exit 0 ;; esac
echo "In file included from <built-in>:2:"
echo "/usr/include/stdio.h:27:10: fatal error: 'bits/libc-header-start.h' file not found"
exit 1
)";
constexpr const char* kWorks = R"(#!/bin/sh
case " $* " in *" -print-prog-name=ar "*) echo /somewhere/ar; exit 0 ;; esac
exit 0
)";

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

TEST_F(ToolchainTest, CompilerWithoutTheTargetsHeadersIsNotTaken) {
  write_program(cross_gcc_, "#!/bin/sh\nexit 127\n");
  write_program("clang", kWithoutHeaders);
  const auto tools = find_toolchain(other_, "");
  ASSERT_FALSE(tools.ok());
  EXPECT_EQ(tools.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(tools.error().message, HasSubstr(packages_));
  EXPECT_THAT(tools.error().message, HasSubstr("bits/libc-header-start.h"));
  EXPECT_THAT(tools.error().message, HasSubstr(cross_gcc_));
  EXPECT_THAT(tools.error().message, Not(HasSubstr("In file included")));
}

TEST_F(ToolchainTest, NextCandidateIsTakenWhenTheFirstFails) {
  write_program(cross_gcc_, kWithoutHeaders);
  write_program("clang", kWorks);
  const auto tools = find_toolchain(other_, "");
  ASSERT_TRUE(tools.ok()) << tools.error().message;
  EXPECT_EQ(tools->cc[0], "clang");
  EXPECT_THAT(tools->cc[1], HasSubstr("--target="));
  EXPECT_EQ(tools->ar, "/somewhere/ar");
}

TEST_F(ToolchainTest, WhatIsNotLinkedNeedsNoLibrary) {
  write_program(
      "mine",
      "#!/bin/sh\ncase \" $* \" in *\" -shared \"*) echo 'error: no -lm'; exit 1 ;; esac\n");
  EXPECT_FALSE(find_toolchain(other_, folder_ + "/mine").ok());
  EXPECT_TRUE(find_toolchain(other_, folder_ + "/mine", false).ok());
}

TEST_F(ToolchainTest, NamedCompilerIsProbedAndNoOther) {
  write_program(cross_gcc_, kWorks);
  write_program("mine", kWithoutHeaders);
  const auto tools = find_toolchain(other_, folder_ + "/mine");
  ASSERT_FALSE(tools.ok());
  EXPECT_THAT(tools.error().message, HasSubstr(folder_ + "/mine: "));
  EXPECT_THAT(tools.error().message, HasSubstr("bits/libc-header-start.h"));
}

TEST_F(ToolchainTest, AbsentCompilerIsNamed) {
  const auto tools = find_toolchain(target::host(), "no-such-compiler");
  ASSERT_FALSE(tools.ok());
  EXPECT_EQ(tools.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(tools.error().message, HasSubstr("cannot run no-such-compiler"));
  EXPECT_THAT(tools.error().message, HasSubstr("gcc libc6-dev"));
}

TEST_F(ToolchainTest, ThisMachinesCompilerPasses) {
  const auto tools = find_toolchain(target::host(), "");
  ASSERT_TRUE(tools.ok()) << tools.error().message;
  EXPECT_EQ(tools->cc.size(), 1u);
}

}  // namespace
}  // namespace tessera::artifact
