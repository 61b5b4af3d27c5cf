// The rows of the operation table, one function per operation; op_table.cc lists them.
#pragma once

#include "tessera/lang/te/op_spec.h"

namespace tessera::te {

OpEntry attention_op();
OpEntry avgpool2d_op();
OpEntry bmm_op();
OpEntry conv1d_op();
OpEntry conv2d_op();
OpEntry conv3d_op();
OpEntry conv_transpose2d_op();
OpEntry dense_op();
OpEntry depthwise_op();
OpEntry eltwise_op();
OpEntry gather_op();
OpEntry globalavgpool_op();
OpEntry layernorm_op();
OpEntry matmul_op();
OpEntry maxpool2d_op();
OpEntry reduce_op();
OpEntry rmsnorm_op();
OpEntry softmax_op();
OpEntry transpose_op();

}  // namespace tessera::te
