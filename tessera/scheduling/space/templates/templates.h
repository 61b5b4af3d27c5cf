// Small spaces for known operations: few knobs, counted and enumerated.
#pragma once

#include <memory>
#include <vector>

#include "tessera/scheduling/space/space.h"

namespace tessera::space {

// One sketch where the stage with most work is a matrix product, a batch of them, a convolution or
// a depthwise convolution; none otherwise.
Result<std::vector<std::unique_ptr<Sketch>>> template_sketches(const te::Dag& dag,
                                                               const target::Target& target);

}  // namespace tessera::space
