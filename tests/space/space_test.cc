// Spaces of tasks: where they come from, and what is preferred.
#include "tessera/scheduling/space/space.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/scheduling/space/kind.h"
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
