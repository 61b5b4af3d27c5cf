#include "tessera/support/file_writer.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

class FileWriterTest : public ::testing::Test {
 protected:
  std::string path() const { return (folder_ / "file").string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  // Tests run side by side.
  const TemporaryFolder place_ = TemporaryFolder::make("file_writer").value();
  const fs::path folder_ = place_.path();
};

// Small pieces and one that is larger than what is gathered.
TEST_F(FileWriterTest, PiecesComeOneAfterTheOther) {
  ASSERT_TRUE(write_file(path(), {"old"}).ok());
  FileWriter file = FileWriter::create(path()).value();
  std::string want;
  for (int i = 0; i < 30'000; ++i) {
    const std::string piece = std::to_string(i) + (i == 5000 ? std::string(200'000, 'x') : "\n");
    want += piece;
    ASSERT_TRUE(file.write(piece).ok());
  }
  EXPECT_EQ(read_file(path()).value(), "old");
  ASSERT_TRUE(file.finish().ok());
  EXPECT_EQ(read_file(path()).value(), want);
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileWriterTest, WhatIsNotFinishedLeavesNothing) {
  ASSERT_TRUE(write_file(path(), {"old"}).ok());
  {
    FileWriter file = FileWriter::create(path()).value();
    ASSERT_TRUE(file.write("new").ok());
    EXPECT_EQ(files(), 2u);
  }
  EXPECT_EQ(read_file(path()).value(), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileWriterTest, ModesAreAsAsked) {
  FileWriter file = FileWriter::create(path(), 0600).value();
  ASSERT_TRUE(file.finish().ok());
  struct stat info {};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(FileWriterTest, SaysWhatWentWrong) {
  const auto below = FileWriter::create(path() + "/below");
  ASSERT_FALSE(below.ok());
  EXPECT_NE(below.error().message.find(path() + "/below"), std::string::npos);
  FileWriter full = FileWriter::create("/dev/full").value();
  ASSERT_TRUE(full.write("gathered").ok());
  const auto finished = full.finish();
  ASSERT_FALSE(finished.ok());
  EXPECT_NE(finished.error().message.find("/dev/full"), std::string::npos);
}

}  // namespace
}  // namespace tessera
