#include "tessera/artifact/staging_folder.h"

#include <filesystem>

#include <gtest/gtest.h>

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
