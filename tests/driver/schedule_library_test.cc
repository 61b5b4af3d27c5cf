#include "tessera/driver/schedule_library.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tessera::driver {
namespace {

namespace fs = std::filesystem;

// A schedule folder that lives as long as the test.
class ScheduleLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("tessera_schedules_{}", getpid());
    fs::create_directories(folder_ / "aarch64");
    fs::create_directories(folder_ / "x86_64");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& file, const std::string& text) { std::ofstream(folder_ / file) << text; }

  std::string found(const char* spec, const char* target = "neoverse-v1") {
    const auto schedule = find_schedule(folder_.string(), te::parse_op_spec(spec).value(), target::find_target(target).value());
    EXPECT_TRUE(schedule.ok()) << schedule.error().message;
    return schedule->path.empty() ? "" : fs::path(schedule->path).filename().string();
  }

  fs::path folder_;
};

TEST_F(ScheduleLibrary, NothingFits) {
  EXPECT_EQ(found("matmul:M=4,N=4,K=4"), "");
  write("aarch64/conv.txt", "# op: conv2d\n");
  write("aarch64/notes.md", "# op: matmul\n");
  write("aarch64/comment.txt", "# for matmul\nsplit C i 4\n");
  EXPECT_EQ(found("matmul:M=4,N=4,K=4"), "");
}

TEST_F(ScheduleLibrary, AbsentFolderIsNoSchedule) {
  const auto none = find_schedule((folder_ / "absent").string(), te::parse_op_spec("matmul:M=4,N=4,K=4").value(), target::host());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->path, "");
  EXPECT_EQ(none->text, "");
}

TEST_F(ScheduleLibrary, ReturnsTheText) {
  write("aarch64/a.txt", "# op: matmul\nsplit C i 4\n");
  const auto schedule = find_schedule(folder_.string(), te::parse_op_spec("matmul:M=4,N=4,K=4").value(),
                                      target::find_target("neoverse-v1").value());
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(schedule->text, "# op: matmul\nsplit C i 4\n");
}

TEST_F(ScheduleLibrary, MostParametersWin) {
  write("aarch64/any.txt", "# op: matmul\n");
  write("aarch64/k.txt", "# op: matmul:K=64\n");
  write("aarch64/mk.txt", "# op: matmul:M=8,K=64\n");
  write("aarch64/whole.txt", "# op: matmul:M=8,N=16,K=64\n");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64"), "whole.txt");
  EXPECT_EQ(found("matmul:M=8,N=17,K=64"), "mk.txt");
  EXPECT_EQ(found("matmul:M=9,N=16,K=64"), "k.txt");
  EXPECT_EQ(found("matmul:M=9,N=16,K=65"), "any.txt");
}

TEST_F(ScheduleLibrary, OneDifferenceRulesAFileOut) {
  write("aarch64/a.txt", "# op: matmul:M=8,N=16,K=99\n");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64"), "");
  write("aarch64/b.txt", "# op: matmul:Q=8\n# op: matmul:M\n");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64"), "");
}

TEST_F(ScheduleLibrary, SeveralLinesAndTiesByName) {
  write("aarch64/b.txt", "# op: matmul:K=64\n# op: dense\n");
  write("aarch64/a.txt", "# op: matmul:M=8\n");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64"), "a.txt");
  EXPECT_EQ(found("dense:M=8,N=16,K=64"), "b.txt");
}

TEST_F(ScheduleLibrary, WordsAndTypes) {
  write("aarch64/f16.txt", "# op: matmul:dtype=f16\n");
  write("aarch64/max.txt", "# op: reduce:op=max\n");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64,dtype=f16"), "f16.txt");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64"), "");
  EXPECT_EQ(found("reduce:R=5,C=9,op=max"), "max.txt");
  EXPECT_EQ(found("reduce:R=5,C=9"), "");
}

TEST_F(ScheduleLibrary, FoldersByArchitecture) {
  write("x86_64/a.txt", "# op: matmul\n");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64"), "");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64", "skylake-avx512"), "a.txt");
}

TEST_F(ScheduleLibrary, ReadTextFile) {
  write("aarch64/a.txt", "text\n");
  EXPECT_EQ(read_text_file((folder_ / "aarch64/a.txt").string()).value(), "text\n");
  const auto absent = read_text_file((folder_ / "absent.txt").string());
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kIo);
  EXPECT_NE(absent.error().message.find("absent.txt"), std::string::npos);
}

}  // namespace
}  // namespace tessera::driver
