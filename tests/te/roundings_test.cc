#include "tessera/lang/te/roundings.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"

namespace tessera::te {
namespace {

Roundings of(const char* spec) {
  return roundings(make_dag(parse_op_spec(spec).value()).value(), 0);
}

TEST(Roundings, SumsCountTheirTerms) {
  EXPECT_EQ(of("matmul:M=4,N=4,K=50").count(DType::kF32), 50);
  EXPECT_FALSE(of("matmul:M=4,N=4,K=50,dtype=i8").any());
  EXPECT_FALSE(of("reduce:R=5,C=9,op=max").any());
  EXPECT_FALSE(of("gather:R=7,C=3,I=5").any());
  EXPECT_FALSE(of("transpose:A=2,B=3,C=4,perm=021").any());
}

TEST(Roundings, NarrowSumsAreTakenWideAndRoundedOnce) {
  const Roundings r = of("matmul:M=4,N=4,K=50,dtype=f16");
  EXPECT_EQ(r.count(DType::kF32), 50);
  EXPECT_EQ(r.count(DType::kF16), 1);
}

// Where products may be taken in tf32, their two operands are rounded, and nothing else.
TEST(Roundings, OperandsOfProductsInTf32) {
  const auto allowed = [](const char* spec, Products products) {
    return tolerance(roundings(make_dag(parse_op_spec(spec).value()).value(), 0, products));
  };
  const char* product = "matmul:M=4,N=4,K=50";
  EXPECT_NEAR(allowed(product, Products::kTf32) - allowed(product, Products::kExact),
              8 * 0x1p-11 * std::sqrt(2.0), 1e-12);
  for (const char* spec : {"softmax:R=5,C=9", "reduce:R=5,C=9", "matmul:M=4,N=4,K=50,dtype=i8"})
    EXPECT_EQ(allowed(spec, Products::kTf32), allowed(spec, Products::kExact)) << spec;
}

ir::Buffer cast_stage(DagBuilder& b, const char* name, const ir::Buffer& x, DType to) {
  return b.compute(name, {{"i", 8}}, [&](const Indices& i) { return ir::cast(to, at(x, i)); });
}

TEST(Roundings, OnlyLossyCastsCount) {
  const auto of_cast = [](DType from, DType to) {
    DagBuilder b("cast");
    const ir::Buffer x = b.input("x", from, {8});
    return roundings(b.build({cast_stage(b, "y", x, to)}), 0).any();
  };
  EXPECT_FALSE(of_cast(DType::kU8, DType::kF32));
  EXPECT_FALSE(of_cast(DType::kU8, DType::kF16));
  EXPECT_FALSE(of_cast(DType::kI16, DType::kF32));
  EXPECT_FALSE(of_cast(DType::kF16, DType::kF32));
  EXPECT_FALSE(of_cast(DType::kF32, DType::kF64));
  EXPECT_FALSE(of_cast(DType::kI32, DType::kI8)) << "wraps, the same everywhere";
  EXPECT_TRUE(of_cast(DType::kI16, DType::kF16));
  EXPECT_TRUE(of_cast(DType::kI32, DType::kF32));
  EXPECT_TRUE(of_cast(DType::kF64, DType::kF32));
  EXPECT_TRUE(of_cast(DType::kF32, DType::kBF16));
  EXPECT_FALSE(of_cast(DType::kF32, DType::kU8)) << "every build rounds the same number";
}

// Integers are the same wherever what is rounded is: bit for bit.
TEST(Roundings, IntegersOfWhatEveryBuildComputesAlike) {
  using Value = std::function<ir::Expr(const ir::Expr& x, const ir::Expr& y)>;
  const auto counted = [](const Value& value) {
    DagBuilder b("quantise");
    const ir::Buffer x = b.input("x", DType::kF32, {8}), y = b.input("y", DType::kF32, {8});
    const ir::Buffer z = b.compute("z", {{"i", 8}}, [&](const Indices& i) {
      return ir::cast(DType::kI8, value(at(x, i), at(y, i)));
    });
    return roundings(b.build({z}), 0).count(DType::kI8);
  };
  EXPECT_EQ(counted([](const auto& x, const auto& y) { return ir::div(x, y); }), 0);
  EXPECT_EQ(counted([](const auto& x, const auto& y) { return x * y; }), 0);
  EXPECT_EQ(counted([](const auto& x, const auto& y) { return ir::div(x, y) + x; }), 0);
  EXPECT_EQ(counted([](const auto& x, const auto& y) { return x * y + x; }), 1) << "or fma";
  EXPECT_EQ(
      counted([](const auto& x, const auto&) { return ir::Call::make(ir::Intrinsic::kExp, {x}); }),
      1);
  DagBuilder b("node");
  const ir::Buffer x = b.input("x", DType::kF32, {8});
  const Dag cast = b.build({cast_stage(b, "y", x, DType::kI8)});
  EXPECT_EQ(roundings(cast, 0).count(DType::kI8), 0);
  EXPECT_EQ(roundings_of_node(cast).count(DType::kI8), 1) << "who knows what came before";
}

TEST(Roundings, AnOutputHasThoseOfItsOwnStages) {
  DagBuilder b("two");
  const ir::Buffer x = b.input("x", DType::kF32, {8});
  const ir::Buffer half = cast_stage(b, "half", x, DType::kF16);
  const ir::Buffer wide = cast_stage(b, "wide", half, DType::kF32);
  const ir::Buffer copy = b.compute("copy", {{"i", 8}}, [&](const Indices& i) { return at(x, i); });
  const Dag dag = b.build({wide, copy});
  EXPECT_EQ(roundings(dag, 0).count(DType::kF16), 1);
  EXPECT_FALSE(roundings(dag, 1).any());
  EXPECT_EQ(roundings_of_node(dag).count(DType::kF16), 1);
}

}  // namespace
}  // namespace tessera::te
