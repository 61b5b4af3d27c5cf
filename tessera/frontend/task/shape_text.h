// A task's sizes in a few characters, which tell tasks of the same name apart.
#pragma once

#include <string>

#include "tessera/lang/te/dag.h"

namespace tessera::task {

// "1x56x56x64 over 3x3x64": the first output, and the axes of the largest reduction, if any.
std::string shape_text(const te::Dag& dag);

}  // namespace tessera::task
