#include "tessera/learn/model/model_file.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/model/cost_model.h"
#include "tessera/support/files.h"

namespace tessera::model {
namespace {

class ModelFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/model_file_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_;
  const ModelFile file_{"gbt", "rank", "0123456789abcdef", 7, {std::string("a\0b\n", 4), ""}, {}};
};

TEST_F(ModelFiles, ReadWhatWasWritten) {
  ASSERT_TRUE(write_model_file(path_, file_).ok());
  const auto back = read_model_file(path_, "gbt", "0123456789abcdef");
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->objective, "rank");
  EXPECT_EQ(back->columns, 7u);
  EXPECT_EQ(back->parts, file_.parts);
}

TEST_F(ModelFiles, CarryNotes) {
  ASSERT_TRUE(write_model_file(path_, file_).ok());
  EXPECT_NE(read_file(path_)->find("tessera-model 1\n"), std::string::npos);
  ASSERT_TRUE(set_notes(path_, {{"split", "by_task"}, {"targets", "a b\nc"}, {"empty", ""}}).ok());
  const auto back = read_model_file(path_);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->parts, file_.parts);
  EXPECT_EQ(back->notes, (std::map<std::string, std::string>{
                             {"split", "by_task"}, {"targets", "a b c"}, {"empty", ""}}));
  const std::string whole = *read_file(path_);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const std::string part = whole.substr(0, cut);
    ASSERT_TRUE(write_file(path_, {part}).ok());
    EXPECT_FALSE(read_model_file(path_).ok()) << "cut after " << cut;
  }
  EXPECT_EQ(set_notes(path_ + ".absent", {}).error().code, ErrorCode::kIo);
}

TEST_F(ModelFiles, RefuseOtherKindsAndSchemas) {
  ASSERT_TRUE(write_model_file(path_, file_).ok());
  const auto kind = read_model_file(path_, "random", "0123456789abcdef");
  ASSERT_FALSE(kind.ok());
  EXPECT_NE(kind.error().message.find("holds a model \"gbt\""), std::string::npos);
  const auto schema = read_model_file(path_, "gbt", "ffffffffffffffff");
  ASSERT_FALSE(schema.ok());
  EXPECT_EQ(schema.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(schema.error().message.find("0123456789abcdef"), std::string::npos);
}

TEST_F(ModelFiles, EveryCutAndEveryFlippedByteOfThePartsIsFound) {
  ASSERT_TRUE(write_model_file(path_, file_).ok());
  const std::string whole = *read_file(path_);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const std::string part = whole.substr(0, cut);
    ASSERT_TRUE(write_file(path_, {part}).ok());
    EXPECT_FALSE(read_model_file(path_).ok()) << "cut after " << cut;
  }
  for (std::size_t at = whole.size() - 4; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    ASSERT_TRUE(write_file(path_, {changed}).ok());
    const auto read = read_model_file(path_);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code, ErrorCode::kIo);
  }
}

TEST_F(ModelFiles, ForeignFilesAreRefused) {
  for (const char* text : {"", "{\"learner\":{}}", "tessera-model 9\nkind gbt\n",
                           "tessera-model 1\nkind gbt\nobjective rank\nschema x\ncolumns -3\n",
                           "tessera-model 1\nkind gbt\nobjective rank\nschema x\ncolumns 1\n"
                           "parts 99999999999999999999\n"}) {
    ASSERT_TRUE(write_file(path_, {text}).ok());
    EXPECT_FALSE(read_model_file(path_).ok()) << text;
    auto model = make_model("random", {});
    ASSERT_TRUE(model.ok());
    EXPECT_FALSE((*model)->load(path_).ok());
  }
  EXPECT_EQ(read_model_file(path_ + ".absent").error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace tessera::model
