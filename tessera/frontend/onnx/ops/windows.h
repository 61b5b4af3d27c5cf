// Attributes of sliding windows: kernel_shape, strides, dilations, pads, auto_pad and ceil_mode.
#pragma once

#include <optional>
#include <string>

#include "tessera/frontend/onnx/ops/op.h"

namespace tessera::onnx {

struct Windows {
  Shape kernel, strides, dilations;  // one value per spatial dimension
  Shape before, after;               // padding; `after` includes what ceil_mode adds
  Shape uncounted;                   // what ceil_mode added to `after`

  // strides, dilations, before, after and the layout of ONNX, as graph operators take them.
  graph::Attrs attrs() const;
};

// Spatial dimensions of an image [n, c, ...]; kInvalidArgument when there are none.
Result<Shape> spatial_sizes(const Shape& image);

// Attribute `name` with one value in [min, 2^31) per spatial dimension.
Result<Shape> spatial_attribute(const Context& c, const char* name, std::size_t rank,
                                std::int64_t min, std::int64_t absent);
// Attribute pads: all beginnings, then all ends.
Result<void> read_pads(const Context& c, std::size_t rank, Shape* before, Shape* after);
// Attribute auto_pad.
Result<std::string> read_auto_pad(const Context& c);

// The windows of input 0. `kernel` is the shape of the weights where there are some.
Result<Windows> read_windows(const Context& c, const std::optional<Shape>& kernel);

// Of AveragePool, for the graph operator pool.
Result<graph::Attrs> average_pool_attrs(const Context& c);

}  // namespace tessera::onnx
