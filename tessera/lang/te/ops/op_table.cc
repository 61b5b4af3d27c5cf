#include "tessera/lang/te/op_spec.h"
#include "tessera/lang/te/ops/ops.h"

namespace tessera::te {

const std::vector<OpEntry>& op_table() {
  static const std::vector<OpEntry> table = {
      attention_op(), avgpool2d_op(),        bmm_op(),       conv1d_op(),    conv2d_op(),
      conv3d_op(),    conv_transpose2d_op(), dense_op(),     depthwise_op(), eltwise_op(),
      gather_op(),    globalavgpool_op(),    layernorm_op(), matmul_op(),    maxpool2d_op(),
      reduce_op(),    rmsnorm_op(),          softmax_op(),   transpose_op(),
  };
  return table;
}

}  // namespace tessera::te
