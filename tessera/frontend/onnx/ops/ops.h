// The families of ONNX operators that make up the import table; each is one file of this folder.
#pragma once

#include <vector>

#include "tessera/frontend/onnx/ops/op.h"

namespace tessera::onnx {

std::vector<OnnxOp> constant_rows();
std::vector<OnnxOp> pointwise_rows();
std::vector<OnnxOp> activation_rows();
std::vector<OnnxOp> quantization_rows();
std::vector<OnnxOp> movement_rows();
std::vector<OnnxOp> indexing_rows();
std::vector<OnnxOp> host_rows();
std::vector<OnnxOp> contraction_rows();
std::vector<OnnxOp> convolution_rows();
std::vector<OnnxOp> deform_conv_rows();  // a part of convolution_rows
std::vector<OnnxOp> pooling_rows();
std::vector<OnnxOp> random_rows();
std::vector<OnnxOp> reduction_rows();
std::vector<OnnxOp> normalization_rows();
std::vector<OnnxOp> recurrent_rows();
std::vector<OnnxOp> control_flow_rows();
std::vector<OnnxOp> sequence_rows();
std::vector<OnnxOp> vision_rows();
std::vector<OnnxOp> attention_rows();
// Parts of attention_rows.
std::vector<OnnxOp> linear_attention_rows();
std::vector<OnnxOp> rotary_embedding_rows();
std::vector<OnnxOp> group_query_attention_rows();
std::vector<OnnxOp> multi_head_rows();
std::vector<OnnxOp> contrib_rows();
std::vector<OnnxOp> signal_rows();
std::vector<OnnxOp> text_rows();
std::vector<OnnxOp> training_rows();

}  // namespace tessera::onnx
