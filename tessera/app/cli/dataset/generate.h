// tessera dataset sample, build and generate.
#pragma once

#include <functional>

#include "tessera/app/cli/common/flags.h"

namespace tessera::cli {

// The three steps of making a dataset, to be run here or on several machines.
void add_dataset_steps(Flags& dataset, std::function<int()>* run);

}  // namespace tessera::cli
