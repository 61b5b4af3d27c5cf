// `tessera train --graphs FILE.npz ...`: flags, files and what is printed.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace tessera::train {

// Whether the words of a command line ask for a network of graphs.
bool asks_for_graphs(const std::vector<std::string>& words);

// Returns the exit code.
int run_graphs(std::vector<std::string> words, const std::atomic<bool>& stop);

}  // namespace tessera::train
