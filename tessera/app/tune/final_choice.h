// The last comparison of a tuning: which of the models that were timed side by side is kept.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tessera/machine/runtime/timing.h"
#include "tessera/support/result.h"

namespace tessera::app {

// What one model gains over another that was timed in turns with it, relative to the time before.
struct Gain {
  double gain = 0;    // of the medians; negative: slower
  double noise = 0;   // three standard errors of it, by the spread of the samples
  bool fast = false;  // the fast samples show a gain as well
};
Gain gain_of(const runtime::Samples& before, const runtime::Samples& after);
// Two models that took turns.
struct Comparison {
  runtime::Samples before, after;  // of all rounds
  Gain gain;
};

struct FinalChoice {
  std::size_t kept = 0;
  double before_s = 0, after_s = 0;  // the fastest of the models that were there before; the kept
  bool trusted = true;
};

// `models`: samples of models that took turns; `before`: as many at the front need no tuning or
// were the subject of it, the others are what was found. The fastest of either kind are compared
// anew, twice: what was found is kept where the first comparison is sure of a gain of at least
// `least`, and the times are those of the second, which did not choose it. One that has no gain
// there is given up, so that `after_s` never exceeds `before_s`.
Result<FinalChoice> choose_final(
    const std::vector<runtime::Samples>& models, std::size_t before, double least,
    const std::function<Result<Comparison>(std::size_t, std::size_t)>& compare);

// Of several comparisons: quiet ones count more, and where they contradict each other, that is
// noise.
Gain combined(const std::vector<Gain>& gains);
// A gain of at least `least`, which noise does not explain.
bool is_sure(const Gain& gain, double least);
// Of one that is not: what happened to the model, as the end of a sentence that begins with
// "its kernels are faster one by one, but the model ".
std::string unproved_text(const Gain& gain, double least);

}  // namespace tessera::app
