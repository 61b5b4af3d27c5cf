#include "tessera/app/generate/bench_text.h"

#include <algorithm>
#include <fstream>

#include <unistd.h>

#include "tessera/support/clock.h"
#include "tessera/support/invalid.h"
#include "tessera/support/quantile.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

constexpr std::uint64_t kSeed = 7;
// Before the first sample, so that no page is touched for the first time.
constexpr std::int64_t kWarmUpTokens = 4;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  if (!(file >> all >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

Result<TextBench::Sample> sample(Decoder& decoder, std::span<const std::int32_t> prompt,
                                 std::int64_t tokens) {
  TextBench::Sample out;
  decoder.reset();
  Clock::time_point begin = Clock::now();
  TESSERA_TRY(std::span<const float> logits, decoder.step(prompt));
  std::int32_t token = likeliest(logits);
  out.prompt_s = seconds_since(begin);
  begin = Clock::now();
  for (std::int64_t i = 0; i < tokens; ++i) {
    TESSERA_TRY(logits, decoder.step({&token, 1}));
    token = likeliest(logits);
  }
  out.decode_s = seconds_since(begin);
  return out;
}

double median_of(const std::vector<TextBench::Sample>& samples, double TextBench::Sample::*part) {
  std::vector<double> values;
  for (const TextBench::Sample& s : samples) values.push_back(s.*part);
  return median(std::move(values));
}

double rate(std::int64_t tokens, double seconds) {
  return static_cast<double>(tokens) / std::max(seconds, 1e-9);
}

}  // namespace

double TextBench::first_token_s() const { return median_of(samples, &Sample::prompt_s); }

double TextBench::prompt_tokens_per_s(const TextBenchOptions& options) const {
  return rate(options.prompt, median_of(samples, &Sample::prompt_s));
}

double TextBench::decode_tokens_per_s(const TextBenchOptions& options) const {
  return rate(options.tokens, median_of(samples, &Sample::decode_s));
}

Result<TextBench> bench_text(Decoder& decoder, const TextBenchOptions& options) {
  const std::int64_t all = options.prompt + options.tokens;
  if (options.prompt < 1 || options.tokens < 1 || options.samples < 1) {
    return invalid("{} tokens behind {}, {} times", options.tokens, options.prompt,
                   options.samples);
  }
  if (all > decoder.capacity()) {
    return invalid("{} tokens behind {}: there is room for {}", options.tokens, options.prompt,
                   decoder.capacity());
  }
  std::vector<std::int32_t> prompt;
  Rng rng(kSeed);
  for (std::int64_t i = 0; i < options.prompt; ++i)
    prompt.push_back(static_cast<std::int32_t>(rng.below(decoder.vocabulary())));

  TextBench out;
  const Clock::time_point begin = Clock::now();
  TESSERA_DO(decoder.warm_up(all));
  out.compile_s = seconds_since(begin);
  TESSERA_DO([&]() -> Result<void> {
    const auto first = sample(decoder, prompt, std::min(kWarmUpTokens, options.tokens));
    return first.ok() ? Result<void>() : first.error();
  }());
  const Clock::time_point first = Clock::now();
  while (std::ssize(out.samples) < options.samples &&
         (out.samples.empty() || seconds_since(first) < options.time_limit_s)) {
    TESSERA_TRY(const TextBench::Sample one, sample(decoder, prompt, options.tokens));
    out.samples.push_back(one);
  }
  out.weight_bytes = decoder.weight_bytes();
  out.resident_bytes = resident_bytes();
  return out;
}

}  // namespace tessera::app
