#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"

namespace tessera::graph {
namespace {

// Passes rely on what follows from a fact.
TEST(Facts, AgreeWithEachOther) {
  const auto implies = [](bool a, bool b) { return !a || b; };
  for (const OpDef& op : op_table()) {
    EXPECT_TRUE(implies(op.is(fact::kTransposed), op.is(fact::kConvolves))) << op.name;
    EXPECT_TRUE(implies(op.is(fact::kConvolves), op.is(fact::kImages))) << op.name;
    EXPECT_TRUE(
        implies(op.is(fact::kConvolves | fact::kContracts), op.fusion == Fusion::kContraction))
        << op.name;
    EXPECT_TRUE(implies(op.is(fact::kNormalizes | fact::kReduces), op.fusion == Fusion::kReduction))
        << op.name;
    EXPECT_TRUE(implies(op.is(fact::kReshapes), op.fusion == Fusion::kAlias)) << op.name;
    EXPECT_TRUE(implies(op.is(fact::kPermutes | fact::kReshapes | fact::kContracts),
                        !op.is(fact::kKeepsAxes)))
        << op.name;
    EXPECT_FALSE(op.is(fact::kAxis) && op.is(fact::kAxes)) << op.name;
  }
}

TEST(Facts, BelongToOneRowOrSeveral) {
  EXPECT_TRUE(find_op("conv_transpose")->is(fact::kTransposed));
  EXPECT_FALSE(find_op("conv")->is(fact::kTransposed));
  EXPECT_TRUE(find_op("pad")->is(fact::kPerAxis));
  EXPECT_TRUE(find_op("gather_elements")->is(fact::kIndexes));
  EXPECT_EQ(find_op("add")->facts, 0U) << "pointwise operators keep axes by their fusion";
}

}  // namespace
}  // namespace tessera::graph
