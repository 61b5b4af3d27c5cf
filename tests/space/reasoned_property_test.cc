// What reasoning leaves open: whatever is picked, the schedule is legal and computes the same.
#include <cmath>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

#include "tessera/scheduling/space/reasoned.h"
#include "tests/fuzz/check_case.h"
#include "tests/space/sketch_case.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

const char* const kSpecs[] = {
#include "tests/bench/specs.inc"
#include "tests/space/specs.inc"
};

Sketches sketches_of(const te::Dag& dag, const target::Target& target) {
  auto sketches = reasoned_sketches(dag, target);
  EXPECT_TRUE(sketches.ok()) << sketches.error().message;
  return sketches.ok() ? std::move(sketches).value() : Sketches{};
}

TEST(Reasoned, EveryOperationIsCorrectUnderAnyChoice) {
  const std::vector<std::string> machines = {"host", "haswell", "skylake-avx512", "neoverse-v1"};
  for (std::size_t i = 0; i < std::size(kSpecs); ++i) {
    SCOPED_TRACE(kSpecs[i]);
    target::Target target = target::find_target(machines[i % machines.size()]).value();
    target.cores = 4;
    const te::Dag dag = dag_of(kSpecs[i]);
    const bool winograd = std::string(kSpecs[i]).find("winograd") != std::string::npos;
    expect_sketches_correct(dag, sketches_of(dag, target), 1, winograd ? 512 : 4);
  }
}

// Sizes at which every choice is open: blocks, parts, panels, threads.
TEST(Reasoned, OperationsOfNetworksLowerUnderAnyChoice) {
  target::Target target = target::find_target("neoverse-v1").value();
  target.cores = 2;
  for (const char* spec : {"matmul:M=1024,N=1024,K=1024",
                           "matmul:M=77,N=311,K=1000,TB=1",
                           "dense:M=128,N=768,K=3072",
                           "dense:M=1,N=1000,K=2048",
                           "bmm:B=12,M=128,N=64,K=128",
                           "matmul:M=64,N=64,K=512,dtype=i8",
                           "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1",
                           "conv2d:N=1,H=14,W=14,CI=256,CO=512,KH=1,KW=1,S=2",
                           "conv2d:N=1,H=7,W=7,CI=512,CO=512,KH=3,KW=3,P=1",
                           "conv2d:N=1,H=224,W=224,CI=3,CO=64,KH=7,KW=7,S=2,P=3",
                           "conv2d:N=1,H=56,W=56,CI=128,CO=128,KH=3,KW=3,P=1,G=32",
                           "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1,algo=winograd4",
                           "conv2d:N=1,H=28,W=28,CI=64,CO=64,KH=3,KW=3,P=1,layout=nchw",
                           "conv3d:N=1,ID=8,H=14,W=14,CI=64,CO=64,KD=3,KH=3,KW=3,P=1",
                           "depthwise:N=1,H=56,W=56,C=144,KH=3,KW=3,P=1",
                           "depthwise:N=1,H=7,W=7,C=576,KH=5,KW=5,P=2",
                           "maxpool2d:N=1,H=112,W=112,C=64,KH=3,KW=3,S=2,P=1",
                           "softmax:R=1536,C=128",
                           "layernorm:R=128,C=768",
                           "reduce:R=512,C=1000,axis=0",
                           "eltwise:N=100000,fn=mul+add+relu"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    expect_sketches_lower(dag, target, sketches_of(dag, target), 12);
  }
}

TEST(Reasoned, RandomExpressionsAreCorrectUnderAnyChoice) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const fuzz::RandomDag dag = fuzz::random_dag(rng);
    target::Target target = target::host();
    target.cores = static_cast<int>(rng.between(1, 64));
    for (const auto& sketch : sketches_of(dag.dag, target)) {
      for (int i = 0; i < 2; ++i) {
        const auto choice = legal_choice(*sketch, rng);
        const auto schedule = sketch->write(choice);
        ASSERT_TRUE(schedule.ok()) << seed << ": " << schedule.error().message;
        EXPECT_EQ(fuzz::check_case(dag, *schedule, {.compile = seed % 20 == 0}), "")
            << "seed " << seed << "\n"
            << te::to_text(dag.dag) << schedule::to_text(*schedule);
      }
    }
  }
}

// A choice that is refused says why; a fifth of random choices at least are not refused.
TEST(Reasoned, MostChoicesAreLegal) {
  const te::Dag dag = dag_of("matmul:M=1024,N=1024,K=1024");
  const Sketches sketches = sketches_of(dag, target::find_target("neoverse-v1").value());
  ASSERT_FALSE(sketches.empty());
  Rng rng(1);
  int legal = 0;
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::int32_t> choice;
    for (const Point& d : sketches[0]->points()) {
      choice.push_back(
          static_cast<std::int32_t>(rng.below(static_cast<std::int64_t>(d.values.size()))));
    }
    const auto checked = sketches[0]->check(choice);
    legal += checked.ok() ? 1 : 0;
    if (!checked.ok()) {
      EXPECT_EQ(checked.error().code, ErrorCode::kIllegalSchedule);
      EXPECT_FALSE(checked.error().message.empty());
    }
  }
  EXPECT_GT(legal, 200);
}

