#include "tessera/driver/compile/schedule_library.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/lower/check_lowers.h"
#include "tessera/space/default_schedule.h"

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

  void write(const std::string& file, const std::string& text) {
    std::ofstream(folder_ / file) << text;
  }

  Result<FoundSchedule> find(const char* text, const char* target = "neoverse-v1") {
    const te::OpSpec spec = te::parse_op_spec(text).value();
    return find_schedule(folder_.string(), spec, te::make_dag(spec).value(),
                         target::find_target(target).value());
  }

  std::string found(const char* spec, const char* target = "neoverse-v1") {
    const auto schedule = find(spec, target);
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

TEST_F(ScheduleLibrary, AbsentFolderGivesTheDefault) {
  const te::OpSpec spec = te::parse_op_spec("matmul:M=4,N=4,K=4").value();
  const auto none = find_schedule((folder_ / "absent").string(), spec, te::make_dag(spec).value(),
                                  target::host());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->path, "");
  const auto standard =
      space::default_schedule(te::make_dag(spec).value(), target::host(), lower::check_lowers);
  EXPECT_EQ(none->text, schedule::to_text(standard.value()));
}

TEST_F(ScheduleLibrary, ReturnsTheText) {
  write("aarch64/a.txt", "# op: matmul\nsplit C i 4\n");
  const auto schedule = find("matmul:M=4,N=4,K=4");
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

TEST_F(ScheduleLibrary, PassesOverWhatDoesNotApply) {
  write("aarch64/any.txt", "# op: conv2d\nannotate Y oh parallel\n");
  write("aarch64/padded.txt",
        "# op: conv2d:KH=3,KW=3\ncompute_inline pad\nannotate Y oh parallel\n");
  write("aarch64/typo.txt", "# op: conv2d:KH=3,KW=3,S=1\nannotat Y oh parallel\n");
  EXPECT_EQ(found("conv2d:N=1,H=5,W=5,CI=3,CO=4,KH=3,KW=3,P=1"), "padded.txt");
  EXPECT_EQ(found("conv2d:N=1,H=5,W=5,CI=3,CO=4,KH=3,KW=3,P=0"), "any.txt");
  write("aarch64/any.txt", "# op: conv2d\nannotate Y kh parallel\n");
  EXPECT_EQ(found("conv2d:N=1,H=5,W=5,CI=3,CO=4,KH=3,KW=3,P=0"), "");
}

TEST_F(ScheduleLibrary, PassesOverWhatCannotBeLowered) {
  write("aarch64/any.txt", "# op: matmul\nannotate C i parallel\n");
  write("aarch64/dot.txt",
        "# op: matmul:dtype=i8\nsplit C j 4\nsplit C k 4\nreorder C i j.0 k.0 j.1 k.1\ncache_read "
        "B local C\n"
        "layout B.local d1/4 d0/4 d1%4 d0%4\ntensorize C j.1 dot4\n");
  EXPECT_EQ(found("matmul:M=8,N=8,K=8,dtype=i8"), "dot.txt");
  EXPECT_EQ(found("matmul:M=8,N=8,K=8,TA=1,dtype=i8"), "any.txt");
}

TEST_F(ScheduleLibrary, NumberOfStages) {
  write("aarch64/one.txt", "# op: eltwise:stages=1\nannotate Y i parallel\n");
  write("aarch64/two.txt", "# op: eltwise:stages=2\ncompute_inline e0\nannotate Y i parallel\n");
  EXPECT_EQ(found("eltwise:N=9,fn=relu"), "one.txt");
  EXPECT_EQ(found("eltwise:N=9,fn=add+relu"), "two.txt");
  EXPECT_EQ(found("eltwise:N=9,fn=add+relu+exp"), "");
}

TEST_F(ScheduleLibrary, FeaturesOfTheTarget) {
  write("aarch64/any.txt", "# op: matmul\n");
  write("aarch64/mma.txt", "# op: matmul:feature=i8mm\n");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64", "neoverse-v1"), "mma.txt");
  EXPECT_EQ(found("matmul:M=8,N=16,K=64", "neoverse-n1"), "any.txt");
}

TEST_F(ScheduleLibrary, ReadTextFile) {
  write("aarch64/a.txt", "text\n");
  EXPECT_EQ(read_text_file((folder_ / "aarch64/a.txt").string()).value(), "text\n");
  EXPECT_EQ(read_text_file(folder_.string()).error().code, ErrorCode::kIo);  // a folder
  const auto absent = read_text_file((folder_ / "absent.txt").string());
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kIo);
  EXPECT_NE(absent.error().message.find("absent.txt"), std::string::npos);
}

}  // namespace
}  // namespace tessera::driver
