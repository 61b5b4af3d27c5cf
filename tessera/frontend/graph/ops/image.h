// Images and the windows that slide over them, as the operators of the graph describe them by
// attributes: strides, before, after, dilations, layout.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/graph/op.h"
#include "tessera/lang/te/ops/window.h"

namespace tessera::graph {

// A tensor [n, c, spatial...] (layout nchw, whatever the rank) or [n, spatial..., c] (nhwc).
struct Image {
  bool channels_first = false;
  std::int64_t n = 0, c = 0;
  Shape spatial;

  // Another image with the same layout and n.
  Shape shape(const Shape& sizes, std::int64_t channels) const {
    return te::arrange(channels_first, n, sizes, {channels});
  }
};

// Input 0 of `node` by its attribute layout, or `reads` where it has that; kInvalidArgument for a
// rank below 3.
Result<Image> read_image(const NodeView& node);

// Names of spatial dimensions: w; h, w; d, h, w; s0, s1, ...
std::vector<std::string> spatial_axes(std::size_t rank);

// Attribute `name`: one integer in [min, 2^31) per spatial dimension, `absent` each where it is not
// given.
Result<Shape> spatial_attribute(const NodeView& node, const char* name, std::size_t rank,
                                std::int64_t min, std::int64_t absent);

// kInvalidArgument unless every value of `what` is in [min, 2^31): products of two of them fit i64.
Result<void> check_range(const char* what, const Shape& values, std::int64_t min);

// Windows of `kernel` over input 0, by strides, before, after and dilations.
Result<std::vector<te::Window>> read_windows(const NodeView& node, const Image& image,
                                             const Shape& kernel);

// The same windows without padding at the end that none of them reaches.
std::vector<te::Window> without_unread_padding(std::vector<te::Window> windows);

// Number of outputs along each dimension.
Shape output_sizes(const std::vector<te::Window>& windows);

}  // namespace tessera::graph
