#include "tessera/backend/artifact/staging_folder.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/support/files.h"
#include "tests/artifact/artifact_fixture.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(StagingFolder, AppearsWholeOrNotAtAll) {
  const std::string root = fresh_folder();
  {
    const auto staging = StagingFolder::make(root + "/deep/er/out");
    ASSERT_TRUE(staging.ok()) << staging.error().message;
    ASSERT_TRUE(write_file(staging->path() + "/f", {"x"}).ok());
    EXPECT_FALSE(fs::exists(root + "/deep/er/out"));
  }
  EXPECT_TRUE(files_in(root + "/deep/er").empty());
  {
    auto staging = StagingFolder::make(root + "/deep/er/out");
    ASSERT_TRUE(staging.ok());
    ASSERT_TRUE(write_file(staging->path() + "/f", {"x"}).ok());
    ASSERT_TRUE(staging->publish().ok());
  }
  EXPECT_EQ(files_in(root + "/deep/er"), Names{"out"});
  EXPECT_EQ(files_in(root + "/deep/er/out"), Names{"f"});
}

TEST(StagingFolder, EmptyFoldersAreFilled) {
  const std::string root = fresh_folder();
  fs::create_directory(root + "/out");
  auto staging = StagingFolder::make(root + "/out");
  ASSERT_TRUE(staging.ok()) << staging.error().message;
  EXPECT_TRUE(staging->publish().ok());
}

TEST(StagingFolder, HalvesOfEndedProcessesAreRemoved) {
  const std::string root = fresh_folder();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto staging = StagingFolder::make(root + "/out");
    ::_exit(staging.ok() && write_file(staging->path() + "/f", {"x"}).ok() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_EQ(files_in(root).size(), 1u);
  fs::create_directory(root + "/.out.tmp.mine");
  fs::create_directory(root + "/.other.tmp.1.0");
  const auto first = StagingFolder::make(root + "/out");
  const auto second = StagingFolder::make(root + "/out");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(fs::exists(first->path()));
  EXPECT_NE(first->path(), second->path());
  EXPECT_EQ(files_in(root).size(), 4u);
}

TEST(StagingFolder, RefusesFilesAndImpossiblePlaces) {
  const std::string root = fresh_folder();
  ASSERT_TRUE(write_file(root + "/file", {"x"}).ok());
  EXPECT_EQ(StagingFolder::make(root + "/file").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(StagingFolder::make(root + "/file/below").error().code, ErrorCode::kIo);
  EXPECT_EQ(StagingFolder::make("/proc/tessera/out").error().code, ErrorCode::kIo);
  EXPECT_EQ(StagingFolder::make("").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(StagingFolder::make("/").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(files_in(root), Names{"file"});
}

}  // namespace
}  // namespace tessera::artifact
