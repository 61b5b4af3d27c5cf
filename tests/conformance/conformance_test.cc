// The ONNX backend tests through compiled code, as the program runs them.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/process.h"
#include "tests/conformance/report.h"

namespace tessera::conformance {
namespace {

TEST(Conformance, CompiledCodePassesTheOnnxBackendTests) {
  const std::string data = TESSERA_ONNX_TESTDATA;
  if (!std::filesystem::is_directory(data)) {
    GTEST_SKIP() << data << " is absent (package libonnx-testdata): NOTHING WAS CHECKED";
  }
  const cli::Finished result = cli::run({"conformance", data, "--json"});
  EXPECT_EQ(result.signal, 0);
  std::vector<std::string> complaints;
  const Report report = judge(result.out, &complaints);
  EXPECT_EQ(result.code, report.failed > 0 ? 4 : 0) << result.err;
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
  RecordProperty("passed", report.passed);
  RecordProperty("cases", report.cases);
  const std::string page = cli::read_file(TESSERA_ROOT "/docs/conformance.md");
  for (const NotPassed& c : report.not_passed) {
    EXPECT_NE(page.find("| " + c.name + " | "), std::string::npos)
        << c.name << " is not in docs/conformance.md; refresh it with ./do docs";
  }
}

}  // namespace
}  // namespace tessera::conformance
