#include "tessera/lang/te/ops/columns.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"

namespace tessera::te {
namespace {

TEST(Columns, WeightsHaveChannelsInnermostAndZerosAtTheEnd) {
  HostTensor w(DType::kF16, {2, 3, 3, 2});
  w.set_float(((1 * 3 + 2) * 3 + 1) * 2 + 1, 5);  // co = 1, ci = 2, tap (1, 1)
  const HostTensor packed = column_weights(w);
  ASSERT_EQ(packed.shape(), (Shape{2, 32}));
  EXPECT_EQ(packed.shape(), column_weights_shape(w.shape()));
  for (std::int64_t i = 0; i < packed.size(); ++i) {
    EXPECT_EQ(packed.get_float(i), i == 32 + (1 * 2 + 1) * 3 + 2 ? 5 : 0) << i;
  }
}

TEST(Columns, RefusesOtherTypesLayoutsGroupsAndManyChannels) {
  const std::string start = "conv2d:N=1,H=9,W=7,CO=4,KH=3,KW=3,algo=im2col,";
  const auto made = [&](const char* rest) {
    return make_dag(parse_op_spec(start + rest).value()).ok();
  };
  EXPECT_TRUE(made("CI=4,dtype=bf16"));
  EXPECT_FALSE(made("CI=4"));
  EXPECT_FALSE(made("CI=16,dtype=f16"));
  EXPECT_FALSE(made("CI=4,G=2,dtype=f16"));
  EXPECT_FALSE(made("CI=4,layout=nchw,dtype=f16"));
}

}  // namespace
}  // namespace tessera::te
