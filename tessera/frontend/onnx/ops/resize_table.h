// Resize along one axis as a table: which elements of the input each output element adds up.
#pragma once

#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::onnx {

struct ResizeMode {
  std::string mode = "nearest";  // nearest, linear, cubic
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75;
  bool exclude_outside = false;  // weights of elements outside are dropped, not given to the edge
  bool antialias = false;
};

struct ResizeAxis {
  std::int64_t in = 0, out = 0;
  double scale = 1;            // out over in; may differ from the quotient of the rounded sizes
  double first = 0, last = 1;  // region of tf_crop_and_resize, as fractions of the axis
};

// Row-major [out, taps].
struct ResizeTable {
  std::int64_t taps = 1;
  std::vector<std::int64_t> index;  // in [0, in)
  std::vector<double> weight;       // empty: one tap of weight 1
  std::vector<bool> outside;        // per output: beyond the region's image
};

// Needs in > 0. kInvalidArgument: a mode has no such name; kUnsupported: the table is too large.
Result<ResizeTable> resize_table(const ResizeMode& mode, const ResizeAxis& axis);

}  // namespace tessera::onnx