// The structure of the hand-written schedule: both operands packed, rows shared out within a block
// of k, 86 tiles of columns.
TEST(Reasoned, TheHandWrittenProductIsAPoint) {
  const te::Dag dag = dag_of("matmul:M=1024,N=1024,K=1024");
  target::Target target = target::find_target("neoverse-v1").value();
  target.cores = 2;
  const Space space = make_space(dag, target, {.sources = {"reasoned"}}).value();
  // What reasoning alone takes, but for these decisions.
  std::string words = space.to_text(space.preferred()) + " ";
  for (const std::string decision :
       {"C.pack_a=yes", "C.pack_b=yes", "C.rows=8", "C.vectors=3", "C.k_block=256", "C.unroll=1",
        "C.part_columns=86", "C.part_rows=128", "C.tile_order=rows", "C.share_tiles=yes"}) {
    const std::size_t at = words.find(" " + decision.substr(0, decision.find('=') + 1));
    ASSERT_NE(at, std::string::npos) << decision << " in " << words;
    words.replace(at + 1, words.find(' ', at + 1) - at - 1, decision);
  }
  const auto candidate = space.parse(words);
  ASSERT_TRUE(candidate.ok()) << candidate.error().message;
  const auto schedule = space.schedule(*candidate);
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  const std::string text = schedule::to_text(*schedule);
  for (const char* step :
       {"split C j 86 12 tail=peel\n", "split C i 8 tail=peel\n", "split C k 256\n",
        "reorder C j.0 k.0 i.0 j.1 k.1 i.1 j.2\n", "annotate C i.0 parallel\n",
        "layout A.local d1/256 d0/8 d1%256 d0%8\n", "layout B.local d0/256 d1/12 d0%256 d1%12\n"}) {
    EXPECT_NE(text.find(step), std::string::npos) << step << "in\n" << text;
  }
}

// Records of before there was the decision.
TEST(Reasoned, ReadsCandidatesThatSayNothingOfTheNextPanel) {
  const te::Dag dag = dag_of("conv2d:N=1,H=14,W=14,CI=256,CO=1024,KH=1,KW=1");
  const target::Target target =
      target::code_target(target::find_target("skylake-avx512").value(), 1);
  const Space space = make_space(dag, target, {.sources = {"reasoned"}}).value();
  Rng rng(1);
  int without = 0;
  for (int i = 0; i < 200; ++i) {
    const Candidate candidate = space.sample(rng);
    const std::string text = space.to_text(candidate) + " ";
    const std::size_t at = text.find(".prefetch_next=");
    ASSERT_NE(at, std::string::npos) << text;
    const std::size_t begin = text.rfind(' ', at), end = text.find(' ', at);
    const Result<Candidate> back = space.parse(text.substr(0, begin) + text.substr(end));
    ASSERT_TRUE(back.ok()) << back.error().message;
    const std::string steps = schedule::to_text(space.schedule(*back).value());
    std::istringstream lines(steps);
    for (std::string line; std::getline(lines, line);)
      EXPECT_FALSE(line.starts_with("prefetch ") && line.ends_with(" 0")) << steps;
    const bool same = schedule::to_text(space.schedule(candidate).value()) == steps;
    EXPECT_EQ(same, *back == candidate) << text;
    without += same ? 1 : 0;
  }
  EXPECT_GT(without, 0);
  EXPECT_LT(without, 200);
}

// Candidates that were written before there was a decision are read as those that decide against
// it.
void expect_read_without(const te::Dag& dag, const std::string& decision) {
  const Space space = make_space(dag, target::find_target("h200").value()).value();
  Rng rng(1);
  int without = 0, with = 0;
  for (int i = 0; i < 200; ++i) {
    const Candidate candidate = space.sample(rng);
    const std::string text = space.to_text(candidate) + " ";
    const std::size_t at = text.find(decision + "=");
    if (at == std::string::npos) continue;
    const std::size_t begin = text.rfind(' ', at), end = text.find(' ', at);
    const Result<Candidate> back = space.parse(text.substr(0, begin) + text.substr(end));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_NE(space.to_text(*back).find(decision + "=no"), std::string::npos) << text;
    const bool was = text.compare(at, decision.size() + 3, decision + "=no") == 0;
    EXPECT_EQ(was, *back == candidate) << text;
    ++(was ? without : with);
  }
  EXPECT_GT(without, 0);
  EXPECT_GT(with, 0);
}

TEST(Reasoned, ReadsCandidatesThatSayNothingOfLaterDecisions) {
  expect_read_without(dag_of("matmul:M=512,N=512,K=512"), ".turn_a");
  expect_read_without(dag_of("matmul:M=128,N=768,K=768"), ".own_copies");
}

}  // namespace
}  // namespace tessera::space
