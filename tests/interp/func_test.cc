// Hand-built functions: every statement, vector expressions, and the errors the interpreter
// reports.
#include <gtest/gtest.h>

#include "tessera/lang/interp/interp.h"
#include "tessera/lang/ir/build.h"
#include "tests/testing/testing.h"

namespace tessera::interp {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

Expr load(const Buffer& b, std::vector<Expr> i) { return ir::Load::make(b, std::move(i)); }
Stmt store(const Buffer& b, std::vector<Expr> i, Expr v) {
  return ir::Store::make(b, std::move(i), std::move(v));
}
Stmt loop(const Expr& var, std::int64_t extent, Stmt body,
          ir::LoopKind kind = ir::LoopKind::kSerial) {
  return ir::For::make(var, extent, kind, std::move(body));
}

HostTensor iota(DType t, std::int64_t n, std::int64_t first = 0) {
  HostTensor tensor(t, {n});
  for (std::int64_t i = 0; i < n; ++i) tensor.set_int(i, first + i);
  return tensor;
}

// Runs a function of one input x and one output y.
Result<HostTensor> run_one(const Buffer& x, const Buffer& y, const Stmt& body,
                           const HostTensor& input) {
  std::vector<HostTensor> params = {input, HostTensor(y->dtype, y->shape)};
  const auto ok = run(ir::Func{"f", {x, y}, 1, body}, params);
  if (!ok.ok()) return ok.error();
  return params[1];
}

void expect_ints(const HostTensor& got, const std::vector<std::int64_t>& want) {
  ASSERT_EQ(got.size(), static_cast<std::int64_t>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_EQ(got.get_int(static_cast<std::int64_t>(i)), want[i]) << i;
}

struct OneToOne {
  Buffer x, y;
  OneToOne(DType tx, std::int64_t nx, DType ty, std::int64_t ny)
      : x(Buffer::make("X", tx, {nx})), y(Buffer::make("Y", ty, {ny})) {}
};

TEST(InterpFunc, MatmulWithLocalAccumulator) {
  const Buffer a = Buffer::make("A", DType::kF32, {3, 5}),
               b = Buffer::make("B", DType::kF32, {5, 2});
  const Buffer c = Buffer::make("C", DType::kF32, {3, 2});
  const Buffer acc = Buffer::make("acc", DType::kF32, {1}, ir::Scope::kStack);
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j"), k = ir::Var::make("k"),
             zero = ir::int_imm(0);
  const Expr next = load(acc, {zero}) + load(a, {i, k}) * load(b, {k, j});
  const Stmt body = ir::Allocate::make(
      acc,
      ir::Block::make({store(acc, {zero}, ir::imm(DType::kF32, 0)),
                       loop(k, 5, store(acc, {zero}, next)), store(c, {i, j}, load(acc, {zero}))}));
  const Stmt nest = loop(i, 3, loop(j, 2, body), ir::LoopKind::kParallel);
  Rng rng(5);
  std::vector<HostTensor> params = {random_tensor(DType::kF32, {3, 5}, rng),
                                    random_tensor(DType::kF32, {5, 2}, rng),
                                    HostTensor(DType::kF32, {3, 2})};
  ASSERT_TRUE(run(ir::Func{"matmul", {a, b, c}, 1, nest}, params).ok());
  for (std::int64_t e = 0; e < 6; ++e) {
    float want = 0;
    for (std::int64_t q = 0; q < 5; ++q) {
      want += static_cast<float>(params[0].get_float(e / 2 * 5 + q)) *
              static_cast<float>(params[1].get_float(q * 2 + e % 2));
    }
    EXPECT_EQ(params[2].get_float(e), want);
  }
}

TEST(InterpFunc, EveryLoopKindRunsSerially) {
  const OneToOne p(DType::kI32, 4, DType::kI32, 4);
  for (const ir::LoopKind kind :
       {ir::LoopKind::kSerial, ir::LoopKind::kParallel, ir::LoopKind::kVectorized,
        ir::LoopKind::kUnrolled, ir::LoopKind::kBlockX, ir::LoopKind::kThreadY,
        ir::LoopKind::kVThread}) {
    const Expr i = ir::Var::make("i");
    const Stmt body = loop(i, 4, store(p.y, {i}, load(p.x, {i}) + 1), kind);
    expect_ints(run_one(p.x, p.y, body, iota(DType::kI32, 4)).value(), {1, 2, 3, 4});
  }
}

TEST(InterpFunc, SymbolicExtentAndIf) {
  const OneToOne p(DType::kI64, 4, DType::kI64, 4);
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  // Y[i] = number of j < X[i] that are odd, plus 10 where there is none.
  const Expr old = load(p.y, {i});
  const Stmt count =
      ir::If::make(ir::eq(ir::mod(j, ir::int_imm(2)), ir::int_imm(1)), store(p.y, {i}, old + 1));
  const Stmt tail = ir::If::make(ir::eq(old, ir::int_imm(0)), store(p.y, {i}, old + 10),
                                 store(p.y, {i}, old * 2));
  const Stmt body =
      loop(i, 4,
           ir::Block::make({store(p.y, {i}, ir::int_imm(0)),
                            ir::For::make(j, load(p.x, {i}), ir::LoopKind::kSerial, count), tail}));
  expect_ints(run_one(p.x, p.y, body, iota(DType::kI64, 4, 1)).value(), {10, 2, 2, 4});
}

TEST(InterpFunc, RampsReadAndWriteStrided) {
  const OneToOne p(DType::kI32, 8, DType::kI32, 8);
  const Expr even = ir::Ramp::make(ir::int_imm(0), 2, 4),
             reversed = ir::Ramp::make(ir::int_imm(7), -1, 4);
  const Expr dense = ir::Ramp::make(ir::int_imm(0), 1, 4),
             odd = ir::Ramp::make(ir::int_imm(1), 2, 4);
  const Stmt body = ir::Block::make(
      {store(p.y, {even}, load(p.x, {dense})), store(p.y, {odd}, load(p.x, {reversed}))});
  expect_ints(run_one(p.x, p.y, body, iota(DType::kI32, 8)).value(), {0, 7, 1, 6, 2, 5, 3, 4});
}

TEST(InterpFunc, BroadcastOfScalarAndOfVector) {
  const OneToOne p(DType::kI32, 2, DType::kI32, 4);
  const Expr all = ir::Ramp::make(ir::int_imm(0), 1, 4),
             pair = ir::Ramp::make(ir::int_imm(0), 1, 2);
  const Expr repeated = ir::Broadcast::make(load(p.x, {pair}), 4);  // abab
  const Expr ten = ir::Broadcast::make(ir::imm(DType::kI32, 10), 4);
  const Stmt body = store(p.y, {all}, ir::add(repeated, ten));
  expect_ints(run_one(p.x, p.y, body, iota(DType::kI32, 2, 1)).value(), {11, 12, 11, 12});
}

TEST(InterpFunc, ShuffleAndVectorOfRow) {
  const Buffer x = Buffer::make("X", DType::kI32, {2, 4}), y = Buffer::make("Y", DType::kI32, {5});
  const Expr row = load(x, {ir::int_imm(1), ir::Ramp::make(ir::int_imm(0), 1, 4)});
  const Stmt body = ir::Block::make(
      {store(y, {ir::Ramp::make(ir::int_imm(0), 1, 4)}, ir::Shuffle::make(row, {3, 3, 0, 1})),
       store(y, {ir::int_imm(4)}, ir::Shuffle::make(row, {2}))});
  HostTensor input(DType::kI32, {2, 4});
  for (std::int64_t i = 0; i < 8; ++i) input.set_int(i, i);
  expect_ints(run_one(x, y, body, input).value(), {7, 7, 4, 5, 6});
}

TEST(InterpFunc, VectorSelectIsLazyPerLane) {
  const OneToOne p(DType::kI32, 3, DType::kI32, 4);
  const Expr all = ir::Ramp::make(ir::int_imm(0), 1, 4);
  const Expr inside = ir::lt(all, ir::Broadcast::make(ir::int_imm(3), 4));
  const Expr value =
      ir::Select::make(inside, load(p.x, {all}), ir::Broadcast::make(ir::imm(DType::kI32, -1), 4));
  expect_ints(run_one(p.x, p.y, store(p.y, {all}, value), iota(DType::kI32, 3)).value(),
              {0, 1, 2, -1});
}

TEST(InterpFunc, StoreEvaluatesAllLanesFirst) {
  const OneToOne p(DType::kI32, 4, DType::kI32, 4);
  const Expr all = ir::Ramp::make(ir::int_imm(0), 1, 4),
             reversed = ir::Ramp::make(ir::int_imm(3), -1, 4);
  const Stmt body = ir::Block::make(
      {store(p.y, {all}, load(p.x, {all})), store(p.y, {all}, load(p.y, {reversed}))});
  expect_ints(run_one(p.x, p.y, body, iota(DType::kI32, 4)).value(), {3, 2, 1, 0});
}

TEST(InterpFunc, Dot4MixesGroupsOfFour) {
  const OneToOne p(DType::kI8, 8, DType::kI32, 2);
  const Expr v = load(p.x, {ir::Ramp::make(ir::int_imm(0), 1, 8)});
  const Expr acc = ir::Broadcast::make(ir::imm(DType::kI32, 100), 2);
  const Stmt body = store(p.y, {ir::Ramp::make(ir::int_imm(0), 1, 2)},
                          ir::call(ir::Intrinsic::kDot4, {acc, v, v}));
  expect_ints(run_one(p.x, p.y, body, iota(DType::kI8, 8, -4)).value(),
              {100 + 16 + 9 + 4 + 1, 100 + 0 + 1 + 4 + 9});
}

TEST(InterpFunc, Dot2OfBf16) {
  const OneToOne p(DType::kBF16, 4, DType::kF32, 2);
  const Expr v = load(p.x, {ir::Ramp::make(ir::int_imm(0), 1, 4)});
  const Expr acc = ir::Broadcast::make(ir::imm(DType::kF32, 0.5), 2);
  const Stmt body = store(p.y, {ir::Ramp::make(ir::int_imm(0), 1, 2)},
                          ir::call(ir::Intrinsic::kDot2, {acc, v, v}));
  const HostTensor y = run_one(p.x, p.y, body, iota(DType::kBF16, 4)).value();
  EXPECT_EQ(y.get_float(0), 0.5 + 0 + 1);
  EXPECT_EQ(y.get_float(1), 0.5 + 4 + 9);
}

TEST(InterpFunc, Mma2x8AndMma2x4AreRowsTimesRows) {
  const auto check = [](DType in, DType out, ir::Intrinsic fn, std::int64_t depth) {
    const OneToOne p(in, 2 * depth, out, 4);
    const Expr v = load(p.x, {ir::Ramp::make(ir::int_imm(0), 1, static_cast<int>(2 * depth))});
    const Expr acc = ir::Broadcast::make(ir::imm(out, 1), 4);
    const Stmt body = store(p.y, {ir::Ramp::make(ir::int_imm(0), 1, 4)}, ir::call(fn, {acc, v, v}));
    const HostTensor y = run_one(p.x, p.y, body, iota(in, 2 * depth)).value();
    for (std::int64_t i = 0; i < 4; ++i) {
      std::int64_t want = 1;
      for (std::int64_t q = 0; q < depth; ++q) want += (i / 2 * depth + q) * (i % 2 * depth + q);
      EXPECT_EQ(y.get_int(i), want) << i;
    }
  };
  check(DType::kU8, DType::kI32, ir::Intrinsic::kMma2x8, 8);
  check(DType::kBF16, DType::kF32, ir::Intrinsic::kMma2x4, 4);
}

TEST(InterpFunc, PrefetchNeverFaults) {
  const OneToOne p(DType::kI32, 2, DType::kI32, 2);
  const Expr i = ir::Var::make("i");
  const Expr ahead = ir::call(ir::Intrinsic::kPrefetch, {load(p.x, {i + 64})});
  const Stmt body =
      loop(i, 2, ir::Block::make({ir::Evaluate::make(ahead), store(p.y, {i}, load(p.x, {i}))}));
  expect_ints(run_one(p.x, p.y, body, iota(DType::kI32, 2, 5)).value(), {5, 6});
}

void expect_failure(const Result<HostTensor>& result, ErrorCode code, const std::string& message) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, code);
  EXPECT_EQ(result.error().message, message);
}

