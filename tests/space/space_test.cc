// Candidates of a space: drawing, changing, counting, and their text.
#include "tessera/scheduling/space/space.h"

#include <set>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/scheduling/space/kind.h"
#include "tessera/scheduling/space/walk.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

TEST(CandidateKind, NamesMachineThreadsElementsAndSketch) {
  const target::Target haswell = target::find_target("haswell").value();
  const auto kind = [&](const char* op, int threads) {
    const te::Dag dag = te::make_dag(te::parse_op_spec(op).value()).value();
    const Space space = make_space(dag, haswell).value();
    return candidate_kind(dag, haswell, threads, space.to_text(space.preferred()));
  };
  EXPECT_EQ(kind("matmul:M=8,N=8,K=8", 1), "x86_64:16x32:fma 1 f32 C reasoned");
  EXPECT_EQ(kind("softmax:R=8,C=8", 4), "x86_64:16x32:fma 4 f32 mx reasoned");
}

Decision numbers(std::string name, const std::vector<std::int64_t>& values) {
  Decision d{.name = std::move(name), .kind = DecisionKind::kTile, .values = {}, .labels = {}};
  for (const std::int64_t v : values) d.values.push_back({v});
  return d;
}

// Legal where a * b is at most 6; c has no effect unless a is 3.
class SmallSketch final : public Sketch {
 public:
  explicit SmallSketch(std::string name) {
    name_ = std::move(name);
    decisions_ = {numbers("x.a", {1, 2, 3}), numbers("x.b", {1, 2, 3, 4})};
    decisions_.push_back({.name = "x.c",
                          .kind = DecisionKind::kOrder,
                          .values = {{0}, {1}},
                          .labels = {"in", "out"},
                          .preferred = 1});
  }

  void walk(Asker& asker) const override {
    const std::int32_t a = asker.ask(0, [](std::int32_t) -> const char* { return nullptr; });
    asker.ask(1, [&](std::int32_t b) { return (a + 1) * (b + 1) > 6 ? "too large" : nullptr; });
    if (a == 2) asker.ask(2, [](std::int32_t) -> const char* { return nullptr; });
  }
  Result<schedule::Schedule> write(Choice) const override { return schedule::Schedule{}; }
};

Space small_space() {
  std::vector<std::unique_ptr<Sketch>> sketches;
  sketches.push_back(std::make_unique<SmallSketch>("one"));
  sketches.push_back(std::make_unique<SmallSketch>("two"));
  return Space(dag_of("matmul:M=4,N=4,K=4"), target::host(), std::move(sketches));
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
  EXPECT_EQ(walk.decision().name, "x.a");
  EXPECT_EQ(walk.legal(), (Values{0, 1, 2}));
  walk.take(1);
  Walk branch = walk;
  EXPECT_EQ(walk.decision().name, "x.b");
  EXPECT_EQ(walk.legal(), (Values{0, 1, 2}));
  walk.take(2);
  EXPECT_TRUE(walk.done()) << "c has no effect";
  EXPECT_EQ(walk.choice(), (Values{1, 2, 1}));
  EXPECT_FALSE(branch.done());
  branch = Walk(*space.sketches()[0]);
  branch.take(2);
  EXPECT_EQ(branch.legal(), (Values{0, 1}));
  branch.take(0);
  EXPECT_EQ(branch.decision().name, "x.c");
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

TEST(Space, PreferredIsTheDefaultSchedule) {
  for (const char* spec :
       {"matmul:M=100,N=60,K=300", "conv2d:N=1,H=14,W=14,CI=64,CO=64,KH=3,KW=3,P=1",
        "conv2d:N=1,H=14,W=14,CI=64,CO=64,KH=3,KW=3,P=1,algo=winograd4",
        "depthwise:N=1,H=28,W=28,C=96,KH=3,KW=3,P=1", "softmax:R=64,C=128", "reduce:R=1,C=1"}) {
    const te::Dag dag = dag_of(spec);
    const Space space = make_space(dag, target::host()).value();
    const auto schedule = space.schedule(space.preferred());
    ASSERT_TRUE(schedule.ok()) << spec << ": " << schedule.error().message;
    EXPECT_EQ(schedule::to_text(*schedule), schedule_text(dag)) << spec;
  }
}

TEST(Space, SourcesAreChosenByName) {
  const te::Dag dag = dag_of("matmul:M=64,N=64,K=64");
  const Space space = make_space(dag, target::host(), {.sources = {"reasoned"}}).value();
  for (const auto& sketch : space.sketches()) EXPECT_TRUE(sketch->name().starts_with("reasoned"));
  EXPECT_FALSE(make_space(dag, target::host(), {.sources = {"oracle"}}).ok());
}

}  // namespace
}  // namespace tessera::space
