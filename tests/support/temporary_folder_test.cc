#include "tessera/support/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace tessera {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, IsGoneWithTheLastThatHoldsIt) {
  std::string path;
  {
    TemporaryFolder first = TemporaryFolder::make("test").value();
    path = first.path();
    EXPECT_TRUE(fs::path(path).filename().string().starts_with("tessera-test-"));
    EXPECT_NE(TemporaryFolder::make("test").value().path(), path);
    fs::create_directories(path + "/deeper");
    const TemporaryFolder second = std::move(first);
    EXPECT_EQ(second.path(), path);
    EXPECT_TRUE(fs::is_directory(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(TemporaryFolder, WithoutAPlaceIsAnError) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", "/no/such/folder", 1);
  const Result<TemporaryFolder> none = TemporaryFolder::make("test");
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kIo);
  EXPECT_TRUE(none.error().message.find("TMPDIR") != std::string::npos);
}

}  // namespace
}  // namespace tessera
