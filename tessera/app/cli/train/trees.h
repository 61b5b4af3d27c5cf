// tessera train --model gbt: boosted trees, fitted in this program.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

// Whether the arguments of tessera train ask for trees.
bool asks_for_trees(const std::vector<std::string>& words);
int train_trees(std::vector<std::string> words);

}  // namespace tessera::cli
