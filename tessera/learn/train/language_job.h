// `tessera-train lm pretrain|finetune`: flags, files and what is printed.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace tessera::train {

// `words`: after "lm". Returns the exit code.
int run_language(const std::vector<std::string>& words, const std::atomic<bool>& stop);

}  // namespace tessera::train
