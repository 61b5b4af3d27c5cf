// Candidates of a space: drawing, changing, counting, and their text.
#include "tessera/scheduling/decide/space.h"

#include <set>

#include <gtest/gtest.h>

#include "tessera/scheduling/decide/walk.h"

namespace tessera::decide {
namespace {

Point numbers(std::string name, const std::vector<std::int64_t>& values) {
  Point d{.name = std::move(name), .kind = PointKind::kTile, .values = {}, .labels = {}};
  for (const std::int64_t v : values) d.values.push_back({v});
  return d;
}

// Legal where a * b is at most 6; c has no effect unless a is 3.
class SmallSketch final : public Sketch {
 public:
  explicit SmallSketch(std::string name) {
    name_ = std::move(name);
    points_ = {numbers("x.a", {1, 2, 3}), numbers("x.b", {1, 2, 3, 4})};
    points_.push_back({.name = "x.c",
                       .kind = PointKind::kOrder,
                       .values = {{0}, {1}},
                       .labels = {"in", "out"},
                       .preferred = 1});
  }

  void walk(Asker& asker) const override {
    const std::int32_t a = asker.ask(0, [](std::int32_t) -> const char* { return nullptr; });
    asker.ask(1, [&](std::int32_t b) { return (a + 1) * (b + 1) > 6 ? "too large" : nullptr; });
    if (a == 2) asker.ask(2, [](std::int32_t) -> const char* { return nullptr; });
  }
};

Space small_space() {
  std::vector<std::unique_ptr<Sketch>> sketches;
  sketches.push_back(std::make_unique<SmallSketch>("one"));
  sketches.push_back(std::make_unique<SmallSketch>("two"));
  return Space(std::move(sketches));
}

std::vector<Candidate> all_of(const Space& space) {
  std::vector<Candidate> out;
  Enumeration all(space);
  while (auto c = all.next()) out.push_back(*std::move(c));
  EXPECT_FALSE(all.next().has_value()) << "it has ended";
  return out;
}

TEST(Space, EnumeratesEveryCandidateOnce) {
  const Space space = small_space();
  ASSERT_EQ(space.size(), 48);
  std::set<std::string> seen;
  for (const Candidate& c : all_of(space)) {
    EXPECT_TRUE(seen.insert(space.to_text(c)).second);
    EXPECT_TRUE(space.check(c).ok());
  }
  // Nine legal pairs; two of them have both values of c.
  EXPECT_EQ(seen.size(), 2u * (9 + 2));
  EXPECT_EQ(space.count_legal(48), 2 * (9 + 2));
  EXPECT_EQ(space.count_legal(47), std::nullopt);
}

TEST(Space, WalksListWhatIsLegalNext) {
  const Space space = small_space();
  Walk walk(*space.sketches()[0]);
  using Values = std::vector<std::int32_t>;
  EXPECT_EQ(walk.point().name, "x.a");
  EXPECT_EQ(walk.legal(), (Values{0, 1, 2}));
  walk.take(1);
  Walk branch = walk;
  EXPECT_EQ(walk.point().name, "x.b");
  EXPECT_EQ(walk.legal(), (Values{0, 1, 2}));
  walk.take(2);
  EXPECT_TRUE(walk.done()) << "c has no effect";
  EXPECT_EQ(walk.choice(), (Values{1, 2, 1}));
  EXPECT_FALSE(branch.done());
  branch = Walk(*space.sketches()[0]);
  branch.take(2);
  EXPECT_EQ(branch.legal(), (Values{0, 1}));
  branch.take(0);
  EXPECT_EQ(branch.point().name, "x.c");
  branch.take(0);
  EXPECT_EQ(branch.choice(), (Values{2, 0, 0}));
}

TEST(Space, ARefusalNamesTheDecisionAndTheReason) {
  const Space space = small_space();
  const auto checked = space.check(*space.parse("one: x.a=3 x.b=4 x.c=out"));
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().code, ErrorCode::kIllegalSchedule);
  EXPECT_EQ(checked.error().message, "x.b=4: too large");
}

TEST(Space, TextReadsBack) {
  const Space space = small_space();
  for (const Candidate& c : all_of(space)) {
    const Result<Candidate> back = space.parse(space.to_text(c));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(*back, c);
  }
  EXPECT_EQ(space.to_text(all_of(space).back()), "two: x.a=3 x.b=2 x.c=out");
  EXPECT_EQ(space.to_text(*space.parse(" two:  x.c=out x.b=3\tx.a=2 ")),
            "two: x.a=2 x.b=3 x.c=out");
}

TEST(Space, TextThatIsNoCandidateIsRefused) {
  const Space space = small_space();
  const auto message = [&](const char* text) { return space.parse(text).error().message; };
  EXPECT_EQ(message("three: x.a=1"), "no sketch three; there are one two");
  EXPECT_EQ(message("one: x.d=1"), "sketch one has no decision x.d; it has x.a x.b x.c");
  EXPECT_EQ(message("one: x.a=9"), "x.a has no value 9; it has 1 2 3");
  EXPECT_EQ(message("one: x.a"), "'x.a' is not decision=value");
  EXPECT_EQ(message("one: x.b=1"), "a candidate of one without x.a x.c");
  EXPECT_EQ(message(""), "a candidate begins with 'sketch:'");
}

TEST(Space, SettledCandidatesAreLegalAndHaveNoValueWithoutEffect) {
  const Space space = small_space();
  const Candidate illegal{.sketch = 0, .choice = {2, 3, 0}}, idle{.sketch = 1, .choice = {1, 1, 0}},
      effective{.sketch = 1, .choice = {2, 1, 0}};
  EXPECT_EQ(space.settled(illegal), std::nullopt);
  EXPECT_EQ(space.settled(idle), (Candidate{.sketch = 1, .choice = {1, 1, 1}}));
  EXPECT_EQ(space.settled(effective), effective);
}

TEST(FreeSketch, AnyValueGoesWithAnyOther) {
  std::vector<std::unique_ptr<Sketch>> sketches;
  sketches.push_back(std::make_unique<FreeSketch>(
      "free", std::vector<Point>{numbers("a", {1, 2}), numbers("b", {1, 2, 3})}));
  EXPECT_EQ(Space(std::move(sketches)).count_legal(100), 6);
}

TEST(Space, DrawsAreLegalSettledAndDeterministic) {
  const Space space = small_space();
  Rng rng(3), same(3);
  std::set<std::string> seen;
  for (int i = 0; i < 400; ++i) {
    const Candidate c = space.sample(rng);
    EXPECT_EQ(c, space.sample(same));
    EXPECT_TRUE(space.check(c).ok());
    EXPECT_TRUE(c.choice[0] == 2 || c.choice[2] == 1);
    seen.insert(space.to_text(c));
  }
  // Nine legal pairs; two of them have both values of c.
  EXPECT_EQ(seen.size(), 2 * (9 + 2));
}

TEST(Space, MutationsReachEverythingWithinTheSketch) {
  const Space space = small_space();
  Rng rng(3);
  Candidate c = space.preferred();
  std::set<std::string> seen;
  for (int i = 0; i < 600; ++i) {
    const auto next = space.mutate(c, rng);
    ASSERT_TRUE(next.has_value());
    EXPECT_NE(*next, c);
    EXPECT_EQ(next->sketch, c.sketch);
    EXPECT_TRUE(space.check(*next).ok());
    c = *next;
    seen.insert(space.to_text(c));
  }
  EXPECT_EQ(seen.size(), 11u);
}

TEST(Space, CrossingTakesEachDecisionFromAParent) {
  const Space space = small_space();
  const Candidate a = *space.parse("one: x.a=1 x.b=4 x.c=out"),
                  b = *space.parse("one: x.a=3 x.b=1 x.c=out");
  Rng rng(3);
  std::set<std::string> seen;
  for (int i = 0; i < 60; ++i) {
    const auto c = space.cross(a, b, rng);
    ASSERT_TRUE(c.has_value());
    EXPECT_TRUE(space.check(*c).ok());
    for (std::size_t d = 0; d < c->choice.size(); ++d)
      EXPECT_TRUE(c->choice[d] == a.choice[d] || c->choice[d] == b.choice[d]);
    seen.insert(space.to_text(*c));
  }
  EXPECT_EQ(seen.size(), 3u);  // 3 x 4 is too large
  EXPECT_EQ(space.cross(a, *space.parse("two: x.a=1 x.b=1 x.c=out"), rng), std::nullopt);
}

TEST(Space, VectorsHaveOneLengthAndTellCandidatesApart) {
  const Space space = small_space();
  std::set<std::vector<float>> seen;
  for (const Candidate& c : all_of(space)) seen.insert(space.vector_of(c));
  EXPECT_EQ(seen.size(), 22u);
  // Two sketches that share the columns of two numbers and two words.
  for (const auto& v : seen) EXPECT_EQ(v.size(), 2u + 2u + 2u);
}

TEST(Space, HashesDiffer) {
  const Space space = small_space();
  std::set<std::uint64_t> seen;
  for (const Candidate& c : all_of(space)) seen.insert(hash_of(c));
  EXPECT_EQ(seen.size(), 22u);
}

// Points of models are named in several words.
class WordySketch final : public Sketch {
 public:
  WordySketch() {
    name_ = "plan";
    points_ = {numbers("layout of a", {1, 2}), numbers("b=c d", {3, 4})};
  }
  void walk(Asker& asker) const override {
    for (std::size_t p : {0u, 1u}) asker.ask(p, [](std::int32_t) { return nullptr; });
  }
  const char* value_before(const Point& point) const override {
    return point.name == "b=c d" ? "4" : nullptr;
  }
};

TEST(Space, NamesOfSeveralWordsAreQuoted) {
  std::vector<std::unique_ptr<Sketch>> sketches;
  sketches.push_back(std::make_unique<WordySketch>());
  const Space space(std::move(sketches));
  EXPECT_EQ(space.to_text(space.preferred()), "plan: \"layout of a\"=1 \"b=c d\"=3");
  for (const Candidate& c : all_of(space)) EXPECT_EQ(space.parse(space.to_text(c)).value(), c);
  const auto message = [&](const char* text) { return space.parse(text).error().message; };
  EXPECT_EQ(message("plan: \"layout of b\"=1"),
            "sketch plan has no decision \"layout of b\"; it has \"layout of a\" \"b=c d\"");
  EXPECT_EQ(message("plan: \"layout of a=1"),
            "sketch plan has no decision \"layout of a; it has \"layout of a\" \"b=c d\"");
}

TEST(Space, PointsThatCameLaterHaveTheValueThatTheyHadBefore) {
  std::vector<std::unique_ptr<Sketch>> sketches;
  sketches.push_back(std::make_unique<WordySketch>());
  const Space space(std::move(sketches));
  EXPECT_EQ(space.to_text(space.parse("plan: \"layout of a\"=2").value()),
            "plan: \"layout of a\"=2 \"b=c d\"=4");
}

}  // namespace
}  // namespace tessera::decide
