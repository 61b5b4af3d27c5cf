// Every row of a table that users may name is in the reference that lists it.
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/plan/point.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/search/policy.h"
#include "tessera/trials/measure/measurement.h"

namespace tessera {
namespace {

std::string page(const std::string& name) {
  std::ifstream in(std::string(TESSERA_ROOT) + "/docs/reference/" + name, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Reference, ListsEveryPolicy) {
  const std::string text = page("search.md");
  for (const search::PolicyEntry& p : search::policy_table()) {
    const std::string row = std::string("| `") + p.name + "` | " + (p.uses_model ? "yes" : "no");
    EXPECT_TRUE(has(text, row)) << row;
  }
}

TEST(Reference, ListsEveryKindOfDecisionWithItsValues) {
  const std::string text = page("search.md");
  for (const plan::PointKind kind : plan::kPlanKinds) {
    const plan::KindInfo& info = plan::info(kind);
    const std::size_t at = text.find(std::string("| `") + info.family + "` |");
    ASSERT_NE(at, std::string::npos) << info.family;
    const std::string row = text.substr(at, text.find('\n', at) - at);
    for (const std::string& value : info.values) EXPECT_TRUE(has(row, value)) << row << value;
  }
}

TEST(Reference, ListsEveryOutcome) {
  const std::string text = page("search.md");
  for (int o = 0; o <= static_cast<int>(measure::Outcome::kCompilerBug); ++o) {
    const char* name = measure::to_text(static_cast<measure::Outcome>(o));
    EXPECT_TRUE(has(text, std::string("`") + name + "`")) << name;
  }
}

TEST(Reference, CountsTheColumnsOfFeatures) {
  const std::string text = page("search.md");
  for (const auto kind : {feature::FeatureKind::kStatement, feature::FeatureKind::kLoop,
                          feature::FeatureKind::kLaunch, feature::FeatureKind::kCurve}) {
    const std::regex row(std::string("\\| `") + feature::to_text(kind) + "` \\| [a-z ]+ \\| " +
                         std::to_string(feature::feature_names(kind).size()) + " \\|");
    EXPECT_TRUE(std::regex_search(text, row)) << feature::to_text(kind);
  }
}

TEST(Reference, ListsEveryPassAndOperatorOfTheGraph) {
  const std::string text = page("graph.md");
  for (const std::string& pass : graph::pass_names()) {
    EXPECT_TRUE(has(text, "| " + pass + " |")) << pass;
  }
  for (const graph::OpDef& op : graph::op_table()) {
    EXPECT_TRUE(std::regex_search(text, std::regex("[|,; ]" + std::string(op.name) + "[,; ]")))
        << op.name;
  }
}

}  // namespace
}  // namespace tessera
