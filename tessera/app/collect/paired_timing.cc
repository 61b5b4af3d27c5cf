#include "tessera/app/collect/paired_timing.h"

#include <algorithm>
#include <vector>

namespace tessera::app {
namespace {

// Rounds, of models that take longer than kLong fewer: others disturb them less.
constexpr int kLeastRounds = 6, kLeastLongRounds = 4;
constexpr double kLong = 10e-3;

// Quotients of the rounds that count agree.
constexpr double kSettled = 1.02;
// Something else uses the machine.
constexpr double kDisturbed = 1.02;

struct Round {
  double first_s, second_s;
  double both_s() const { return first_s + second_s; }
  double quotient() const { return second_s / first_s; }
};

// Means of the half of the rounds that took least: both models ran undisturbed in them, or were
// disturbed alike.
PairTimes of_fast_rounds(std::vector<Round> rounds, bool* agree) {
  std::sort(rounds.begin(), rounds.end(),
            [](const Round& a, const Round& b) { return a.both_s() < b.both_s(); });
  PairTimes out;
  out.rounds = static_cast<int>(rounds.size());
  const std::size_t kept = (rounds.size() + 1) / 2;
  double least = rounds[0].quotient(), most = least;
  for (std::size_t i = 0; i < kept; ++i) {
    out.first_s += rounds[i].first_s / static_cast<double>(kept);
    out.second_s += rounds[i].second_s / static_cast<double>(kept);
    least = std::min(least, rounds[i].quotient());
    most = std::max(most, rounds[i].quotient());
  }
  *agree = most <= kSettled * least;
  return out;
}

}  // namespace

PairTimes time_pair(const std::function<double()>& first, const std::function<double()>& second,
                    const PairTimingOptions& options) {
  std::vector<Round> rounds;
  for (double spent_s = 0;;) {
    Round round = {first(), 0};
    round.second_s = second();
    rounds.push_back(round);
    spent_s += round.both_s();
    const auto count = static_cast<int>(rounds.size());
    if (count < (spent_s > 2 * kLong * count ? kLeastLongRounds : kLeastRounds)) continue;
    bool agree = false;
    const PairTimes times = of_fast_rounds(rounds, &agree);
    const bool undisturbed =
        options.known_first_s <= 0 || times.first_s <= kDisturbed * options.known_first_s;
    if ((agree && undisturbed) || spent_s >= options.limit_s) return times;
  }
}

}  // namespace tessera::app
