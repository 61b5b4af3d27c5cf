// Templates: recognised by structure, small enough to enumerate, correct everywhere.
#include <string>

#include <gtest/gtest.h>

#include "tessera/scheduling/space/templates/templates.h"
#include "tests/space/sketch_case.h"
#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

Sketches templates_of(const te::Dag& dag, const target::Target& target = target::host()) {
  auto sketches = template_sketches(dag, target);
  EXPECT_TRUE(sketches.ok()) << sketches.error().message;
  return sketches.ok() ? std::move(*sketches) : Sketches{};
}

std::string name_of(const std::string& spec) {
  const Sketches sketches = templates_of(dag_of(spec));
  return sketches.empty() ? "" : sketches[0]->name();
}

TEST(Templates, AreRecognisedByStructure) {
  EXPECT_EQ(name_of("matmul:M=37,N=29,K=41"), "template.matmul");
  EXPECT_EQ(name_of("dense:M=13,N=37,K=29"), "template.dense");
  EXPECT_EQ(name_of("bmm:B=3,M=11,N=17,K=13"), "template.batch_matmul");
  EXPECT_EQ(name_of("conv2d:N=1,H=9,W=11,CI=5,CO=19,KH=3,KW=3,P=1"), "template.conv2d");
  EXPECT_EQ(name_of("conv2d:N=1,H=9,W=11,CI=5,CO=19,KH=1,KW=1"), "template.conv2d");
  EXPECT_EQ(name_of("depthwise:N=1,H=9,W=11,C=13,KH=3,KW=3,P=1"), "template.depthwise");
  EXPECT_EQ(name_of("softmax:R=7,C=37"), "");
  EXPECT_EQ(name_of("eltwise:N=37,fn=relu"), "");
}

TEST(Templates, SampledSchedulesAreCorrect) {
  for (const char* spec :
       {"matmul:M=37,N=29,K=41", "matmul:M=17,N=23,K=33,TA=1,TB=1", "dense:M=13,N=37,K=29",
        "bmm:B=3,M=11,N=17,K=13", "conv2d:N=1,H=9,W=11,CI=5,CO=19,KH=3,KW=3,P=1",
        "conv2d:N=2,H=9,W=11,CI=5,CO=13,KH=3,KW=3,S=2,layout=nchw",
        "conv2d:N=1,H=7,W=7,CI=35,CO=21,KH=1,KW=1",
        "depthwise:N=1,H=9,W=11,C=13,KH=3,KW=3,P=1,S=2"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    expect_sketches_correct(dag, templates_of(dag), 6, 4);
  }
}

// What studies of policies run on: every point is tried.
TEST(Templates, AreSmallEnoughToEnumerate) {
  for (const char* spec :
       {"matmul:M=1024,N=1024,K=1024", "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,P=1",
        "conv2d:N=1,H=28,W=28,CI=128,CO=256,KH=3,KW=3,S=2,P=1",
        "depthwise:N=1,H=112,W=112,C=32,KH=3,KW=3,P=1", "bmm:B=12,M=128,N=128,K=64",
        "dense:M=128,N=768,K=768"}) {
    SCOPED_TRACE(spec);
    const te::Dag dag = dag_of(spec);
    target::Target target = target::find_target("neoverse-v1").value();
    target.cores = 2;
    Sketches sketches = templates_of(dag, target);
    ASSERT_EQ(sketches.size(), 1u);
    const Space space(dag, target, std::move(sketches));
    const auto count = space.count_legal(200000);
    ASSERT_TRUE(count.has_value()) << space.size();
    EXPECT_GE(*count, 200);
    EXPECT_LE(*count, 20000);
  }
}

}  // namespace
}  // namespace tessera::space
