// tessera bench MODEL --generate: how fast a language model reads and writes.
#pragma once

#include <string>

namespace tessera::cli {

struct TextBenchArgs {
  std::string generate;  // prompt=N,tokens=N
  std::string activations = "int8";
  int threads = 0, samples = 5;
  double time_limit_s = 60;
  bool json = false, no_cache = false;
};

// Prints the result; returns the exit code.
int bench_text(const std::string& model, const TextBenchArgs& args);

}  // namespace tessera::cli
