// The definition of every operation, as text: tests/golden/te/<name>.txt.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tests/testing/testing.h"

namespace tessera::te {
namespace {

struct Definition {
  const char* golden;
  const char* spec;
};

constexpr Definition kDefinitions[] = {
    {"matmul", "matmul:M=7,N=3,K=5"},
    {"matmul_transposed", "matmul:M=7,N=3,K=5,TA=1,TB=1"},
    {"matmul_f16", "matmul:M=7,N=3,K=5,dtype=f16"},
    {"matmul_i8", "matmul:M=7,N=3,K=5,dtype=i8"},
    {"bmm", "bmm:B=2,M=7,N=3,K=5"},
    {"dense", "dense:M=7,N=3,K=5"},
    {"dense_bf16", "dense:M=7,N=3,K=5,dtype=bf16"},
    {"conv1d", "conv1d:N=1,W=9,CI=2,CO=3,KW=3,P=1"},
    {"conv2d", "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3"},
    {"conv2d_pad_stride", "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,S=2,P=1,D=2,PT=0"},
    {"conv2d_nchw", "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,layout=nchw"},
    {"conv2d_grouped", "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,G=2"},
    {"conv2d_nchwc", "conv2d:N=1,H=9,W=7,CI=4,CO=8,KH=3,KW=3,P=1,layout=nchwc,CB=4"},
    {"conv2d_winograd2", "conv2d:N=2,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,algo=winograd2"},
    {"conv2d_winograd4", "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,algo=winograd4"},
    {"conv2d_winograd6", "conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,algo=winograd6"},
    {"conv2d_im2col", "conv2d:N=1,H=9,W=7,CI=3,CO=6,KH=3,KW=3,S=2,P=1,dtype=f16,algo=im2col"},
    {"conv3d", "conv3d:N=1,ID=5,H=6,W=7,CI=2,CO=3,KD=3,KH=3,KW=3,P=1"},
    {"conv_transpose2d", "conv_transpose2d:N=1,H=4,W=5,CI=2,CO=3,KH=4,KW=4,S=2,P=1"},
    {"conv_transpose2d_winograd2",
     "conv_transpose2d:N=1,H=4,W=5,CI=2,CO=3,KH=4,KW=4,S=2,P=1,algo=winograd2"},
    {"conv_transpose2d_gathered",
     "conv_transpose2d:N=1,H=4,W=5,CI=2,CO=3,KH=4,KW=4,S=2,P=1,algo=im2col"},
    {"conv2d_winograd4_one_axis",
     "conv2d:N=1,H=4,W=9,CI=2,CO=3,KH=1,KW=7,PL=3,PR=3,algo=winograd4"},
    {"conv_transpose2d_odd", "conv_transpose2d:N=1,H=4,W=5,CI=2,CO=3,KH=3,KW=3,S=2,P=1,OP=1"},
    {"depthwise", "depthwise:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1"},
    {"maxpool2d", "maxpool2d:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1"},
    {"avgpool2d", "avgpool2d:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1"},
    {"avgpool2d_include_pad",
     "avgpool2d:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1,include_pad=yes,layout=nchw"},
    {"globalavgpool", "globalavgpool:N=2,H=7,W=7,C=5"},
    {"softmax", "softmax:R=3,C=10"},
    {"attention", "attention:B=2,M=3,N=5,D=4"},
    {"attention_causal_f16", "attention:B=1,M=3,N=4,D=8,mask=causal,dtype=f16"},
    {"layernorm", "layernorm:R=3,C=10"},
    {"rmsnorm", "rmsnorm:R=3,C=10"},
    {"reduce_sum", "reduce:R=3,C=10"},
    {"reduce_mean_f16", "reduce:R=3,C=10,op=mean,axis=0,dtype=f16"},
    {"reduce_argmax", "reduce:R=3,C=10,op=argmax"},
    {"eltwise", "eltwise:N=11,fn=add+gelu+mul+sigmoid"},
    {"gather", "gather:R=10,C=4,I=3"},
    {"transpose", "transpose:A=2,B=3,C=4,perm=201"},
};

class Golden : public ::testing::TestWithParam<Definition> {};

TEST_P(Golden, Text) {
  const Dag dag = make_dag(parse_op_spec(GetParam().spec).value()).value();
  const std::string text = to_text(dag);
  EXPECT_EQ(text.find(" * 1 "), std::string::npos) << "a product by one survives";
  EXPECT_EQ(text.find("1.0 * "), std::string::npos) << "a product by one survives";
  EXPECT_EQ(text.find(" 0.0 * "), std::string::npos) << "a product by zero survives";
  testing::expect_golden(fmt::format("te/{}.txt", GetParam().golden), text);
}

INSTANTIATE_TEST_SUITE_P(Ops, Golden, ::testing::ValuesIn(kDefinitions),
                         [](const auto& test) { return std::string(test.param.golden); });

TEST(Ops, EveryOperationHasAGolden) {
  std::set<std::string> covered;
  for (const Definition& d : kDefinitions) covered.insert(parse_op_spec(d.spec).value().op);
  for (const OpEntry& entry : op_table()) EXPECT_TRUE(covered.count(entry.name)) << entry.name;
}

TEST(Ops, TableIsSorted) {
  for (std::size_t i = 1; i < op_table().size(); ++i) {
    EXPECT_LT(std::string(op_table()[i - 1].name), std::string(op_table()[i].name));
  }
}

}  // namespace
}  // namespace tessera::te
