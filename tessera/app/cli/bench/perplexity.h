// tessera bench MODEL --perplexity: how well a language model predicts a text.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::cli {

struct PerplexityArgs {
  std::string file, against;  // the text; "exact", another model, or empty
  std::string activations = "int8";
  std::int64_t tokens = 2000;  // of the text, at most
  int threads = 0;
  bool json = false, no_cache = false;
};

// Prints the result; returns the exit code.
int bench_perplexity(const std::string& model, const PerplexityArgs& args);

}  // namespace tessera::cli
