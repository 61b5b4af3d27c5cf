#include <cmath>

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"

namespace tessera::ir {
namespace {

TEST(Equal, ComparesStructureAndIdentityOfVariables) {
  const Expr x = Var::make("x"), y = Var::make("x");
  const Expr a = add(mul(x, int_imm(2)), int_imm(1));
  const Expr b = add(mul(x, int_imm(2)), int_imm(1));
  EXPECT_FALSE(a.same_as(b));
  EXPECT_TRUE(equal(a, b));
  EXPECT_EQ(hash(a), hash(b));
  EXPECT_FALSE(equal(a, add(mul(y, int_imm(2)), int_imm(1))));
  EXPECT_FALSE(equal(a, add(mul(x, int_imm(3)), int_imm(1))));
  EXPECT_FALSE(equal(add(x, y), sub(x, y)));
  EXPECT_NE(hash(add(x, y)), hash(sub(x, y)));
  EXPECT_NE(hash(add(x, y)), hash(add(y, x)));
}

TEST(Equal, FloatConstantsCompareByBits) {
  EXPECT_FALSE(equal(imm(DType::kF32, 0.0), imm(DType::kF32, -0.0)));
  EXPECT_TRUE(equal(imm(DType::kF32, NAN), imm(DType::kF32, -NAN)));
  EXPECT_FALSE(equal(imm(DType::kF32, 1), imm(DType::kF64, 1)));
}

Stmt copy_loop(const Expr& var, const Buffer& from, const Buffer& to) {
  return For::make(var, 4, LoopKind::kSerial, Store::make(to, {var}, Load::make(from, {var})));
}

TEST(Equal, MatchesLoopVariablesAndAllocations) {
  const Buffer a = Buffer::make("a", DType::kF32, {4});
  const Buffer s = Buffer::make("s", DType::kF32, {4}, Scope::kStack);
  const Buffer t = Buffer::make("t", DType::kF32, {4}, Scope::kStack);
  const Buffer heap = Buffer::make("t", DType::kF32, {4}, Scope::kHeap);
  const Expr i = Var::make("i"), j = Var::make("j");
  const Stmt first = Allocate::make(s, copy_loop(i, a, s));
  EXPECT_TRUE(equal(first, Allocate::make(t, copy_loop(j, a, t))));
  EXPECT_FALSE(equal(first, Allocate::make(t, copy_loop(j, t, t))));
  EXPECT_FALSE(equal(first, Allocate::make(heap, copy_loop(j, a, heap))));
}

TEST(Equal, BoundVariableIsNotAFreeOne) {
  const Buffer a = Buffer::make("a", DType::kI64, {4});
  const Expr i = Var::make("i"), j = Var::make("j");
  const Stmt own = For::make(i, 4, LoopKind::kSerial, Store::make(a, {i}, i));
  const Stmt other = For::make(j, 4, LoopKind::kSerial, Store::make(a, {j}, i));
  EXPECT_FALSE(equal(own, other));
  EXPECT_FALSE(equal(other, own));
}

TEST(Equal, FunctionsMatchParametersByPosition) {
  const Buffer a = Buffer::make("a", DType::kF32, {4}), b = Buffer::make("b", DType::kF32, {4});
  const Expr i = Var::make("i");
  const Func f{"f", {a, b}, 1, copy_loop(i, a, b)};
  EXPECT_TRUE(equal(f, Func{"f", {b, a}, 1, copy_loop(i, b, a)}));
  EXPECT_FALSE(equal(f, Func{"f", {b, a}, 1, copy_loop(i, a, b)}));
  EXPECT_FALSE(equal(f, Func{"g", {a, b}, 1, f.body}));
  EXPECT_FALSE(equal(f, Func{"f", {a, b}, 2, f.body}));
}

}  // namespace
}  // namespace tessera::ir
