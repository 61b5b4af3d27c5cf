#include "tessera/app/tune/undo_changes.h"

#include <utility>

namespace tessera::app {
namespace {

// Where nothing limits the time.
constexpr int kMostTries = 24;

using Changes = std::vector<std::size_t>;

}  // namespace

Result<std::vector<std::size_t>> surely_faster(const std::vector<std::size_t>& changes,
                                               double least, const TimeChanges& time) {
  std::vector<Changes> waiting;  // the next one last
  const auto halve = [&](const Changes& group) {
    if (group.size() < 2) return;
    const auto middle = group.begin() + static_cast<std::ptrdiff_t>((group.size() + 1) / 2);
    waiting.emplace_back(middle, group.end());
    waiting.emplace_back(group.begin(), middle);
  };
  halve(changes);
  Changes kept;
  double kept_gain = 0;
  for (int tries = 0; !waiting.empty() && tries < kMostTries; ++tries) {
    const Changes group = std::move(waiting.back());
    waiting.pop_back();
    Changes with = kept;
    with.insert(with.end(), group.begin(), group.end());
    TESSERA_TRY(const std::optional<Gain> gain, time(with));
    if (!gain) break;
    if (is_sure(*gain, least) && gain->gain > kept_gain) {
      kept = std::move(with);
      kept_gain = gain->gain;
    } else {
      halve(group);
    }
  }
  return kept;
}

}  // namespace tessera::app
