#include "tessera/driver/tune/final_choice.h"

#include <algorithm>

namespace tessera::driver {

FinalChoice choose_final(const std::vector<runtime::Samples>& models, std::size_t before) {
  const auto fastest = [&](std::size_t first, std::size_t last, auto seconds) {
    std::size_t best = first;
    for (std::size_t i = first + 1; i < last; ++i) {
      if (seconds(models[i]) < seconds(models[best])) best = i;
    }
    return best;
  };
  const auto median = [](const runtime::Samples& s) { return s.median_s(); };
  const auto fast = [](const runtime::Samples& s) { return s.p10_s(); };
  FinalChoice out;
  const std::size_t was = fastest(0, before, median);
  out.kept = was;
  out.before_s = out.after_s = models[was].median_s();
  if (before == models.size()) return out;
  const std::size_t found = fastest(before, models.size(), median);
  const bool faster = models[found].median_s() < models[was].median_s();
  out.agreed = faster == (models[found].p10_s() < models[fastest(0, before, fast)].p10_s());
  if (faster && out.agreed) {
    out.kept = found;
    out.after_s = models[found].median_s();
  }
  return out;
}

}  // namespace tessera::driver
