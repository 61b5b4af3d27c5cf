// The text form of one benchmark operation, e.g.
// "conv2d:N=1,H=56,W=56,CI=64,CO=64,KH=3,KW=3,S=1,P=1".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::peers {

enum class OpKind { kMatmul, kBmm, kDense, kConv2d, kDepthwise, kSoftmax, kLayernorm };
enum class Layout { kNhwc, kNchw };

// A 2-D convolution; weights are [co, ci/groups, kh, kw]. A depthwise one has groups == ci == co.
struct ConvShape {
  std::int64_t n = 1, h = 1, w = 1, ci = 1, co = 1, kh = 1, kw = 1;
  std::int64_t stride = 1, pad = 0, groups = 1, dilation = 1;
  std::int64_t oh = 1, ow = 1;    // derived
  Layout layout = Layout::kNhwc;  // of the canonical input and output
};

// Of inputs and output; data crosses the border as f32 in any case.
enum class Element { kF32, kF16, kBF16 };

struct Spec {
  OpKind kind = OpKind::kMatmul;
  Element element = Element::kF32;
  std::int64_t batch = 1, m = 1, n = 1, k = 1;  // matmul, bmm, dense
  bool transpose_a = false, transpose_b = false;
  ConvShape conv;                          // conv2d, depthwise
  std::int64_t rows = 1, columns = 1;      // softmax, layernorm
  std::vector<std::int64_t> input_counts;  // elements of each input, in canonical order
  std::int64_t output_count = 0;
};

// Throws Unsupported for an unknown operation, a missing or bad size, an unknown dtype.
// Unknown keys are ignored: they steer Tessera's own search (e.g. algo=winograd).
Spec parse_spec(const std::string& text);

const char* to_text(OpKind kind);
const char* to_text(Element element);

}  // namespace tessera::peers
