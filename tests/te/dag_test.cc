#include "tessera/lang/te/dag.h"

#include <limits>

#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"

namespace tessera::te {
namespace {

Dag make(const char* spec) { return make_dag(parse_op_spec(spec).value()).value(); }

Dag copy_dag() {
  DagBuilder b("copy");
  const ir::Buffer x = b.input("X", DType::kF32, {3, 4});
  const ir::Buffer y =
      b.compute("Y", {{"i", 3}, {"j", 4}}, [&](const Indices& i) { return at(x, i); });
  return b.build({y});
}

void expect_refused(const Dag& dag, const std::string& part) {
  const auto ok = verify(dag);
  ASSERT_FALSE(ok.ok());
  EXPECT_EQ(ok.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(ok.error().message.find(part), std::string::npos) << ok.error().message;
}

TEST(Dag, ProducerAndOutputs) {
  const Dag dag = make("dense:M=2,N=3,K=4");
  ASSERT_EQ(dag.ops.size(), 2u);
  EXPECT_EQ(dag.producer(dag.inputs[0].buffer), nullptr);
  EXPECT_EQ(dag.producer(dag.ops[0].outputs[0]), &dag.ops[0]);
  EXPECT_FALSE(dag.is_output(dag.ops[0].outputs[0]));
  EXPECT_TRUE(dag.is_output(dag.ops[1].outputs[0]));
  EXPECT_FALSE(dag.inputs[0].constant);
  EXPECT_TRUE(dag.inputs[1].constant);
}

TEST(Dag, TextReadsAsMathematics) {
  EXPECT_EQ(to_text(make("matmul:M=7,N=3,K=64")),
            "dag matmul\n"
            "  input A: f32[7, 64]\n"
            "  input B: f32[64, 3]\n"
            "  stage C: f32[7, 3]\n"
            "    C[i, j] = sum(k in 64) A[i, k] * B[k, j]\n"
            "  output C\n");
}

TEST(Dag, FlopCount) {
  EXPECT_EQ(flop_count(make("matmul:M=7,N=3,K=64")), 2.0 * 7 * 3 * 64);
  EXPECT_EQ(flop_count(make("dense:M=7,N=3,K=64")), 2.0 * 7 * 3 * 64 + 2 * 7 * 3);
  EXPECT_EQ(flop_count(make("softmax:R=5,C=9")),
            45 + 2 * 45 + 45 + 5 + 45);  // max, exp(x - m), sum, 1 / sum, multiply
  EXPECT_EQ(flop_count(make("reduce:R=5,C=9,op=argmax")), 45);
  // Index arithmetic and padding selects are free.
  EXPECT_EQ(flop_count(make("conv2d:N=1,H=5,W=5,CI=2,CO=3,KH=3,KW=3,P=1")), 2.0 * 25 * 3 * 9 * 2);
}

TEST(Reducers, IdentitiesAreNeutral) {
  const auto value = [](Reducer r, DType t, std::size_t output = 0) {
    return ir::as_const_int(identity(r, t, output));
  };
  EXPECT_EQ(value(Reducer::kSum, DType::kI32), 0);
  EXPECT_EQ(value(Reducer::kProd, DType::kI32), 1);
  EXPECT_EQ(value(Reducer::kMax, DType::kI8), -128);
  EXPECT_EQ(value(Reducer::kMin, DType::kI8), 127);
  EXPECT_EQ(value(Reducer::kMax, DType::kU8), 0);
  EXPECT_EQ(value(Reducer::kMin, DType::kU8), 255);
  EXPECT_EQ(value(Reducer::kMax, DType::kI64), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(value(Reducer::kArgMax, DType::kI64, 1), std::numeric_limits<std::int64_t>::max());
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ir::as_const_float(identity(Reducer::kMax, DType::kF16, 0)), -inf);
  EXPECT_EQ(ir::as_const_float(identity(Reducer::kMin, DType::kF32, 0)), inf);
  EXPECT_EQ(ir::as_const_float(identity(Reducer::kArgMin, DType::kF32, 0)), inf);
}

TEST(Reducers, CombineFoldsConstants) {
  const auto fold = [](Reducer r, double a, double b) {
    return ir::as_const_float(combine(r, {ir::imm(DType::kF32, a)}, {ir::imm(DType::kF32, b)})[0]);
  };
  EXPECT_EQ(fold(Reducer::kSum, 2, 3), 5);
  EXPECT_EQ(fold(Reducer::kProd, 2, 3), 6);
  EXPECT_EQ(fold(Reducer::kMax, 2, 3), 3);
  EXPECT_EQ(fold(Reducer::kMin, 2, 3), 2);
}

TEST(Reducers, ArgTiesKeepTheSmallerIndex) {
  const auto index = [](Reducer r, double acc, int acc_index, double v, int v_index) {
    return ir::as_const_int(combine(r, {ir::imm(DType::kF32, acc), ir::int_imm(acc_index)},
                                    {ir::imm(DType::kF32, v), ir::int_imm(v_index)})[1]);
  };
  EXPECT_EQ(index(Reducer::kArgMax, 1, 4, 1, 7), 4);
  EXPECT_EQ(index(Reducer::kArgMax, 1, 7, 1, 4), 4);
  EXPECT_EQ(index(Reducer::kArgMax, 1, 4, 2, 7), 7);
  EXPECT_EQ(index(Reducer::kArgMin, 1, 4, 2, 7), 4);
  EXPECT_EQ(index(Reducer::kArgMin, 1, 7, 1, 4), 4);
}

TEST(Verify, AcceptsABuiltDag) { EXPECT_TRUE(verify(copy_dag()).ok()); }

TEST(Verify, RefusesUnknownBuffer) {
  Dag dag = copy_dag();
  dag.inputs.clear();
  expect_refused(dag, "op Y: reads X, which no input");
}

TEST(Verify, RefusesWrongOrder) {
  Dag dag = make("dense:M=2,N=3,K=4");
  std::swap(dag.ops[0], dag.ops[1]);
  expect_refused(dag, "op Y: reads C");
}

TEST(Verify, RefusesForeignVariable) {
  Dag dag = copy_dag();
  const Indices indices = {ir::Var::make("z"), ir::int_imm(0)};
  dag.ops[0].values[0] = at(dag.inputs[0].buffer, indices);
  expect_refused(dag, "variable z is not an axis");
}

TEST(Verify, RefusesExtentMismatch) {
  Dag dag = copy_dag();
  dag.ops[0].axes[1].extent = 5;
  expect_refused(dag, "shape 3x4 differs from the axes");
}

TEST(Verify, RefusesNegativeExtent) {
  Dag dag = copy_dag();
  dag.ops[0].axes[1].extent = -1;
  expect_refused(dag, "axis j: negative extent");
}

TEST(Verify, RefusesWrongType) {
  Dag dag = copy_dag();
  dag.ops[0].values[0] = ir::cast(DType::kF64, dag.ops[0].values[0]);
  expect_refused(dag, "cannot hold a value of f64");
}

TEST(Verify, RefusesReduceAxesWithoutReducer) {
  Dag dag = make("matmul:M=2,N=2,K=2");
  dag.ops[0].reducer = Reducer::kNone;
  expect_refused(dag, "reduce axes without a reducer");
}

TEST(Verify, RefusesArgWithoutIndex) {
  Dag dag = make("matmul:M=2,N=2,K=2");
  dag.ops[0].reducer = Reducer::kArgMax;
  expect_refused(dag, "argmax needs a value and an integer index");
}

TEST(Verify, RefusesSharedAxis) {
  Dag dag = copy_dag();
  dag.ops[0].axes[1].var = dag.ops[0].axes[0].var;
  expect_refused(dag, "axis i: used twice");
}

TEST(Verify, RefusesSecondWriter) {
  Dag dag = copy_dag();
  dag.ops.push_back(dag.ops[0]);
  expect_refused(dag, "buffer Y: written twice");
}

TEST(Verify, RefusesUnwrittenOutput) {
  Dag dag = copy_dag();
  dag.outputs = {dag.inputs[0].buffer};
  expect_refused(dag, "output X is not written");
}

TEST(Verify, RefusesNoOutput) {
  Dag dag = copy_dag();
  dag.outputs.clear();
  expect_refused(dag, "no output");
}

TEST(Verify, RefusesEqualNames) {
  DagBuilder b("twice");
  const ir::Buffer x = b.input("X", DType::kF32, {3});
  const ir::Buffer y = b.compute("X", {{"i", 3}}, [&](const Indices& i) { return at(x, i); });
  expect_refused(b.build({y}), "two buffers are named X");
}

TEST(Verify, RefusesHugeShape) {
  DagBuilder b("huge");
  const std::int64_t big = std::int64_t{1} << 40;
  const ir::Buffer y = b.compute("Y", {{"i", big}, {"j", big}},
                                 [](const Indices&) { return ir::imm(DType::kF32, 0); });
  expect_refused(b.build({y}), "too large");
}

}  // namespace
}  // namespace tessera::te
