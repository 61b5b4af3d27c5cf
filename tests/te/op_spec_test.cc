#include "tessera/lang/te/op_spec.h"

#include <gtest/gtest.h>

namespace tessera::te {
namespace {

// The error of parsing, or of making the Dag.
std::string refusal(const std::string& text) {
  const auto spec = parse_op_spec(text);
  if (!spec.ok()) {
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
    return spec.error().message;
  }
  const auto dag = make_dag(*spec);
  if (dag.ok()) return "";
  EXPECT_EQ(dag.error().code, ErrorCode::kInvalidArgument);
  return dag.error().message;
}

struct Refusal {
  const char* name;
  const char* spec;
  const char* message;  // part of it
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesTheReason) {
  const std::string message = refusal(GetParam().spec);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << "got: " << message;
}

constexpr Refusal kRefusals[] = {
    {"empty", "", "unknown operation ''"},
    {"unknown_op", "matmull:M=1,N=1,K=1", "unknown operation 'matmull'; did you mean 'matmul'?"},
    {"unknown_param", "softmax:R=1,C=1,COLS=2", "softmax: unknown parameter 'COLS'. Valid: "},
    {"missing_param", "matmul:M=1,N=1", "matmul: K (length of the sum) must be given"},
    {"missing_word", "transpose:A=1,B=1,C=1",
     "transpose: perm (permutation, e.g. 021) must be given"},
    {"twice", "matmul:M=1,N=1,K=1,M=2", "matmul: M is given twice"},
    {"word_twice", "depthwise:layout=nhwc,layout=nchw", "depthwise: layout is given twice"},
    {"no_value", "matmul:M=", "matmul: 'M=' is not NAME=VALUE"},
    {"no_equals", "matmul:M", "matmul: 'M' is not NAME=VALUE"},
    {"trailing_comma", "softmax:R=1,C=1,", "softmax: trailing comma"},
    {"not_a_number", "matmul:M=1x,N=1,K=1", "matmul: M=1x is not an integer"},
    {"overflow", "matmul:M=99999999999999999999,N=1,K=1",
     "M=99999999999999999999 is not an integer"},
    {"zero_size", "matmul:M=0,N=1,K=1", "matmul: M=0 is outside 1..2147483647"},
    {"negative_size", "matmul:M=-3,N=1,K=1", "matmul: M=-3 is outside 1.."},
    {"too_big", "matmul:M=2147483648,N=1,K=1", "matmul: M=2147483648 is outside"},
    {"negative_pad", "maxpool2d:N=1,H=4,W=4,C=1,KH=2,KW=2,P=-1", "maxpool2d: P=-1 is outside 0.."},
    {"huge_shape", "matmul:M=2147483647,N=2147483647,K=2147483647", "matmul: buffer A: shape"},
    {"huge_output", "matmul:M=2147483647,N=2147483647,K=1", "matmul: op C: buffer C: shape"},
    {"huge_winograd",
     "conv2d:N=2147483647,H=2147483647,W=2147483647,CI=1,CO=1,KH=3,KW=3,algo=winograd2",
     "too large"},
    {"bad_dtype", "matmul:M=1,N=1,K=1,dtype=f8", "matmul: dtype=f8 is not a type"},
    {"int_matmul", "matmul:M=1,N=1,K=1,dtype=i32", "matmul: dtype=i32 is not supported; use"},
    {"int_softmax", "softmax:R=1,C=1,dtype=i8", "softmax: dtype=i8 is not supported; use"},
    {"int_mean", "reduce:R=1,C=1,op=mean,dtype=i32", "dtype=i32 is not supported for op=mean"},
    {"bool_reduce", "reduce:R=1,C=1,dtype=bool", "dtype=bool is not supported for op=sum"},
    {"bool_eltwise", "eltwise:N=1,fn=relu,dtype=bool", "eltwise: dtype=bool is not supported"},
    {"bool_maxpool", "maxpool2d:N=1,H=4,W=4,C=1,KH=2,KW=2,dtype=bool",
     "dtype=bool is not supported"},
    {"bad_transpose_flag", "matmul:M=1,N=1,K=1,TA=2", "matmul: TA and TB are 0 or 1"},
    {"bad_layout", "conv2d:N=1,H=4,W=4,CI=1,CO=1,KH=2,KW=2,layout=nwhc",
     "conv2d: layout=nwhc is not one of nhwc, nchw, nchwc"},
    {"kernel_too_big", "conv2d:N=1,H=4,W=4,CI=1,CO=1,KH=7,KW=3,P=1",
     "conv2d: KH=7 covers 7 elements but the padded input H has only 6"},
    {"dilated_too_big", "conv2d:N=1,H=4,W=4,CI=1,CO=1,KH=3,KW=3,D=2", "KH=3 covers 5 elements"},
    {"groups_ci", "conv2d:N=1,H=4,W=4,CI=3,CO=4,KH=1,KW=1,G=2", "conv2d: G=2 does not divide CI=3"},
    {"groups_co", "conv2d:N=1,H=4,W=4,CI=4,CO=3,KH=1,KW=1,G=2", "conv2d: G=2 does not divide CO=3"},
    {"no_block", "conv2d:N=1,H=4,W=4,CI=4,CO=4,KH=1,KW=1,layout=nchwc", "layout=nchwc needs CB"},
    {"block_divides", "conv2d:N=1,H=4,W=4,CI=4,CO=6,KH=1,KW=1,layout=nchwc,CB=4",
     "CB=4 must divide CI=4 and CO=6"},
    {"block_groups", "conv2d:N=1,H=4,W=4,CI=4,CO=4,KH=1,KW=1,G=2,layout=nchwc,CB=2",
     "layout=nchwc takes G=1 only"},
    {"winograd_kernel", "conv2d:N=1,H=8,W=8,CI=1,CO=1,KH=5,KW=5,algo=winograd6",
     "algo=winograd6 needs a window of more than one tap"},
    {"winograd_phases", "conv_transpose2d:N=1,H=8,W=8,CI=1,CO=1,KH=2,KW=2,S=2,algo=winograd2",
     "algo=winograd2 needs KH and KW beyond S"},
    {"winograd_stride", "conv2d:N=1,H=8,W=8,CI=1,CO=1,KH=3,KW=3,S=2,algo=winograd4",
     "algo=winograd4 needs S=1 and D=1"},
    {"winograd_layout", "conv2d:N=1,H=8,W=8,CI=1,CO=1,KH=3,KW=3,layout=nchw,algo=winograd4",
     "needs layout=nhwc"},
    {"winograd_groups", "conv2d:N=1,H=8,W=8,CI=2,CO=2,KH=3,KW=3,G=2,algo=winograd4", "needs G=1"},
    {"winograd_int", "conv2d:N=1,H=8,W=8,CI=1,CO=1,KH=3,KW=3,dtype=i8,algo=winograd4",
     "dtype=i8 is not supported"},
    {"output_padding", "conv_transpose2d:N=1,H=4,W=4,CI=1,CO=1,KH=3,KW=3,S=2,OP=2",
     "OP=2 must be less than S=2"},
    {"no_output", "conv_transpose2d:N=1,H=1,W=1,CI=1,CO=1,KH=2,KW=2,P=1",
     "padding leaves no output in dimension H"},
    {"pool_padding", "avgpool2d:N=1,H=4,W=4,C=1,KH=2,KW=2,P=2", "padding must be less than KH=2"},
    {"bad_axis", "reduce:R=1,C=1,axis=2", "reduce: axis=2 must be 0 or 1"},
    {"bad_reducer", "reduce:R=1,C=1,op=median", "op=median is not one of sum, max"},
    {"bad_perm", "transpose:A=1,B=1,C=1,perm=011", "perm=011 is not a permutation of 012"},
    {"bad_function", "eltwise:N=1,fn=relux", "eltwise: fn=relux is not a chain of add"},
    {"empty_function", "eltwise:N=1,fn=relu+", "eltwise: fn= is not a chain"},
    {"float_function", "eltwise:N=1,fn=gelu,dtype=i32", "fn=gelu needs a float dtype"},
    {"long_chain",
     "eltwise:N=1,fn=abs+abs+abs+abs+abs+abs+abs+abs+abs+abs+abs+abs+abs+abs+abs+abs+abs",
     "fn has more than 16 functions"},
};

INSTANTIATE_TEST_SUITE_P(OpSpec, Refused, ::testing::ValuesIn(kRefusals),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(OpSpec, CanonicalTextHasAllParametersInTableOrder) {
  const OpSpec spec = parse_op_spec("matmul:K=64,dtype=f16,N=5,M=7").value();
  EXPECT_EQ(to_text(spec), "matmul:M=7,N=5,K=64,TA=0,TB=0,dtype=f16");
  EXPECT_EQ(to_text(parse_op_spec("conv2d:N=1,H=4,W=4,CI=1,CO=1,KH=2,KW=2,PB=1").value()),
            "conv2d:N=1,H=4,W=4,CI=1,CO=1,KH=2,KW=2,S=1,P=0,D=1,PB=1,G=1,layout=nhwc,algo=direct,"
            "dtype=f32");
}

TEST(OpSpec, CanonicalTextParsesToItself) {
  for (const char* text :
       {"softmax:R=3,C=4", "eltwise:N=9,fn=add+relu", "transpose:A=1,B=2,C=3,perm=201",
        "conv3d:N=1,ID=4,H=4,W=4,CI=1,CO=1,KD=2,KH=2,KW=2,PF=1"}) {
    const std::string canonical = to_text(parse_op_spec(text).value());
    EXPECT_EQ(to_text(parse_op_spec(canonical).value()), canonical);
  }
}

TEST(OpSpec, HandMadeSpecsAreCompleted) {
  OpSpec spec{.op = "matmul", .ints = {{"M", 2}, {"N", 3}, {"K", 4}}, .words = {}};
  EXPECT_TRUE(make_dag(spec).ok());
  spec.ints["Q"] = 1;
  EXPECT_FALSE(make_dag(spec).ok());
}

OpWork work(const char* text) { return op_work(parse_op_spec(text).value()).value(); }

TEST(OpWork, CountsUsefulWork) {
  EXPECT_EQ(work("matmul:M=2,N=3,K=5").flops, 2.0 * 2 * 3 * 5);
  EXPECT_EQ(work("matmul:M=2,N=3,K=5").bytes, 4.0 * (10 + 15 + 6));
  EXPECT_EQ(work("dense:M=2,N=3,K=5").flops, 2.0 * 2 * 3 * 5);
  EXPECT_EQ(work("matmul:M=2,N=3,K=5,dtype=i8").bytes, 10 + 15 + 4.0 * 6);
  EXPECT_EQ(work("conv_transpose2d:N=1,H=4,W=4,CI=2,CO=3,KH=3,KW=3,S=2").flops, 2.0 * 16 * 6 * 9);
}

TEST(OpWork, WinogradCountsAsDirect) {
  const std::string conv = "conv2d:N=1,H=9,W=7,CI=4,CO=5,KH=3,KW=3,P=1";
  const OpWork direct = work(conv.c_str());
  const OpWork winograd = work((conv + ",algo=winograd4").c_str());
  EXPECT_EQ(direct.flops, 2.0 * 9 * 7 * 5 * 9 * 4);
  EXPECT_EQ(winograd.flops, direct.flops);
  EXPECT_EQ(winograd.bytes, direct.bytes);
}

}  // namespace
}  // namespace tessera::te
