// tessera-train, which alone is linked with libtorch: commands that train hand their arguments to
// it.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

// Beside this program, or where it is installed; empty when it was not built.
std::string find_trainer();

// Does not return when it succeeds: signals and the exit code are the trainer's own. `hint`: behind
// the error of a Tessera without trainer, or empty.
int run_trainer(const std::vector<std::string>& words, const std::string& hint);

}  // namespace tessera::cli
