// Convolutions as products of two matrices: every window of the image is a row of one of them
// (im2col). Sums of few channels become long enough for tensor cores.
#pragma once

#include "tessera/lang/te/op_spec.h"
#include "tessera/lang/te/ops/window.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {

inline constexpr const char* kColumnsAlgorithm = "im2col";  // a value of `algo` of conv2d

// The length of a row: the elements of a window, and zeros up to a multiple of 16.
std::int64_t column_count(const std::vector<Window>& windows, std::int64_t channels);

// Stages over image x[n, sizes.., c]: `name`.pad where windows are padded, and `name`[n, o.., k],
// whose k counts the elements of a window, channels innermost; `name`[n, o.., window.., c] where
// the channels are whole steps of tensor cores.
ir::Buffer columns_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                         const std::vector<Window>& windows);

Shape columns_shape(const std::vector<Window>& windows, std::int64_t images, std::int64_t channels);

// The Dag of conv2d with algo=im2col, of f16 or bf16 and fewer than 16 channels. Its constant input
// is not the weights: make it with column_weights.
Result<Dag> make_columns(const OpSpec& spec);

// The weights w[co, ci, k..] as [co, k] in the order of columns_stage.
HostTensor column_weights(const HostTensor& w);
Shape column_weights_shape(const Shape& w);

}  // namespace tessera::te
