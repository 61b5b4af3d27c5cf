#include "tessera/lang/ir/visitor.h"

#include <gtest/gtest.h>

#include "tessera/lang/ir/build.h"
#include "tests/ir/random_func.h"

namespace tessera::ir {
namespace {

class Identity final : public Mutator {};

TEST(Mutator, KeepsTheHandleWhenNothingChanges) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const Func f = random_func(rng);
    EXPECT_TRUE(Identity()(f.body).same_as(f.body)) << "seed " << seed;
    EXPECT_TRUE(substitute(f.body, Var::make("absent"), int_imm(1)).same_as(f.body))
        << "seed " << seed;
  }
}

// Replaces every constant by a fresh equal one, so that every node above is rebuilt.
class Rebuild final : public Mutator {
  using Mutator::rewrite;
  Expr rewrite(const Expr& e, const IntImm& node) override {
    return IntImm::make(e.dtype(), node.value);
  }
  Expr rewrite(const Expr& e, const FloatImm& node) override {
    return FloatImm::make(e.dtype(), node.value);
  }
};

TEST(Mutator, RebuildsEqualTrees) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const Func f = random_func(rng);
    const Stmt rebuilt = Rebuild()(f.body);
    if (!rebuilt) continue;  // an empty program
    Func g = f;
    g.body = rebuilt;
    EXPECT_TRUE(equal(f, g)) << "seed " << seed;
  }
}

class DropStores final : public Mutator {
 public:
  explicit DropStores(Buffer b) : buffer_(std::move(b)) {}

 private:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s, const Store& node) override {
    return node.buffer.same_as(buffer_) ? Stmt() : s;
  }
  Buffer buffer_;
};

class Removal : public ::testing::Test {
 protected:
  Buffer a_ = Buffer::make("a", DType::kI64, {4});
  Buffer b_ = Buffer::make("b", DType::kI64, {4});
  Expr i_ = Var::make("i");
  Stmt store_a_ = Store::make(a_, {i_}, i_);
  Stmt store_b_ = Store::make(b_, {i_}, i_);
};

TEST_F(Removal, NullRemovesFromBlock) {
  EXPECT_TRUE(DropStores(a_)(Block::make({store_a_, store_b_})).same_as(store_b_));
}

TEST_F(Removal, LoopWithoutBodyDisappears) {
  EXPECT_FALSE(DropStores(a_)(For::make(i_, 4, LoopKind::kSerial, store_a_)));
  const Buffer t = Buffer::make("t", DType::kI64, {4}, Scope::kHeap);
  EXPECT_FALSE(DropStores(t)(Allocate::make(t, Store::make(t, {i_}, i_))));
}

TEST_F(Removal, ElseSurvivesWithNegatedCondition) {
  const Expr cond = lt(i_, int_imm(2));
  const Stmt s = DropStores(a_)(If::make(cond, store_a_, store_b_));
  EXPECT_TRUE(equal(s, If::make(logical_not(cond), store_b_)));
  EXPECT_TRUE(equal(DropStores(b_)(If::make(cond, store_a_, store_b_)), If::make(cond, store_a_)));
}

TEST_F(Removal, EverythingRemovedIsNull) {
  EXPECT_FALSE(DropStores(a_)(Block::make({store_a_, store_a_})));
}

class CountLoads final : public Visitor {
 public:
  int count = 0;

 private:
  using Visitor::visit;
  void visit(const Load& node) override {
    ++count;
    Visitor::visit(node);
  }
};

TEST(Visitor, VisitsBelowOverriddenNodes) {
  const Buffer a = Buffer::make("a", DType::kI64, {4});
  const Expr i = Var::make("i");
  const Expr gather = Load::make(a, {Load::make(a, {i})});
  CountLoads count;
  count(For::make(i, 4, LoopKind::kSerial, Store::make(a, {i}, gather)));
  EXPECT_EQ(count.count, 2);
}

TEST(Visitor, ForEachIsPreOrder) {
  const Expr i = Var::make("i"), j = Var::make("j");
  const Expr e = add(i, mul(j, int_imm(2)));
  std::vector<ExprKind> kinds;
  for_each_expr(e, [&](const Expr& x) { kinds.push_back(x.kind()); });
  EXPECT_EQ(kinds, (std::vector<ExprKind>{ExprKind::kBinary, ExprKind::kVar, ExprKind::kBinary,
                                          ExprKind::kVar, ExprKind::kIntImm}));
  const Buffer a = Buffer::make("a", DType::kI64, {4});
  std::vector<StmtKind> stmts;
  for_each_stmt(For::make(i, 4, LoopKind::kSerial, Store::make(a, {i}, e)),
                [&](const Stmt& s) { stmts.push_back(s.kind()); });
  EXPECT_EQ(stmts, (std::vector<StmtKind>{StmtKind::kFor, StmtKind::kStore}));
}

TEST(Visitor, BindingIsNotAUse) {
  const Buffer a = Buffer::make("a", DType::kI64, {4});
  const Expr i = Var::make("i"), j = Var::make("j");
  const Stmt s = For::make(i, 4, LoopKind::kSerial, Store::make(a, {j}, Load::make(a, {j})));
  EXPECT_FALSE(uses_var(s, i));
  EXPECT_TRUE(uses_var(s, j));
  EXPECT_TRUE(uses_var(Load::make(a, {j}), j));
  EXPECT_TRUE(reads_buffer(add(Load::make(a, {j}), j), a));
  EXPECT_FALSE(reads_buffer(j, a));
}

TEST(Substitute, ReplacesByIdentityAndFolds) {
  const Expr i = Var::make("i"), same_name = Var::make("i");
  const Expr e = add(mul(i, int_imm(4)), same_name);
  EXPECT_TRUE(equal(substitute(e, i, int_imm(3)), add(int_imm(12), same_name)));
  EXPECT_THROW(substitute(e, i, imm(DType::kF32, 1)), InternalError);
}

}  // namespace
}  // namespace tessera::ir
