// What a decision is about, as far as its name, its values and its stage tell.
#pragma once

#include "tessera/learn/lm/columns.h"

namespace tessera::lm {

// Refers to `decision` and `analysis`. A name is STAGE.WHAT or, in templates, WHAT alone: then the
// stage is the one with the most work. WHAT that names an axis (in templates "tile_AXIS") or a read
// buffer becomes a number, for such names follow from a model and mean nothing.
struct ReadDecision {
  QuestionFacts facts;
  std::string what;  // that facts.what refers to
};
void read_decision(const decide::Point& decision, const space::Analysis& analysis,
                   ReadDecision* out);

Question question_of(const decide::Point& decision, const space::Analysis& analysis,
                     const target::Target& target);

}  // namespace tessera::lm
