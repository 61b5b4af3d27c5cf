// Naive loops that say what each benchmark operation means.
#pragma once

#include <vector>

#include "peers/spec.h"

namespace tessera::peers {

// The result for `inputs` in canonical layout, accumulated in double.
std::vector<float> reference(const Spec& spec, const std::vector<std::vector<float>>& inputs);

// Largest absolute error allowed for inputs in [-1, 1]; Winograd needs the slack.
float tolerance(const Spec& spec);

}  // namespace tessera::peers
