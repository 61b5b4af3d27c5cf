// How fast a language model reads and writes.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/app/generate/decoder.h"

namespace tessera::app {

struct TextBenchOptions {
  std::int64_t prompt = 512, tokens = 128;  // that are read, and generated behind them
  int samples = 5;
  double time_limit_s = 60;  // no sample begins later; there is one in any case
};

struct TextBench {
  struct Sample {
    double prompt_s = 0;  // up to the choice of the first token
    double decode_s = 0;  // of all tokens, one by one
  };
  std::vector<Sample> samples;
  double compile_s = 0;             // until no step has to wait for code
  std::int64_t weight_bytes = 0;    // as the programs read them
  std::int64_t resident_bytes = 0;  // of the process in the end; 0: unknown

  double first_token_s() const;  // medians
  double prompt_tokens_per_s(const TextBenchOptions& options) const;
  double decode_tokens_per_s(const TextBenchOptions& options) const;
};

// Reads random tokens and goes on with the likeliest ones, whatever they are. What the decoder read
// before is forgotten. kInvalidArgument: there is no room for so many tokens, or nothing to do.
Result<TextBench> bench_text(Decoder& decoder, const TextBenchOptions& options);

}  // namespace tessera::app
