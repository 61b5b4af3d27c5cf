#include "tessera/app/tune/final_choice.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tessera::app {
namespace {

constexpr double kLeastNoise = 1e-3;  // few samples may agree by chance

// Of the median, by the distances from it: some samples may be far out.
double standard_error(const runtime::Samples& s) {
  runtime::Samples distances;
  for (const double t : s.call_s) distances.call_s.push_back(std::abs(t - s.median_s()));
  constexpr double kNormal = 1.4826 * 1.2533;  // of a normal distribution: to sigma, of a median
  return kNormal * distances.median_s() / std::sqrt(static_cast<double>(s.call_s.size()));
}

}  // namespace

Result<FinalChoice> choose_final(
    const std::vector<runtime::Samples>& models, std::size_t before, double least,
    const std::function<Result<Comparison>(std::size_t, std::size_t)>& compare) {
  const auto fastest = [&](std::size_t first, std::size_t last) {
    std::size_t best = first;
    for (std::size_t i = first + 1; i < last; ++i) {
      if (models[i].median_s() < models[best].median_s()) best = i;
    }
    return best;
  };
  const auto keeps = [](std::size_t i, const runtime::Samples& times) {
    return FinalChoice{i, times.median_s(), times.median_s(), times.trusted};
  };
  const std::size_t was = fastest(0, before);
  if (before == models.size()) return keeps(was, models[was]);
  const std::size_t found = fastest(before, models.size());
  TESSERA_TRY(const Comparison first, compare(was, found));
  if (!is_sure(first.gain, least)) return keeps(was, first.before);
  TESSERA_TRY(const Comparison told, compare(was, found));
  if (told.after.median_s() >= told.before.median_s()) return keeps(was, told.before);
  return FinalChoice{found, told.before.median_s(), told.after.median_s(),
                     told.before.trusted && told.after.trusted};
}

Gain gain_of(const runtime::Samples& before, const runtime::Samples& after) {
  const double was = before.median_s();
  Gain out;
  out.gain = (was - after.median_s()) / was;
  out.noise = 3 * std::hypot(standard_error(before), standard_error(after)) / was;
  out.fast = after.p10_s() < before.p10_s();
  return out;
}

Gain combined(const std::vector<Gain>& gains) {
  const auto weight = [](const Gain& g) { return 1 / std::pow(std::max(g.noise, kLeastNoise), 2); };
  double weights = 0, sum = 0, squares = 0;
  std::size_t fast = 0;
  for (const Gain& g : gains) {
    weights += weight(g);
    sum += weight(g) * g.gain;
    fast += g.fast ? 1 : 0;
  }
  Gain out;
  out.gain = sum / weights;
  for (const Gain& g : gains) squares += weight(g) * std::pow(g.gain - out.gain, 2);
  const auto others = static_cast<double>(std::max<std::size_t>(1, gains.size() - 1));
  out.noise = std::max(1 / std::sqrt(weights), 3 * std::sqrt(squares / weights / others));
  out.fast = 2 * fast > gains.size();
  return out;
}

std::string unproved_text(const Gain& gain, double least) {
  const double percent = 100 * std::abs(gain.gain), noise = 100 * gain.noise;
  if (std::abs(gain.gain) <= least) return "takes as long as before";
  if (gain.gain < 0 && -gain.gain > gain.noise)
    return fmt::format("takes {:.1f} % longer as a whole", percent);
  if (gain.gain < 0) {
    return fmt::format(
        "is not faster as a whole: it took {:.1f} % longer, where timings vary by {:.1f} %",
        percent, noise);
  }
  if (gain.gain <= gain.noise) {
    return fmt::format(
        "seemed {:.1f} % faster as a whole, where timings vary by {:.1f} %: the machine was too "
        "busy to prove it",
        percent, noise);
  }
  return fmt::format(
      "seemed {:.1f} % faster as a whole by its typical run and not by its fast ones: that proves "
      "nothing",
      percent);
}

bool is_sure(const Gain& gain, double least) {
  return gain.gain > std::max(least, gain.noise) && gain.fast;
}

}  // namespace tessera::app
