// The softmax family, whose two semantics losses share.
#pragma once

#include "tessera/frontend/onnx/ops/formula.h"

namespace tessera::onnx {

// x - log(sum of exp(x)) along `axis`, without overflow.
Term log_softmax(Formula& f, Term x, std::int64_t axis);

std::vector<OnnxOp> softmax_rows();  // Softmax, LogSoftmax, Hardmax
std::vector<OnnxOp> loss_rows();     // NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss

}  // namespace tessera::onnx
