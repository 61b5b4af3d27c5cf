// Names of the model's layers, which people know their kernels by.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/task/task.h"

namespace tessera::report {

// The layers that each task computes, by key, in running order: of a kernel of several nodes the
// one with the most work.
std::map<std::string, std::vector<std::string>> layers_of(const task::PlannedGraph& planned);

// "/features/0/Conv and 3 more".
std::string layers_text(const std::vector<std::string>& layers);

}  // namespace tessera::report
