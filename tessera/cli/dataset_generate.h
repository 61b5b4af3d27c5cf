// tessera dataset sample, build and generate.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tessera::cli {

// The three steps of making a dataset, to be run here or on several machines.
void add_dataset_steps(CLI::App& dataset, std::function<int()>* run);

}  // namespace tessera::cli