TEST(InterpFunc, ReportsOutOfBoundsRead) {
  const OneToOne p(DType::kI32, 3, DType::kI32, 4);
  const Expr i = ir::Var::make("i");
  expect_failure(
      run_one(p.x, p.y, loop(i, 4, store(p.y, {i}, load(p.x, {i}))), iota(DType::kI32, 3)),
      ErrorCode::kRunFailed, "f: out-of-bounds read of X[3], shape 3");
}

TEST(InterpFunc, ReportsOutOfBoundsStoreOfALane) {
  const OneToOne p(DType::kI32, 4, DType::kI32, 3);
  const Expr all = ir::Ramp::make(ir::int_imm(0), 1, 4);
  expect_failure(run_one(p.x, p.y, store(p.y, {all}, load(p.x, {all})), iota(DType::kI32, 4)),
                 ErrorCode::kRunFailed, "f: out-of-bounds store of Y[3], shape 3");
}

TEST(InterpFunc, ReportsNegativeIndex) {
  const OneToOne p(DType::kI32, 4, DType::kI32, 4);
  const Stmt body = store(p.y, {ir::int_imm(0)}, load(p.x, {ir::int_imm(-1)}));
  expect_failure(run_one(p.x, p.y, body, iota(DType::kI32, 4)), ErrorCode::kRunFailed,
                 "f: out-of-bounds read of X[-1], shape 4");
}

