// Walks: whatever listed values are taken, what comes out is legal, and everything legal is
// reached.
#include "tessera/scheduling/decide/walk.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/space/space.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

// Of every family, at sizes where the limits matter.
const char* const kSpecs[] = {
    "matmul:M=1024,N=1024,K=1024",
    "matmul:M=77,N=311,K=1000,TB=1",
    "matmul:M=64,N=64,K=512,dtype=i8",
    "dense:M=128,N=768,K=3072",
    "dense:M=1,N=1000,K=2048",
    "bmm:B=12,M=128,N=64,K=128",
    "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1",
    "conv2d:N=1,H=7,W=7,CI=512,CO=512,KH=3,KW=3,P=1",
    "conv2d:N=1,H=224,W=224,CI=3,CO=64,KH=7,KW=7,S=2,P=3",
    "conv2d:N=1,H=14,W=14,CI=64,CO=60,KH=1,KW=1",
    "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1,algo=winograd4",
    "conv2d:N=1,H=28,W=28,CI=32,CO=32,KH=3,KW=3,P=1,layout=nchw",
    "depthwise:N=1,H=56,W=56,C=144,KH=3,KW=3,P=1",
    "depthwise:N=1,H=7,W=7,C=577,KH=5,KW=5,P=2",
    "maxpool2d:N=1,H=112,W=112,C=64,KH=3,KW=3,S=2,P=1",
    "softmax:R=1536,C=128",
    "layernorm:R=128,C=768",
    "reduce:R=1,C=100000,op=sum",
    "reduce:R=512,C=1000,axis=0",
    "eltwise:N=100000,fn=mul+add+relu",
};
constexpr const char* kMachines[] = {"neoverse-v1", "haswell", "sapphirerapids"};
constexpr int kWalks = 1000;  // a spec and machine: 100,000 and more in all, with those of samples
constexpr int kSamples = 1000;
constexpr int kLowered = 2;

Candidate random_walk(const Space& space, std::int32_t sketch, Rng& rng) {
  decide::Walk walk(*space.sketches()[static_cast<std::size_t>(sketch)]);
  while (!walk.done()) {
    const auto& legal = walk.legal();
    walk.take(legal[static_cast<std::size_t>(rng.below(std::ssize(legal)))]);
  }
  return {.sketch = sketch, .choice = walk.choice()};
}

// Takes the values of a candidate; false if one of them is not listed.
bool reaches(const Space& space, const Candidate& c) {
  decide::Walk walk(*space.sketches()[static_cast<std::size_t>(c.sketch)]);
  while (!walk.done()) {
    const std::int32_t wanted = c.choice[walk.next()];
    if (std::find(walk.legal().begin(), walk.legal().end(), wanted) == walk.legal().end())
      return false;
    walk.take(wanted);
  }
  return walk.choice() == c.choice;
}

class Walks : public ::testing::TestWithParam<const char*> {};

TEST_P(Walks, EndInLegalCandidatesAndReachEverySample) {
  for (const char* machine : kMachines) {
    SCOPED_TRACE(machine);
    const target::Target target = target::code_target(target::find_target(machine).value(), 16);
    const te::Dag dag = dag_of(GetParam());
    const Space space = make_space(dag, target).value();
    const auto sketches = static_cast<std::int32_t>(space.sketches().size());
    Rng rng(7);
    for (int i = 0; i < kWalks; ++i) {
      const Candidate c = random_walk(space, i % sketches, rng);
      const auto checked = space.check(c);
      ASSERT_TRUE(checked.ok()) << space.to_text(c) << ": " << checked.error().message;
      Candidate settled = c;
      space.sketches()[static_cast<std::size_t>(c.sketch)]->settle(settled.choice);
      ASSERT_EQ(settled, c) << "nothing is asked for that has no effect";
      if (i / sketches >= kLowered) continue;
      const auto lowered = lower::lower(dag, space.schedule(c).value(), target);
      ASSERT_TRUE(lowered.ok()) << space.to_text(c) << ": " << lowered.error().message;
    }
    Candidate parent = space.preferred();
    for (int i = 0; i < kSamples; ++i) {
      const Candidate c = space.sample(rng);
      ASSERT_TRUE(reaches(space, c)) << space.to_text(c);
      const auto child = space.mutate(i % 8 == 0 ? c : parent, rng);
      if (!child) continue;
      ASSERT_TRUE(reaches(space, *child)) << space.to_text(*child);
      parent = *child;
    }
    ASSERT_TRUE(reaches(space, space.preferred()));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Walks, ::testing::ValuesIn(kSpecs), [](const auto& test) {
  std::string name = std::to_string(test.index) + "_" + test.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

// A value is listed exactly if a legal candidate has it: nothing ends in a dead end, and what is
// not listed is in no candidate that a check of whole candidates accepts.
TEST(Walk, ListsExactlyWhatHasACompletion) {
  const target::Target target = target::code_target(target::find_target("haswell").value(), 2);
  const Space space =
      make_space(dag_of("matmul:M=96,N=60,K=64"), target, {.sources = {"templates"}}).value();
  std::set<std::vector<std::int32_t>> walked;
  decide::Enumeration all(space);
  while (auto c = all.next()) EXPECT_TRUE(walked.insert(c->choice).second);
  ASSERT_GT(walked.size(), 100u);
  // Every point there is, legal or not.
  const std::vector<Point>& decisions = space.sketches()[0]->points();
  std::set<std::vector<std::int32_t>> legal;
  std::vector<std::int32_t> choice(decisions.size(), 0);
  for (bool more = true; more;) {
    if (space.sketches()[0]->check(choice).ok()) {
      std::vector<std::int32_t> settled = choice;
      space.sketches()[0]->settle(settled);
      legal.insert(settled);
    }
    std::size_t d = 0;
    while (d < choice.size() &&
           ++choice[d] == static_cast<std::int32_t>(decisions[d].values.size()))
      choice[d++] = 0;
    more = d < choice.size();
  }
  EXPECT_EQ(walked, legal);
}

}  // namespace
}  // namespace tessera::space
