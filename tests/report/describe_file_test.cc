#include "tessera/app/report/describe_file.h"

#include <gtest/gtest.h>

#include "tessera/app/report/operators_page.h"
#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::report {
namespace {

TEST(DescribeFile, TellsWhatANetworkHolds) {
  const auto model = describe_file("zoo:lenet");
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->at("kind").text(), "model");
  EXPECT_EQ(model->at("inputs").size(), 1u);
  EXPECT_GT(model->at("parameters").number(), 0);
}

TEST(DescribeFile, RefusesWhatIsNotThereAndFoldersWithoutAnArtifact) {
  EXPECT_EQ(describe_file("/no/such/file").error().code, ErrorCode::kIo);
  const TemporaryFolder folder = TemporaryFolder::make("describe").value();
  EXPECT_EQ(describe_file(folder.path()).error().code, ErrorCode::kInvalidArgument);
  const std::string plan = folder.path() + "/broken.plan";
  ASSERT_TRUE(write_file(plan, {"{"}).ok());
  EXPECT_FALSE(describe_file(plan).ok());
}

TEST(OperatorsPage, HasASectionPerDomain) {
  const std::string page = operators_page();
  EXPECT_NE(page.find("\n## ai.onnx\n"), std::string::npos);
  EXPECT_NE(page.find("Conv"), std::string::npos);
}

}  // namespace
}  // namespace tessera::report