TEST(InterpFunc, ReportsUndefinedTemporary) {
  const OneToOne p(DType::kI32, 4, DType::kI32, 4);
  const Buffer t = Buffer::make("T", DType::kI32, {4}, ir::Scope::kHeap);
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Stmt body =
      ir::Allocate::make(t, ir::Block::make({loop(i, 3, store(t, {i}, load(p.x, {i}))),
                                             loop(j, 4, store(p.y, {j}, load(t, {j})))}));
  expect_failure(run_one(p.x, p.y, body, iota(DType::kI32, 4)), ErrorCode::kRunFailed,
                 "f: read of undefined element 3 of T");
}

TEST(InterpFunc, TemporariesForgetBetweenAllocations) {
  const OneToOne p(DType::kI32, 2, DType::kI32, 2);
  const Buffer t = Buffer::make("T", DType::kI32, {1}, ir::Scope::kStack);
  const Expr i = ir::Var::make("i"), zero = ir::int_imm(0);
  const Stmt first_only = ir::If::make(ir::eq(i, zero), store(t, {zero}, load(p.x, {i})));
  const Stmt body = loop(
      i, 2, ir::Allocate::make(t, ir::Block::make({first_only, store(p.y, {i}, load(t, {zero}))})));
  expect_failure(run_one(p.x, p.y, body, iota(DType::kI32, 2)), ErrorCode::kRunFailed,
                 "f: read of undefined element 0 of T");
}

