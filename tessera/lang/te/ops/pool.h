// The division that makes an average of the sums over windows.
#pragma once

#include "tessera/lang/te/ops/window.h"

namespace tessera::te {

// Positions [begin, end) of the padded input that count in an average.
struct CountedRange {
  std::int64_t begin = 0, end = 0;
};

// Stage `name`: sum (of window_stage) divided by the number of counted elements in each window; 0
// where there are none. `counted` has one range per dimension.
ir::Buffer average_stage(DagBuilder& b, const std::string& name, const Stage& sum,
                         bool channels_first, const std::vector<Window>& windows,
                         const std::vector<CountedRange>& counted, DType out);

}  // namespace tessera::te
