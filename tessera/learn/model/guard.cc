#include "tessera/learn/model/guard.h"

#include <algorithm>
#include <cmath>

namespace tessera::model {
namespace {

constexpr std::size_t kWindow = 48;    // measured candidates that a new one is compared with
constexpr double kForget = 0.985;      // per measured candidate: half counts after 46
constexpr double kSame = 0.02;         // times nearer than this say nothing about an order
constexpr double kPriorPairs = 6;      // weighted pairs that the beliefs below are worth
constexpr double kLeastEvidence = 10;  // weighted pairs before a global model alone is refused
// Before evidence: both together, then what was learned elsewhere.
constexpr std::array<double, kPredictors> kPrior = {0.65, 0.6, 0.7};

std::size_t at(Predictor p) { return static_cast<std::size_t>(p); }

}  // namespace

const char* to_text(Predictor predictor) {
  constexpr std::array<const char*, 4> kTexts = {"global", "local", "both", "none"};
  return kTexts[at(predictor)];
}

void Guard::observe(const PredictorScores& scores, double seconds, std::int64_t version) {
  for (Account& a : accounts_) a.right *= kForget, a.pairs *= kForget;
  const auto comparable = static_cast<double>(std::count_if(
      seen_.begin(), seen_.end(), [&](const Seen& s) { return s.version == version; }));
  for (const Seen& other : seen_) {
    if (other.version != version || (seconds <= 0 && other.seconds <= 0)) continue;
    const double slow =
        seconds <= 0 || (other.seconds > 0 && seconds > other.seconds) ? seconds : other.seconds;
    const double fast = slow == seconds ? other.seconds : seconds;
    // A failure is as far away as twice the time: it must not drown the order of those that run.
    const double gap = slow > 0 ? 1 - fast / slow : 0.5;
    if (gap < kSame) continue;
    const bool new_is_fast = fast == seconds;
    for (std::size_t p = 0; p < kPredictors; ++p) {
      if (!std::isfinite(scores[p]) || !std::isfinite(other.scores[p])) continue;
      const float lead = new_is_fast ? scores[p] - other.scores[p] : other.scores[p] - scores[p];
      // Many pairs with one candidate are not so many facts.
      const double weight = gap / std::sqrt(comparable);
      accounts_[p].right += weight * (lead > 0 ? 1 : lead == 0 ? 0.5 : 0);
      accounts_[p].pairs += weight;
    }
  }
  seen_.push_back({scores, seconds, version});
  if (seen_.size() > kWindow) seen_.pop_front();
}

double Guard::accuracy(Predictor predictor) const {
  const Account& a = accounts_[at(predictor)];
  return a.pairs > 0 ? a.right / a.pairs : 0.5;
}

double Guard::belief(Predictor predictor) const {
  const Account& a = accounts_[at(predictor)];
  return (a.right + kPriorPairs * kPrior[at(predictor)]) / (a.pairs + kPriorPairs);
}

Predictor Guard::choose(bool has_global, bool has_local) const {
  if (!has_global) return has_local ? Predictor::kLocal : Predictor::kNone;
  const bool refused = accounts_[at(Predictor::kGlobal)].pairs > kLeastEvidence &&
                       accuracy(Predictor::kGlobal) < 0.5;
  if (!has_local) return refused ? Predictor::kNone : Predictor::kGlobal;
  Predictor best = Predictor::kBoth;
  for (const Predictor p : {Predictor::kLocal, Predictor::kGlobal}) {
    if (p == Predictor::kGlobal && refused) continue;
    if (belief(p) > belief(best)) best = p;
  }
  return best;
}

}  // namespace tessera::model
