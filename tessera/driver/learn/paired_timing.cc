#include "tessera/driver/learn/paired_timing.h"

#include <algorithm>
#include <limits>

namespace tessera::driver {
namespace {

// Rounds, of models that take longer than kLong fewer: others disturb them less.
constexpr int kLeastRounds = 6, kLeastLongRounds = 4;
constexpr double kLong = 10e-3;

// The two smallest times agree.
constexpr double kSettled = 1.01;
// Something else uses the machine.
constexpr double kDisturbed = 1.02;

class Smallest {
 public:
  void add(double seconds) {
    if (seconds < first_) {
      second_ = first_;
      first_ = seconds;
    } else {
      second_ = std::min(second_, seconds);
    }
  }
  bool settled() const { return second_ <= kSettled * first_; }
  double mean() const { return (first_ + second_) / 2; }

 private:
  double first_ = std::numeric_limits<double>::infinity(), second_ = first_;
};

}  // namespace

PairTimes time_pair(const std::function<double()>& first, const std::function<double()>& second,
                    const PairTimingOptions& options) {
  PairTimes out;
  Smallest firsts, seconds;
  const auto settled = [&] {
    return firsts.settled() && seconds.settled() &&
           (options.known_first_s <= 0 || firsts.mean() <= kDisturbed * options.known_first_s);
  };
  for (double spent_s = 0;;) {
    const double a = first(), b = second();
    spent_s += a + b;
    firsts.add(a);
    seconds.add(b);
    ++out.rounds;
    const int least = spent_s > 2 * kLong * out.rounds ? kLeastLongRounds : kLeastRounds;
    if (out.rounds >= least && (settled() || spent_s >= options.limit_s)) break;
  }
  out.first_s = firsts.mean();
  out.second_s = seconds.mean();
  return out;
}

}  // namespace tessera::driver
