#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"

namespace tessera::te {
namespace {

constexpr const char* kSpecs[] = {
    "matmul:M=7,N=3,K=5,TA=1,TB=1",
    "matmul:M=7,N=3,K=5,dtype=f16",
    "matmul:M=7,N=3,K=5,dtype=i8",
    "dense:M=7,N=3,K=5,dtype=bf16",
    "dense:M=7,N=3,K=5,algo=bf16x6",
    "bmm:B=2,M=7,N=3,K=5",
    "conv1d:N=1,W=9,CI=2,CO=3,KW=3,P=1",
    "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,S=2,P=1,D=2,PT=0",
    "conv2d:N=1,H=9,W=7,CI=4,CO=8,KH=3,KW=3,P=1,layout=nchwc,CB=4",
    "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,G=2",
    "conv2d:N=2,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,algo=winograd2",
    "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,algo=winograd4",
    "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,algo=winograd6",
    "conv2d:N=1,H=9,W=7,CI=3,CO=6,KH=3,KW=3,S=2,P=1,dtype=f16,algo=im2col",
    "conv3d:N=1,ID=5,H=6,W=7,CI=2,CO=3,KD=3,KH=3,KW=3,P=1",
    "conv_transpose2d:N=1,H=4,W=5,CI=2,CO=3,KH=3,KW=3,S=2,P=1,OP=1",
    "depthwise:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1",
    "maxpool2d:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1",
    "avgpool2d:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1",
    "softmax:R=3,C=10",
    "attention:B=1,M=3,N=4,D=8,mask=causal,dtype=f16",
    "layernorm:R=3,C=10",
    "rmsnorm:R=3,C=10",
    "reduce:R=3,C=10,op=mean,axis=0,dtype=f16",
    "reduce:R=3,C=10,op=argmax",
    "eltwise:N=11,fn=add+gelu+mul+sigmoid",
    "gather:R=10,C=4,I=3",
    "transpose:A=2,B=3,C=4,perm=201",
};

class RoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTrip, GivesTheSameDag) {
  const Dag dag = make_dag(parse_op_spec(GetParam()).value()).value();
  const Result<Dag> read = dag_from_text(to_text(dag));
  ASSERT_TRUE(read.ok()) << read.error().message << "\n" << to_text(dag);
  EXPECT_EQ(to_text(*read), to_text(dag));
  EXPECT_EQ(flop_count(*read), flop_count(dag));
  ASSERT_EQ(read->ops.size(), dag.ops.size());
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    EXPECT_EQ(read->ops[i].name, dag.ops[i].name);
    EXPECT_EQ(read->ops[i].reducer, dag.ops[i].reducer);
    for (std::size_t v = 0; v < dag.ops[i].values.size(); ++v) {
      EXPECT_EQ(read->ops[i].values[v].type(), dag.ops[i].values[v].type());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parse, RoundTrip, ::testing::ValuesIn(kSpecs));

std::string stage(const std::string& value) {
  return "dag d\n  input a: f32[4, 8]\n  input n: i32[4]\n  stage b: f32[4]\n    b[i] = " + value +
         "\n  output b\n";
}

TEST(Parse, KeepsGroupingOfOperators) {
  for (const char* value : {"a[i, 0] - (a[i, 1] - a[i, 2])", "(a[i, 0] + 1.0) * 2.5",
                            "select(i < 2 & (1 <= i | i == 0), a[i, 0], -inf)",
                            "max(k in 8) max(a[i, k], f32(n[i] + 3))", "a[i, i %% 2 // 1 * 4]"}) {
    const Result<Dag> dag = dag_from_text(stage(value));
    ASSERT_TRUE(dag.ok()) << value << ": " << dag.error().message;
    EXPECT_EQ(to_text(*dag), stage(value));
  }
}

TEST(Parse, RankZeroAndEmptyShapes) {
  const std::string text =
      "dag d\n  input a: f32[0, 3]\n  stage s: f32[]\n    s[] = sum(i in 0, j in 3) a[i, j]\n"
      "  output s\n";
  const Result<Dag> dag = dag_from_text(text);
  ASSERT_TRUE(dag.ok()) << dag.error().message;
  EXPECT_EQ(to_text(*dag), text);
}

TEST(Parse, NamesWhatIsWrong) {
  const auto message = [](const std::string& text) {
    const Result<Dag> dag = dag_from_text(text);
    return dag.ok() ? std::string("no error") : dag.error().message;
  };
  EXPECT_EQ(message("conv"), "line 1: expected 'dag NAME'");
  EXPECT_EQ(message("dag d\n"), "line 2, column 1: expected 'output', found the end");
  EXPECT_EQ(message(stage("c[i, 0]")), "line 5, column 12: no buffer 'c'");
  EXPECT_EQ(message(stage("a[q, 0]")), "line 5, column 14: no axis 'q'");
  EXPECT_NE(message(stage("a[i]")).find("load of a"), std::string::npos);
  EXPECT_NE(message(stage("a[i, 0] + n[i]")).find("f32 + i32"), std::string::npos);
  EXPECT_EQ(message(stage("a[i, 0] + 1")), "line 5, column 22: '1' is not a constant of f32");
  EXPECT_EQ(message(stage("sine(a[i, 0])")), "line 5, column 12: no function 'sine'");
  EXPECT_NE(message(stage("max(a[i, 0])")).find("wrong number"), std::string::npos);
  EXPECT_NE(message("dag d\n input a: f32[99999999999, 99999999999]\n").find("line 2"),
            std::string::npos);
}

TEST(Parse, DeepTextIsRefusedNotFollowed) {
  EXPECT_FALSE(dag_from_text(stage(std::string(100000, '('))).ok());
  std::string chain = "1.0";
  for (int i = 0; i < 20000; ++i) chain += " + 1.0";
  EXPECT_FALSE(dag_from_text(stage(chain)).ok());
}

}  // namespace
}  // namespace tessera::te
