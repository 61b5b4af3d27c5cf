#include "tessera/scheduling/feature/operator_embedding.h"

#include <gtest/gtest.h>

#include "feature_case.h"

namespace tessera::feature {
namespace {

NamedRow embedding_of(const te::Dag& dag) {
  std::vector<float> values;
  append_operator_embedding(dag, &values);
  NamedRow row;
  for (std::size_t i = 0; i < values.size(); ++i) row[operator_embedding_names().at(i)] = values[i];
  return row;
}

// The kinds that are set, in the order of the table.
std::string kinds(const std::string& spec) {
  NamedRow row = embedding_of(dag_of(spec));
  std::string out;
  for (const char* kind :
       {"contraction", "convolution", "depthwise", "batched", "transform", "softmax", "pooling"}) {
    if (row.at(kind) != 0) out += (out.empty() ? "" : " ") + std::string(kind);
  }
  return out;
}

TEST(OperatorEmbedding, TellsKindsByStructure) {
  EXPECT_EQ(operator_embedding_names().size(), 10u);
  EXPECT_EQ(kinds("matmul:M=7,N=3,K=5"), "contraction");
  EXPECT_EQ(kinds("matmul:M=7,N=3,K=5,dtype=i8"), "contraction");
  EXPECT_EQ(kinds("bmm:B=2,M=7,N=3,K=5"), "contraction batched");
  EXPECT_EQ(kinds("conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1"), "contraction convolution");
  EXPECT_EQ(kinds("depthwise:N=1,H=9,W=7,C=4,KH=3,KW=3,P=1"), "contraction depthwise batched");
  EXPECT_EQ(kinds("conv2d:N=1,H=9,W=7,CI=4,CO=6,KH=3,KW=3,P=1,algo=winograd4"),
            "contraction batched transform");
  EXPECT_EQ(kinds("maxpool2d:N=1,H=9,W=7,C=4,KH=3,KW=3,S=2,P=1"), "pooling");
  EXPECT_EQ(kinds("softmax:R=3,C=10"), "softmax");
  EXPECT_EQ(kinds("eltwise:N=11,fn=add"), "");
}

TEST(OperatorEmbedding, MeasuresSizes) {
  NamedRow row = embedding_of(product_dag(4, 8, 16));
  EXPECT_EQ(row.at("stages"), 1);
  EXPECT_NEAR(row.at("flops"), log_of(2 * 4 * 8 * 16), 1e-3);
  EXPECT_NEAR(row.at("bytes"), log_of(4 * (4 * 16 + 16 * 8 + 4 * 8)), 1e-3);
}

TEST(OperatorEmbedding, EmptyShapesAreSizesToo) {
  NamedRow row = embedding_of(product_dag(0, 8, 16));
  EXPECT_EQ(row.at("contraction"), 1);
  EXPECT_EQ(row.at("flops"), 0);
}

}  // namespace
}  // namespace tessera::feature
