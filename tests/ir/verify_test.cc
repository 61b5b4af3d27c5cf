#include "tessera/lang/ir/verify.h"

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"

namespace tessera::ir {
namespace {

// Nodes are made with `new` where make() would refuse them.
class Verify : public ::testing::Test {
 protected:
  std::string error(const Stmt& body) const { return error(Func{"f", {in_, out_}, 1, body}); }
  static std::string error(const Func& f) {
    const auto result = verify(f);
    if (result.ok()) return "";
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    return result.error().message;
  }
  Stmt loop(const Stmt& body, LoopKind kind = LoopKind::kSerial) const {
    return For::make(i_, 4, kind, body);
  }
  Stmt store(const Expr& value) const { return Store::make(out_, {int_imm(0), int_imm(0)}, value); }
  static Stmt raw_store(const Buffer& b, std::vector<Expr> indices, const Expr& value) {
    return Stmt(new Store(b, std::move(indices), value));
  }

  Buffer in_ = Buffer::make("A", DType::kF32, {4});
  Buffer out_ = Buffer::make("B", DType::kF32, {4, 8});
  Buffer temp_ = Buffer::make("t", DType::kF32, {4}, Scope::kStack);
  Expr i_ = Var::make("i");
  Expr one_ = imm(DType::kF32, 1);
};

TEST_F(Verify, AcceptsAWellFormedFunction) {
  const Stmt fill = loop(Store::make(temp_, {i_}, Load::make(in_, {i_})));
  EXPECT_EQ(error(Allocate::make(
                temp_, Block::make({fill, loop(Store::make(out_, {i_, Ramp::make(i_, 1, 4)},
                                                           imm_like({DType::kF32, 4}, 1)))}))),
            "");
}

TEST_F(Verify, UnboundVariable) {
  EXPECT_EQ(error(Store::make(out_, {i_, int_imm(0)}, one_)), "f: unbound variable: i");
  EXPECT_EQ(error(Block::make({loop(store(one_)), Store::make(out_, {i_, int_imm(0)}, one_)})),
            "f: unbound variable: i");
}

TEST_F(Verify, ExtentIsOutsideTheScopeOfItsVariable) {
  EXPECT_EQ(error(For::make(i_, i_, LoopKind::kSerial, store(one_))), "f: unbound variable: i");
}

TEST_F(Verify, VariableBoundTwice) {
  EXPECT_EQ(error(loop(loop(store(one_)))), "f: variable is bound twice: for i in 4 {");
  EXPECT_EQ(error(Block::make({loop(store(one_)), loop(store(one_))})), "");
}

TEST_F(Verify, BufferOutsideItsAllocation) {
  const Stmt use = Store::make(temp_, {int_imm(0)}, one_);
  EXPECT_EQ(error(use), "f: buffer t is not in scope: t[0] = 1.0");
  EXPECT_EQ(error(Block::make({Allocate::make(temp_, use), use})),
            "f: buffer t is not in scope: t[0] = 1.0");
  EXPECT_EQ(error(store(Load::make(temp_, {int_imm(0)}))), "f: buffer t is not in scope: t[0]");
}

TEST_F(Verify, BufferAllocatedTwice) {
  EXPECT_EQ(error(Allocate::make(temp_, Allocate::make(temp_, store(one_)))),
            "f: buffer is allocated twice: alloc t: f32[4] stack {");
}

TEST_F(Verify, AllocationInParamScope) {
  const Buffer b = Buffer::make("p", DType::kF32, {4});
  EXPECT_EQ(error(Stmt(new Allocate(b, store(one_)))),
            "f: allocation in the param scope: alloc p: f32[4] {");
}

TEST_F(Verify, Parameters) {
  EXPECT_EQ(error(Func{"f", {temp_, out_}, 1, store(one_)}),
            "f: parameter t does not have the param scope");
  EXPECT_EQ(error(Func{"f", {in_, in_, out_}, 1, store(one_)}), "f: parameter A is listed twice");
  EXPECT_EQ(error(Func{"f", {Buffer(), out_}, 1, store(one_)}), "f: missing parameter");
}

TEST_F(Verify, OutputCount) {
  EXPECT_EQ(error(Func{"f", {in_, out_}, 3, store(one_)}), "f: output count 3 with 2 parameters");
  EXPECT_EQ(error(Func{"f", {in_, out_}, -1, store(one_)}), "f: output count -1 with 2 parameters");
}

TEST_F(Verify, StoreToAnInput) {
  EXPECT_EQ(error(Store::make(in_, {int_imm(0)}, one_)), "f: store to an input: A[0] = 1.0");
}

TEST_F(Verify, RankMismatch) {
  EXPECT_EQ(error(raw_store(out_, {int_imm(0)}, one_)),
            "f: one index per dimension is needed: B[0] = 1.0");
  EXPECT_EQ(error(store(Expr(new Load({DType::kF32, 1}, in_, {})))),
            "f: one index per dimension is needed: A[]");
}

TEST_F(Verify, IndexType) {
  EXPECT_EQ(error(raw_store(out_, {int_imm(0), one_}, one_)),
            "f: index is not i64: B[0, 1.0] = 1.0");
}

TEST_F(Verify, VectorIndexIsTheLast) {
  const Expr ramp = Ramp::make(int_imm(0), 1, 4);
  const Expr ones = imm_like({DType::kF32, 4}, 1);
  EXPECT_EQ(error(Store::make(out_, {ramp, int_imm(0)}, ones)),
            "f: vector index is not the last: B[ramp(0, 1, 4), 0] = broadcast(1.0, 4)");
  EXPECT_EQ(error(Store::make(out_, {ramp, ramp}, ones)),
            "f: vector index is not the last: B[ramp(0, 1, 4), ramp(0, 1, 4)] = broadcast(1.0, 4)");
}

TEST_F(Verify, ConstantIndexOutOfBounds) {
  const Expr ones = imm_like({DType::kF32, 4}, 1);
  EXPECT_EQ(error(Store::make(out_, {int_imm(4), int_imm(0)}, one_)),
            "f: index out of bounds in dimension 0 of 4: B[4, 0] = 1.0");
  EXPECT_EQ(error(store(Load::make(in_, {int_imm(-1)}))),
            "f: index out of bounds in dimension 0 of 4: A[-1]");
  EXPECT_EQ(error(Store::make(out_, {int_imm(0), Ramp::make(int_imm(6), 1, 4)}, ones)),
            "f: index out of bounds in dimension 1 of 8: B[0, ramp(6, 1, 4)] = broadcast(1.0, 4)");
  EXPECT_EQ(error(Store::make(out_, {int_imm(0), Ramp::make(int_imm(7), -2, 4)}, ones)), "");
}

TEST_F(Verify, GuardedConstantIndexMayBeOutOfBounds) {
  const Expr outside = Load::make(in_, {int_imm(-1)});
  EXPECT_EQ(error(store(Select::make(bool_imm(false), outside, one_))), "");
  EXPECT_EQ(error(If::make(bool_imm(false), store(outside))), "");
  EXPECT_EQ(error(For::make(i_, 0, LoopKind::kSerial, store(outside))), "");
  EXPECT_EQ(error(Evaluate::make(Call::make(Intrinsic::kPrefetch, {outside}))), "");
  EXPECT_NE(error(Block::make({If::make(bool_imm(false), store(outside)), store(outside)})), "");
}

TEST_F(Verify, OperandTypes) {
  const Expr sum(new Binary({DType::kF32, 1}, BinaryOp::kAdd, one_, int_imm(1)));
  EXPECT_EQ(error(store(sum)), "f: operands differ in type: 1.0 + 1");
}

TEST_F(Verify, ResultType) {
  const Expr compare(new Binary({DType::kF32, 1}, BinaryOp::kLt, one_, one_));
  EXPECT_EQ(error(store(compare)), "f: type mismatch, f32 instead of bool: 1.0 < 1.0");
  const Expr load(new Load({DType::kF32, 2}, in_, {int_imm(0)}));
  EXPECT_EQ(error(store(Shuffle::make(load, {0}))), "f: type mismatch, f32x2 instead of f32: A[0]");
  const Expr wide(new Cast({DType::kF32, 2}, one_));
  EXPECT_EQ(error(store(Shuffle::make(wide, {0}))),
            "f: type mismatch, f32x2 instead of f32: cast<f32>(1.0)");
  const Expr exp(new Call({DType::kF64, 1}, Intrinsic::kExp, {one_}));
  EXPECT_EQ(error(store(Cast::make(DType::kF32, exp))),
            "f: type mismatch, f64 instead of f32: exp(1.0)");
}

TEST_F(Verify, SelectRampBroadcastShuffleBitcast) {
  EXPECT_EQ(error(store(Expr(new Select({DType::kF32, 1}, int_imm(1), one_, one_)))),
            "f: select needs a bool condition: select(1, 1.0, 1.0)");
  const Expr ramp(new Ramp({DType::kI64, 4}, one_, 1));
  EXPECT_EQ(error(Evaluate::make(ramp)), "f: ramp needs a scalar i64 base: ramp(1.0, 1, 4)");
  const Expr broadcast(new Broadcast({DType::kF32, 3}, imm_like({DType::kF32, 2}, 1)));
  EXPECT_EQ(
      error(Evaluate::make(broadcast)),
      "f: broadcast lanes are not a multiple of the value's: broadcast(broadcast(1.0, 2), 3)");
  const Expr shuffle(new Shuffle({DType::kF32, 1}, one_, {3}));
  EXPECT_EQ(error(Evaluate::make(shuffle)),
            "f: shuffle picks a lane that does not exist: shuffle(1.0, [3])");
  const Expr bitcast(new Call({DType::kI8, 1}, Intrinsic::kBitcast, {one_}));
  EXPECT_EQ(error(Evaluate::make(bitcast)), "f: bitcast between different sizes: bitcast<i8>(1.0)");
}

TEST_F(Verify, ConstantsFitTheirType) {
  EXPECT_EQ(error(Evaluate::make(Expr(new IntImm({DType::kU8, 1}, 300)))),
            "f: constant does not fit its type: 300u8");
  EXPECT_NE(error(Evaluate::make(Expr(new FloatImm({DType::kF32, 1}, 0.1)))), "");
  EXPECT_NE(error(Evaluate::make(Expr(new FloatImm({DType::kF32, 4}, 0.5)))), "");
}

TEST_F(Verify, StoreLanes) {
  EXPECT_EQ(error(raw_store(out_, {int_imm(0), int_imm(0)}, imm_like({DType::kF32, 4}, 1))),
            "f: store of f32x4 to f32: B[0, 0] = broadcast(1.0, 4)");
  EXPECT_EQ(error(raw_store(out_, {int_imm(0), int_imm(0)}, int_imm(1))),
            "f: store of i64 to f32: B[0, 0] = 1");
}

TEST_F(Verify, LoopForm) {
  EXPECT_EQ(error(Stmt(new For(int_imm(0), int_imm(4), LoopKind::kSerial, store(one_)))),
            "f: loop variable is not an i64 variable");
  EXPECT_EQ(error(Stmt(new For(i_, one_, LoopKind::kSerial, store(one_)))),
            "f: loop extent is not a scalar i64");
  EXPECT_EQ(error(For::make(i_, -1, LoopKind::kSerial, store(one_))),
            "f: negative loop extent: for i in -1 {");
}

TEST_F(Verify, ConstantExtents) {
  const Expr j = Var::make("j");
  for (const LoopKind kind : {LoopKind::kVectorized, LoopKind::kUnrolled}) {
    EXPECT_EQ(error(loop(For::make(j, i_, kind, store(one_)))),
              fmt::format("f: loop extent is not constant: {} j in i {{", to_text(kind)));
  }
  EXPECT_EQ(error(loop(For::make(j, i_, LoopKind::kSerial, store(one_)))), "");
}

TEST_F(Verify, ParallelInsideVectorized) {
  const Expr j = Var::make("j");
  EXPECT_EQ(error(loop(For::make(j, 4, LoopKind::kParallel, store(one_)), LoopKind::kVectorized)),
            "f: parallel loop in a vectorized loop: parallel j in 4 {");
  EXPECT_EQ(error(loop(For::make(j, 4, LoopKind::kVectorized, store(one_)), LoopKind::kParallel)),
            "");
}

TEST_F(Verify, ConditionType) {
  EXPECT_EQ(error(Stmt(new If(int_imm(1), store(one_), Stmt()))),
            "f: condition is not a scalar bool");
}

TEST_F(Verify, MissingParts) {
  EXPECT_EQ(error(Stmt()), "f: missing body of the function");
  EXPECT_EQ(error(Stmt(new For(i_, int_imm(4), LoopKind::kSerial, Stmt()))),
            "f: missing body of a loop");
  EXPECT_EQ(error(Stmt(new Block({Stmt()}))), "f: missing statement of a block");
  EXPECT_EQ(error(raw_store(out_, {int_imm(0), int_imm(0)}, Expr())),
            "f: missing value of a store");
  EXPECT_EQ(error(store(Expr(new Binary({DType::kF32, 1}, BinaryOp::kAdd, one_, Expr())))),
            "f: missing operand: 1.0 + <null>");
}

}  // namespace
}  // namespace tessera::ir
