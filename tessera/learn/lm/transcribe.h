// Candidates as answers to the questions of their sketch.
#pragma once

#include <vector>

#include "tessera/learn/lm/sentence.h"
#include "tessera/scheduling/space/sketch.h"
#include "tessera/support/result.h"
#include "tessera/support/rng.h"

namespace tessera::lm {

// The questions that decide::Walk asks on the way to `choice`, with all legal values of each.
// kIllegalSchedule where one is refused.
Result<std::vector<Answer>> transcribe(const decide::Sketch& sketch, decide::Choice choice);

// A legal candidate: at every question each legal value is as likely as the others. Appends to
// `answers`; gives the choice, settled.
std::vector<std::int32_t> draw(const decide::Sketch& sketch, Rng& rng,
                               std::vector<Answer>* answers);

}  // namespace tessera::lm
