#include "tessera/frontend/plan/plan.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/record/temp_folder.h"

namespace tessera::plan {
namespace {

Plan sample_plan() {
  Plan plan;
  plan.model = "zoo:mlp";
  plan.target = "neoverse-v1";
  plan.threads = 2;
  plan.decisions = {{"conv b", "winograd4"}, {"conv a", "direct"}};
  plan.tasks["bb"] = {.name = "dense", .schedule = "split C i 4\nvectorize C i.1\n"};
  plan.tasks["aa"] = {
      .name = "conv+relu", .schedule = "", .candidate = "reasoned: C.rows=8", .seconds = 1.0 / 3};
  return plan;
}

TEST(Plan, JsonIsStableAndSorted) {
  EXPECT_EQ(to_json(sample_plan()), R"({
 "decisions": {
  "conv a": "direct",
  "conv b": "winograd4"
 },
 "format": "tessera plan",
 "model": "zoo:mlp",
 "target": "neoverse-v1",
 "tasks": {
  "aa": {
   "candidate": "reasoned: C.rows=8",
   "name": "conv+relu",
   "schedule": [],
   "seconds": 0.3333333333333333
  },
  "bb": {
   "candidate": "",
   "name": "dense",
   "schedule": [
    "split C i 4",
    "vectorize C i.1"
   ],
   "seconds": 0.0
  }
 },
 "threads": 2,
 "version": 2
}
)");
}

TEST(Plan, RoundTripGivesTheSameBytes) {
  const std::string text = to_json(sample_plan());
  const Result<Plan> plan = plan_from_json(text);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(to_json(*plan), text);
  EXPECT_EQ(plan->find("bb")->schedule, "split C i 4\nvectorize C i.1\n");
  EXPECT_EQ(plan->find("aa")->seconds, 1.0 / 3);
  EXPECT_EQ(plan->find("cc"), nullptr);
  EXPECT_EQ(plan->decisions.at("conv b"), "winograd4");
}

TEST(Plan, ReadsTheAlgorithmsOfVersionOne) {
  std::string text = to_json(sample_plan());
  text.replace(text.find("\"decisions\""), 11, "\"algorithms\"");
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 1");
  const Result<Plan> plan = plan_from_json(text);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->decisions, sample_plan().decisions);
  EXPECT_EQ(to_json(*plan), to_json(sample_plan()));
}

class PlanFile : public record::TempFolder {};

TEST_F(PlanFile, SavesAndLoads) {
  ASSERT_TRUE(save_plan(sample_plan(), path("p.json")).ok());
  const Result<Plan> plan = load_plan(path("p.json"));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(to_json(*plan), to_json(sample_plan()));
  EXPECT_EQ(load_plan(path("absent")).error().code, ErrorCode::kIo);
}

TEST_F(PlanFile, ErrorsNameTheFile) {
  std::ofstream(path("p.json")) << "{";
  const Result<Plan> plan = load_plan(path("p.json"));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().message, path("p.json") + ": not a plan: the text is not JSON");
}

TEST(Plan, MalformedTextsAreRefusedWithTheReason) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = to_json(sample_plan());
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not JSON"},
      {"[]", "not a JSON object"},
      {"{}", "has no \"format\""},
      {with("tessera plan", "recipe"), "its format is 'recipe'"},
      {with("\"version\": 2", "\"version\": 3"), "version 3"},
      {with("\"version\": 2", "\"version\": \"1\""), "\"version\" of the file is \"1\""},
      {with("\"threads\": 2", "\"threads\": 2.5"), "\"threads\" of the file is 2.5"},
      {with("\"direct\"", "7"), "decision 'conv a' is 7"},
      {with("\"aa\": {", "\"zz\": 1, \"aa\": {"), "task zz is not an object"},
      {with("\"schedule\": []", "\"schedule\": \"x\""), "task aa has no list of steps"},
      {with("\"split C i 4\"", "4"), "task bb has a step that is not text"},
      {with("\"name\": \"dense\",", ""), "task bb has no \"name\""},
      {with("\"tasks\"", "\"Tasks\""), "\"tasks\" is not an object"},
  };
  for (const auto& [text, reason] : cases) {
    const Result<Plan> plan = plan_from_json(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_NE(plan.error().message.find(reason), std::string::npos)
        << plan.error().message << " does not say: " << reason;
  }
}

}  // namespace
}  // namespace tessera::plan
