// The judge of the reports must refuse every kind of bad one.
#include "tests/conformance/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tessera::conformance {
namespace {

using nlohmann::json;

json report_of(int passed, int failed, int numbers, int strings) {
  json cases = json::array();
  const auto add = [&](int count, const char* status, const char* reason) {
    for (int i = 0; i < count; ++i) {
      json c = {{"name", fmt::format("node/test_{}", cases.size())}, {"status", status}};
      if (*reason != '\0') c["reason"] = reason;
      cases.push_back(c);
    }
  };
  add(passed, "pass", "");
  add(failed, "fail", "output 0: element 3 is 1, not 2");
  add(numbers, "unsupported", "unsupported: node '' (DFT-17): this operator is not supported yet");
  add(strings, "unsupported", "unsupported: 'x' is of type string");
  return {
      {"passed", passed}, {"failed", failed}, {"unsupported", numbers + strings}, {"cases", cases}};
}

std::vector<std::string> complaints_about(const std::string& text) {
  std::vector<std::string> complaints;
  judge(text, &complaints);
  return complaints;
}

TEST(Judge, AcceptsAGoodReport) {
  std::vector<std::string> complaints;
  const Report report = judge(report_of(97, 0, 3, 40).dump(), &complaints);
  EXPECT_EQ(complaints, std::vector<std::string>{});
  EXPECT_EQ(report.cases, 140);
  EXPECT_EQ(report.numeric, 100);
  EXPECT_EQ(report.passed, 97);
  EXPECT_EQ(report.not_passed.size(), 43u);
}

TEST(Judge, OneFailureIsTooMany) {
  const auto complaints = complaints_about(report_of(1000, 1, 0, 0).dump());
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find("element 3 is 1, not 2"), std::string::npos);
}

TEST(Judge, WrongDataExcusesItsOwnDifferenceOnly) {
  json report = report_of(1000, 1, 0, 0);
  json& failure = report["cases"][1000];
  failure["name"] = "node/test_adam_multiple";
  failure["reason"] = "output 0: 1 of 1 elements differ, first [0]: 0.755959332, want 0.75913626";
  EXPECT_EQ(complaints_about(report.dump()).size(), 0u);
  failure["reason"] = "output 0: 1 of 1 elements differ, first [0]: 0.5, want 0.75913626";
  EXPECT_EQ(complaints_about(report.dump()).size(), 1u);
}

TEST(Judge, TooManyNumericCasesAreRefused) {
  const auto complaints = complaints_about(report_of(96, 0, 4, 0).dump());
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_EQ(complaints[0], "96 of 100 numeric cases passed; at least 97 % must");
}

// A refused operator does not become a matter of types because its name says so.
TEST(Judge, OnlyTheTypeExcuses) {
  json report = report_of(10, 0, 1, 0);
  for (const char* reason :
       {"unsupported: node 'string' (StringNormalizer-10): not supported yet",
        "unsupported: 'x' is of type string and more", "unsupported: 'x' is of type complex64"}) {
    report["cases"][10]["reason"] = reason;
    EXPECT_EQ(complaints_about(report.dump()).size(), 1u) << reason;
  }
}

TEST(Judge, NothingIsNotSuccess) {
  EXPECT_EQ(complaints_about(report_of(0, 0, 0, 0).dump()).size(), 1u);
  EXPECT_EQ(complaints_about(report_of(0, 0, 0, 9).dump()).size(), 1u);
}

TEST(Judge, CountsMustBeThoseOfTheCases) {
  json report = report_of(100, 0, 0, 0);
  report["passed"] = 101;
  EXPECT_EQ(complaints_about(report.dump()).size(), 1u);
  report = report_of(100, 0, 0, 0);
  report["failed"] = 1;
  EXPECT_EQ(complaints_about(report.dump()).size(), 1u);
}

TEST(Judge, DrawnNumbersMayDiffer) {
  json report = report_of(100, 1, 0, 0);
  json& drawn = report["cases"][100];
  drawn["name"] = "node/test_bernoulli";
  drawn["reason"] = "output 0: 3 of 10 elements differ, first [0]: 1, want 0";
  EXPECT_EQ(complaints_about(report.dump()).size(), 0u);
  drawn["reason"] = "output 0 is f32[9]";
  EXPECT_EQ(complaints_about(report.dump()).size(), 1u);
}

TEST(Judge, EveryRefusalHasAReason) {
  json report = report_of(100, 0, 0, 1);
  report["cases"][100].erase("reason");
  EXPECT_EQ(complaints_about(report.dump()).size(), 1u);
}

TEST(Judge, UnreadableReports) {
  const std::string good = report_of(5, 0, 0, 0).dump();
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), good.substr(0, good.size() / 2),
        std::string(R"({"passed": 1, "failed": 0, "cases": [{"name": 3}]})")}) {
    const auto complaints = complaints_about(text);
    ASSERT_EQ(complaints.size(), 1u) << text;
    EXPECT_EQ(complaints[0].rfind("not a report", 0), 0u) << complaints[0];
  }
}

}  // namespace
}  // namespace tessera::conformance
