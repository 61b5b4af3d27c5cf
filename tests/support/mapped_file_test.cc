#include "tessera/support/mapped_file.h"

#include <gtest/gtest.h>

#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"

namespace tessera {
namespace {

// Kernels may read a little more than a tensor, also of the last one of a file.
TEST(MappedFile, ZerosFollowTheFile) {
  const TemporaryFolder folder = TemporaryFolder::make("mapped").value();
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{65536}}) {
    const std::string path = folder.path() + "/file", text(size, 'x');
    ASSERT_TRUE(write_file(path, {text}).ok());
    const Result<MappedFile> file = MappedFile::open(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->bytes(), text);
    const char* end = file->bytes().data() + size;
    for (int i = 0; i < 4096; ++i) EXPECT_EQ(end[i], 0) << size << " " << i;
  }
}

TEST(MappedFile, EmptyAndAbsentFiles) {
  const TemporaryFolder folder = TemporaryFolder::make("mapped").value();
  ASSERT_TRUE(write_file(folder.path() + "/empty", {""}).ok());
  EXPECT_EQ(MappedFile::open(folder.path() + "/empty")->bytes(), "");
  EXPECT_EQ(MappedFile::open(folder.path() + "/absent").error().code, ErrorCode::kIo);
  EXPECT_EQ(MappedFile::open(folder.path()).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace tessera
