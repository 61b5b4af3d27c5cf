// Whatever the rules leave open: every legal choice lowers and computes the operation.
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "tessera/scheduling/space/rules/rules.h"
#include "tests/fuzz/check_case.h"
#include "tests/space/sketch_case.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

const char* const kSpecs[] = {
#include "tests/bench/specs.inc"
#include "tests/space/specs.inc"
};

double slack_of(const std::string& spec) {
  return spec.find("winograd") == std::string::npos ? 4 : 512;
}

target::Target with_cores(target::Target target, int cores) {
  target.cores = cores;
  return target;
}

TEST(Rules, SampledSchedulesAreCorrect) {
  const target::Target machines[] = {with_cores(target::host(), 4),
                                     with_cores(target::find_target("haswell").value(), 2),
                                     with_cores(target::find_target("skylake-avx512").value(), 16)};
  std::size_t number = 0;
  for (const char* spec : kSpecs) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    auto sketches = rule_sketches(dag, machines[number % std::size(machines)]);
    ASSERT_TRUE(sketches.ok()) << sketches.error().message;
    ASSERT_FALSE(sketches->empty());
    // One sketch of each operation, another one for the next.
    std::swap(sketches->front(), (*sketches)[number++ % sketches->size()]);
    sketches->resize(1);
    expect_sketches_correct(dag, *sketches, 1, slack_of(spec));
  }
}

TEST(Rules, OddExtentsAreCorrect) {
  for (const std::int64_t n : {1, 7, 13, 49, 197}) {
    for (const std::string& spec :
         {"matmul:M=" + std::to_string(n) + ",N=13,K=7",
          "dense:M=7,N=" + std::to_string(n) + ",K=49", "softmax:R=3,C=" + std::to_string(n),
          "reduce:R=1,C=" + std::to_string(n) + ",op=sum"}) {
      SCOPED_TRACE(spec);
      const te::Dag dag = dag_of(spec);
      const auto sketches = rule_sketches(dag, with_cores(target::host(), 2));
      ASSERT_TRUE(sketches.ok()) << sketches.error().message;
      expect_sketches_correct(dag, *sketches, 2, 4);
    }
  }
}

TEST(Rules, RandomDagsAreCorrect) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Rng rng(seed);
    const fuzz::RandomDag dag = fuzz::random_dag(rng);
    const auto sketches =
        rule_sketches(dag.dag, with_cores(target::host(), static_cast<int>(rng.between(1, 16))));
    ASSERT_TRUE(sketches.ok()) << sketches.error().message;
    ASSERT_FALSE(sketches->empty());
    for (const auto& sketch : *sketches) {
      const auto choice = legal_choice(*sketch, rng);
      const auto schedule = sketch->write(choice);
      ASSERT_TRUE(schedule.ok()) << schedule.error().message;
      ASSERT_EQ(fuzz::check_case(dag, *schedule, {.compile = false}), "")
          << "seed " << seed << " " << sketch->name() << "\n"
          << te::to_text(dag.dag) << schedule::to_text(*schedule);
    }
  }
}

TEST(Rules, LayersOfNetworksLower) {
  for (const char* spec : {"matmul:M=1024,N=1024,K=1024", "bmm:B=12,M=128,N=128,K=64",
                           "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1",
                           "conv2d:N=1,H=56,W=56,CI=64,CO=128,KH=3,KW=3,S=2,P=1",
                           "conv2d:N=1,H=28,W=28,CI=128,CO=128,KH=3,KW=3,P=1,algo=winograd4",
                           "depthwise:N=1,H=112,W=112,C=32,KH=3,KW=3,P=1", "softmax:R=1536,C=128",
                           "layernorm:R=128,C=768"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    const auto sketches = rule_sketches(dag, target::host());
    ASSERT_TRUE(sketches.ok()) << sketches.error().message;
    expect_sketches_lower(dag, target::host(), *sketches, 8);
  }
}

}  // namespace
}  // namespace tessera::space
