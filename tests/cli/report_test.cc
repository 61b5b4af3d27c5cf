// tessera report as its users meet it: a page of what was tuned, and what goes wrong.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/frontend/zoo/zoo.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class ReportCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(write_file("report/here", "")).parent_path().string();
    std::filesystem::remove(db_ = folder_ + "/tuning.db");
  }

  std::string folder_, db_;
};

TEST_F(ReportCommand, WritesAPageOfWhatWasTuned) {
  const Finished tuned =
      run({"tune", "--op", "matmul:M=32,N=32,K=32", "--threads", "1", "--trials", "12", "--policy",
           "random", "--db", db_, "--plan", folder_ + "/op.plan", "--peers", "none"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const std::string path = folder_ + "/report.html";
  const Finished done = run({"report", db_, "-o", path, "--no-roofline"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(has(done.out, path + ": matmul:M=32,N=32,K=32")) << done.out;
  EXPECT_TRUE(has(done.out, "1 kernel:")) << done.out;
  const std::string page = read_file(path);
  EXPECT_EQ(page.rfind("<!doctype html>", 0), 0u);
  EXPECT_TRUE(has(page, "Tuning of matmul:M=32,N=32,K=32"));
  EXPECT_FALSE(has(page, "left no summary")) << "tune kept one";
  EXPECT_TRUE(has(page, "There are no rooflines"));
  const Finished one = run({"report", "1", "--db", db_, "-o", "-", "--no-roofline"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, page);
  const Finished json = run({"report", db_, "-o", path, "--no-roofline", "--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  const nlohmann::json told = nlohmann::json::parse(json.out);
  EXPECT_EQ(told.at("page"), path);
  EXPECT_TRUE(has(told.at("model"), "matmul:M=32,N=32,K=32"));
  EXPECT_EQ(told.at("kernels").size(), 1u);

  const Finished unknown = run({"report", "9", "--db", db_, "-o", path});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(has(unknown.err, "has no session 9")) << unknown.err;
  const Finished nowhere = run({"report", db_, "--no-roofline", "-o", folder_ + "/none/r.html"});
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(has(nowhere.err, "none/r.html")) << nowhere.err;
}

TEST_F(ReportCommand, NamesTheLayersOfTheModel) {
  const Finished tuned = run({"tune", "zoo:lenet", "--threads", "1", "--trials-per-task", "1",
                              "--db", db_, "--plan", folder_ + "/lenet.plan", "--peers", "none"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Finished done = run({"report", db_, "-o", "-", "--no-roofline"});
  ASSERT_EQ(done.code, 0) << done.err;
  const onnx::Model model = *zoo::make_model("lenet");
  int named = 0;
  for (const onnx::Node& node : model.graph.nodes) {
    const bool heavy = node.op_type == "Conv" || node.op_type == "Gemm";
    if (!heavy) continue;
    ASSERT_FALSE(node.name.empty());
    EXPECT_TRUE(has(done.out, "<td>" + node.name)) << node.name;
    ++named;
  }
  EXPECT_EQ(named, 5);
}

TEST_F(ReportCommand, NeedsADatabase) {
  const Finished absent = run({"report", db_});
  EXPECT_EQ(absent.code, 6);
  EXPECT_TRUE(has(absent.err, "there is no such database")) << absent.err;
}

}  // namespace
}  // namespace tessera::cli
