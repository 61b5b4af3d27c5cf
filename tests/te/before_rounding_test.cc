#include "tessera/lang/te/before_rounding.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"

namespace tessera::te {
namespace {

using ir::Expr;
using Value = std::function<Expr(const Expr&)>;

Expr f32(double v) { return ir::imm(DType::kF32, v); }
Expr call(ir::Intrinsic fn, const Expr& x) { return ir::Call::make(fn, {x}); }

// Of a x b + x, which builds may round differently.
Dag made(const Value& value) {
  DagBuilder b("rounded");
  const ir::Buffer x = b.input("x", DType::kF32, {8});
  const ir::Buffer y =
      b.compute("y", {{"i", 8}}, [&](const Indices& i) { return at(x, i) * f32(3) + at(x, i); });
  const ir::Buffer z =
      b.compute("z", {{"i", 8}}, [&](const Indices& i) { return value(at(y, i)); });
  return b.build({z});
}

TEST(BeforeRounding, IsAVerifiedDagOfTheSameInputs) {
  const Dag dag = made([](const Expr& y) {
    return ir::cast(DType::kI8, call(ir::Intrinsic::kRound, ir::div(y, f32(7))) + f32(3));
  });
  const std::optional<Dag> before = before_rounding(dag, 0);
  ASSERT_TRUE(before.has_value());
  ASSERT_TRUE(verify(*before).ok());
  ASSERT_EQ(before->outputs.size(), 1u);
  EXPECT_EQ(before->outputs[0]->dtype, DType::kF64);
  EXPECT_EQ(before->inputs.size(), dag.inputs.size());
  EXPECT_EQ(to_text(*before).find("round("), std::string::npos) << to_text(*before);
}

TEST(BeforeRounding, KnowsRoundingsComparisonsAndWhatMovesOrClips) {
  using ir::Intrinsic;
  const std::vector<Value> known = {
      [](const Expr& y) { return ir::cast(DType::kI32, y); },
      [](const Expr& y) { return ir::cast(DType::kU8, call(Intrinsic::kFloor, y)); },
      [](const Expr& y) { return ir::cast(DType::kU8, call(Intrinsic::kCeil, y)); },
      [](const Expr& y) {
        return ir::Binary::make(ir::BinaryOp::kMax, ir::cast(DType::kI8, y),
                                ir::imm(DType::kI8, 0));
      },
      [](const Expr& y) { return ir::Binary::make(ir::BinaryOp::kLt, y, f32(1)); },
  };
  for (const Value& value : known) {
    const std::optional<Dag> before = before_rounding(made(value), 0);
    ASSERT_TRUE(before.has_value());
    EXPECT_TRUE(verify(*before).ok()) << to_text(*before);
  }
}

TEST(BeforeRounding, ThereIsNoneOfExactIntegersAndOfSumsOfRoundedOnes) {
  EXPECT_FALSE(
      before_rounding(make_dag(parse_op_spec("matmul:M=4,N=4,K=8,dtype=i8").value()).value(), 0));
  EXPECT_FALSE(before_rounding(make_dag(parse_op_spec("matmul:M=4,N=4,K=8").value()).value(), 0));
  EXPECT_FALSE(before_rounding(made([](const Expr& y) {
                                 const Expr q = ir::cast(DType::kI32, y);
                                 return ir::Binary::make(ir::BinaryOp::kAdd, q, q);
                               }),
                               0));
}

}  // namespace
}  // namespace tessera::te
