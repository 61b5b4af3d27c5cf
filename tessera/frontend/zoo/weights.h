// Seeded weights: each tensor has its own random stream derived from its name, so that a network
// does not depend on the order in which it is written.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/support/host_tensor.h"

namespace tessera::zoo {

// Uniform in [centre - half_width, centre + half_width).
struct Fill {
  double centre = 0;
  double half_width = 0;
  // Every `row` consecutive elements (a filter) are scaled to exactly the standard deviation of the
  // uniform distribution around `centre`; 0: left as drawn.
  std::int64_t row = 0;
  // Rows are first moved to the mean `centre`: a filter that sums to zero does not see the positive
  // mean which every ReLU leaves, so the output keeps depending on the input through many layers.
  bool centred = false;
};

// Fill with the given standard deviation around 0.
Fill spread(double standard_deviation);
// The same for filters of `row` elements, scaled one by one and, unless they have one channel only
// (depthwise), centred.
Fill spread_filters(double standard_deviation, std::int64_t row, bool centred);

// `tensor` is f32, f16 or bf16.
void fill_random(HostTensor& tensor, const std::string& name, const Fill& fill);

}  // namespace tessera::zoo
