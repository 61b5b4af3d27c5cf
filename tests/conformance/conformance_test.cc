// The ONNX backend tests through compiled code, as the program runs them.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/process.h"
#include "tests/conformance/report.h"

namespace tessera::conformance {
namespace {

// The JSON of all cases in one mode; empty and skipped where the data is absent.
std::string run_mode(const std::string& mode) {
  const std::string data = TESSERA_ONNX_TESTDATA;
  const cli::Finished result = cli::run({"conformance", data, "--json", "--mode", mode});
  EXPECT_EQ(result.signal, 0);
  std::vector<std::string> complaints;
  const Report report = judge(result.out, &complaints);
  EXPECT_EQ(result.code, report.failed > 0 ? 4 : 0) << result.err;
  for (const std::string& complaint : complaints) ADD_FAILURE() << mode << ": " << complaint;
  return result.out;
}

class Conformance : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(TESSERA_ONNX_TESTDATA)) {
      GTEST_SKIP() << TESSERA_ONNX_TESTDATA
                   << " is absent (package libonnx-testdata): NOTHING WAS CHECKED";
    }
  }
};

TEST_F(Conformance, CompiledCodePassesTheOnnxBackendTests) {
  const std::string json = run_mode("compiled");
  std::vector<std::string> complaints;
  const Report report = judge(json, &complaints);
  RecordProperty("passed", report.passed);
  RecordProperty("cases", report.cases);
  const std::string page = cli::read_file(TESSERA_ROOT "/docs/reference/conformance.md");
  for (const NotPassed& c : report.not_passed) {
    EXPECT_NE(page.find("`" + c.name + "`"), std::string::npos)
        << c.name << " is not in docs/reference/conformance.md; refresh it with ./do docs";
  }
  // Each way to run has a case that must run that way.
  for (const auto& [name, ran] :
       {std::pair("node/test_relu", "code"), std::pair("node/test_constant", "folded"),
        std::pair("node/test_det_2d", "host"), std::pair("node/test_nonzero_example", "nodes")}) {
    EXPECT_EQ(ran_of(json, name), ran) << name;
  }
}

// Every operator also runs alone, with sizes and constants that its code does not know.
TEST_F(Conformance, TheSameNodeByNode) {
  const std::string json = run_mode("nodes");
  EXPECT_EQ(ran_of(json, "node/test_relu"), "nodes");
}

}  // namespace
}  // namespace tessera::conformance
