// Compiled without fused multiplications and additions (CMakeLists.txt): they would differ between
// machines. For the same reason nothing of the mathematical library is called.
#include "tessera/app/generate/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

using tokenizer::Token;

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// e^x for x <= 0; 0 below 2^-60, which no sum notices.
double exp_alike(double x) {
  constexpr double kLog2 = 0.6931471805599453;
  if (!(x > -60 * kLog2)) return 0;
  const auto halvings = static_cast<std::uint64_t>(-x / kLog2);
  const double rest = x + static_cast<double>(halvings) * kLog2;  // in (-log 2, 0]
  double sum = 1;
  for (int i = 18; i > 0; --i) sum = 1 + sum * rest / i;
  return sum * std::bit_cast<double>((1023 - halvings) << 52);
}

// Whether it is likelier, or as likely and first.
bool before(const Sampler::Choice& a, const Sampler::Choice& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

}  // namespace

Result<void> check(const SamplerOptions& o) {
  const auto expect = [](bool good, const char* name, double value,
                         const char* range) -> Result<void> {
    if (good) return {};
    return invalid("{} is {}; it must be {}", name, value, range);
  };
  TESSERA_DO(expect(o.temperature >= 0 && o.temperature <= 1000, "the temperature", o.temperature,
                    "from 0 to 1000"));
  TESSERA_DO(expect(o.top_k >= 0, "top-k", static_cast<double>(o.top_k), "0 or more"));
  TESSERA_DO(expect(o.top_p > 0 && o.top_p <= 1, "top-p", o.top_p, "above 0 and at most 1"));
  TESSERA_DO(expect(o.min_p >= 0 && o.min_p <= 1, "min-p", o.min_p, "from 0 to 1"));
  return expect(o.repeat_penalty > 0 && o.repeat_penalty <= 1000, "the repetition penalty",
                o.repeat_penalty, "above 0 and at most 1000");
}

Result<std::vector<Sampler::Choice>> Sampler::choices(std::span<const float> logits,
                                                      std::span<const Token> before_it) const {
  std::vector<double> values(logits.begin(), logits.end());
  if (options_.repeat_penalty != 1) {
    for (const Token token : before_it) {
      if (token < 0 || static_cast<std::size_t>(token) >= values.size()) continue;
      const double logit = logits[static_cast<std::size_t>(token)];  // once, however often it was
      values[static_cast<std::size_t>(token)] =
          logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    }
  }
  Choice best{0, kImpossible};
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] > best.probability) best = {static_cast<Token>(i), values[i]};
  if (!std::isfinite(best.probability)) {
    return make_error(ErrorCode::kRunFailed, "the model's logits name no token as possible: {}",
                      best.probability > 0 ? "one is infinite" : "all are NaN or -infinity");
  }
  if (options_.temperature == 0) return std::vector<Choice>{{best.token, 1}};

  std::vector<Choice> all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double weight = exp_alike((values[i] - best.probability) / options_.temperature);
    if (weight > 0) all.push_back({static_cast<Token>(i), weight});
  }
  if (options_.top_k != 0 && static_cast<std::size_t>(options_.top_k) < all.size()) {
    const auto end = all.begin() + options_.top_k;
    std::nth_element(all.begin(), end, all.end(), before);
    all.erase(end, all.end());
    std::sort(all.begin(), all.end(), before);  // the order of the sum below
  }
  double sum = 0;
  for (const Choice& each : all) sum += each.probability;
  const auto worse = [](const Choice& a, const Choice& b) { return before(b, a); };
  std::make_heap(all.begin(), all.end(), worse);
  // One after the other from the likeliest on, so that few are sorted.
  std::vector<Choice> kept;
  double share = 0;
  while (!all.empty() && (options_.top_p == 1 || share < options_.top_p * sum)) {
    std::pop_heap(all.begin(), all.end(), worse);
    if (!kept.empty() && all.back().probability < options_.min_p * kept[0].probability) break;
    kept.push_back(all.back());
    share += all.back().probability;
    all.pop_back();
  }
  for (Choice& each : kept) each.probability /= share;
  return kept;
}

Result<Token> Sampler::pick(std::span<const float> logits, std::span<const Token> before_it) {
  TESSERA_TRY(const std::vector<Choice> from, choices(logits, before_it));
  if (from.size() == 1) return from[0].token;
  double left = rng_.uniform();
  for (const Choice& each : from) {
    left -= each.probability;
    if (left < 0) return each.token;
  }
  return from.back().token;
}

}  // namespace tessera::app