TEST(InterpFunc, ReportsOutputReadBeforeItIsWritten) {
  const OneToOne p(DType::kI32, 2, DType::kI32, 2);
  const Expr zero = ir::int_imm(0);
  expect_failure(run_one(p.x, p.y, store(p.y, {zero}, load(p.y, {zero}) + 1), iota(DType::kI32, 2)),
                 ErrorCode::kRunFailed, "f: read of undefined element 0 of Y");
}

TEST(InterpFunc, RefusesUnboundNames) {
  const OneToOne p(DType::kI32, 2, DType::kI32, 2);
  const Expr z = ir::Var::make("z");
  expect_failure(run_one(p.x, p.y, store(p.y, {z}, load(p.x, {z})), iota(DType::kI32, 2)),
                 ErrorCode::kInvalidArgument, "f: variable z is not bound");
  const Buffer q = Buffer::make("Q", DType::kI32, {2});
  const Expr zero = ir::int_imm(0);
  expect_failure(run_one(p.x, p.y, store(p.y, {zero}, load(q, {zero})), iota(DType::kI32, 2)),
                 ErrorCode::kInvalidArgument,
                 "f: buffer Q is neither a parameter nor allocated here");
}

TEST(InterpFunc, RefusesWrongParameters) {
  const OneToOne p(DType::kI32, 2, DType::kI32, 2);
  expect_failure(run_one(p.x, p.y, Stmt(), iota(DType::kI64, 2)), ErrorCode::kInvalidArgument,
                 "f: parameter X is i64 2, i32 2 is needed");
  std::vector<HostTensor> none;
  const auto ok = run(ir::Func{"f", {p.x, p.y}, 1, Stmt()}, none);
  ASSERT_FALSE(ok.ok());
  EXPECT_EQ(ok.error().message, "f: 0 parameters given, 2 needed");
}

}  // namespace
}  // namespace tessera::interp
