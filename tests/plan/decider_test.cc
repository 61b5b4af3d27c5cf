#include "tessera/frontend/plan/decider.h"

#include <gtest/gtest.h>

namespace tessera::plan {
namespace {

Point layout(const std::string& key) { return make_point(PointKind::kLayout, key, kLast); }

TEST(Decider, TakesWhatIsPreferredWithoutDecisions) {
  Decider decider;
  EXPECT_EQ(decider.decide(layout("layout a")).value(), 0);
  EXPECT_EQ(decider.decide(make_point(PointKind::kFusion, "fuse a", kStored)).value(), 1);
  ASSERT_EQ(decider.decided().size(), 2u);
  EXPECT_EQ(decider.decided()[1].text(), "stored");
  EXPECT_EQ(to_text(decider.decisions()), "fuse a = stored\nlayout a = last\n");
}

TEST(Decider, AKeyComesBeforeItsFamily) {
  Decider decider(Decisions{{"layouts", kFirst}, {"layout a", kLast}});
  EXPECT_EQ(decider.decide(layout("layout a")).value(), 0);
  EXPECT_EQ(decider.decide(layout("layout b")).value(), 1);
}

TEST(Decider, APointWithoutTheValueOfItsFamilyIsLeftToTheRule) {
  Decider decider(Decisions{{"layouts", kFirst}});
  Point one = layout("layout a");
  one = with_values(one, [](const std::string& value) { return value == kLast; });
  EXPECT_EQ(decider.decide(one).value(), 0);
}

TEST(Decider, EqualKeysAreDecidedOnce) {
  std::int32_t asked = 0;
  Decider decider({}, [&](const Point&) { return asked++ % 2; });
  EXPECT_EQ(decider.decide(layout("layout a")).value(), 0);
  EXPECT_EQ(decider.decide(layout("layout b")).value(), 1);
  EXPECT_EQ(decider.decide(layout("layout a")).value(), 0);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(decider.decided()[0].count, 2);
}

TEST(Decider, ReplaysWhatAnotherDecided) {
  Decider drawn({}, [](const Point& p) { return static_cast<std::int32_t>(p.labels.size()) - 1; });
  for (const char* key : {"layout a", "layout b"}) (void)drawn.decide(layout(key)).value();
  Decider again(drawn.decisions());
  EXPECT_EQ(again.decide(layout("layout b")).value(), 1);
}

TEST(Decider, AnErrorOfTheRuleEndsIt) {
  Decider decider({}, [](const Point& p) -> Result<std::int32_t> {
    return make_error(ErrorCode::kInvalidArgument, "{} is not wanted", p.name);
  });
  EXPECT_EQ(decider.decide(layout("layout a")).error().message, "layout a is not wanted");
  EXPECT_TRUE(decider.decided().empty());
}

TEST(Decider, RefusesValuesThatDoNotExist) {
  for (const char* key : {"layout a", "layouts"}) {
    Decider decider(Decisions{{key, "sideways"}});
    const Result<std::int32_t> value = decider.decide(layout("layout a"));
    ASSERT_FALSE(value.ok());
    EXPECT_EQ(value.error().message,
              std::string(key) + ": cannot be 'sideways'; it can be: last first");
    EXPECT_TRUE(decider.decided().empty());
  }
}

}  // namespace
}  // namespace tessera::plan
