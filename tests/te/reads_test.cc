#include "tessera/lang/te/reads.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"

namespace tessera::te {
namespace {

std::vector<Access> reads_of_stage(const char* spec, const std::string& stage) {
  const Dag dag = make_dag(parse_op_spec(spec).value()).value();
  for (const Op& op : dag.ops) {
    if (op.name == stage) return reads_of(op);
  }
  ADD_FAILURE() << spec << " has no stage " << stage;
  return {};
}

TEST(Reads, IndicesAreSumsOverTheAxes) {
  // C(i,j|k) reads A[i,k] and B[k,j].
  const std::vector<Access> reads = reads_of_stage("matmul:M=4,N=6,K=8", "C");
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].strides, (std::vector<std::int64_t>{8, 0, 1}));
  EXPECT_EQ(reads[1].strides, (std::vector<std::int64_t>{0, 1, 6}));
  EXPECT_EQ(reads[0].indices[1].single_axis(), 2);
  EXPECT_TRUE(reads[0].regular() && !reads[0].conditional);
  EXPECT_FALSE(reads[0].uses(1));
}

TEST(Reads, PaddingIsBelowACondition) {
  const std::vector<Access> reads =
      reads_of_stage("conv2d:N=1,H=8,W=8,CI=4,CO=4,KH=3,KW=3,P=1", "pad");
  ASSERT_EQ(reads.size(), 1u);
  EXPECT_TRUE(reads[0].conditional);
}

TEST(Reads, WindowsAddTwoAxesInOneIndex) {
  // Y(n,oh,ow,co|kh,kw,ci) reads pad[n, 2 * oh + kh, 2 * ow + kw, ci].
  const std::vector<Access> reads =
      reads_of_stage("conv2d:N=1,H=9,W=9,CI=4,CO=4,KH=3,KW=3,S=2", "Y");
  ASSERT_EQ(reads.size(), 2u);
  const Index& row = reads[0].indices[1];
  ASSERT_EQ(row.terms.size(), 2u);
  EXPECT_EQ(row.single_axis(), -1);
  EXPECT_EQ(row.terms[0].axis, 1u);
  EXPECT_EQ(row.terms[0].coefficient, 2);
  EXPECT_EQ(row.terms[1].axis, 4u);
}

TEST(Reads, ReadsInsideIndicesComeBehind) {
  const std::vector<Access> reads = reads_of_stage("gather:R=10,C=4,I=6", "Y");
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_FALSE(reads[0].regular());
  EXPECT_TRUE(reads[0].uses(0) && reads[0].uses(1));
  EXPECT_EQ(reads[1].buffer->name, "idx");
  EXPECT_EQ(reads[1].strides, (std::vector<std::int64_t>{1, 0}));
}

}  // namespace
}  // namespace tessera::te
