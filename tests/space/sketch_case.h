// Sketches under random choices, computed in every way there is.
#pragma once

#include <memory>
#include <vector>

#include "tessera/scheduling/space/space.h"

namespace tessera::space {

using Sketches = std::vector<std::unique_ptr<Sketch>>;

// A random walk.
std::vector<std::int32_t> legal_choice(const decide::Sketch& sketch, Rng& rng);
std::vector<std::int32_t> preferred_choice(const decide::Sketch& sketch);

// Names, values and preferred choices are as Sketch and Point promise; the preferred choice and
// `samples` others of each sketch apply, lower and compute what the Dag means. `slack` multiplies
// the allowed rounding.
void expect_sketches_correct(const te::Dag& dag, const Sketches& sketches, int samples,
                             double slack = 1);

// The same without computing anything, for sizes that take too long.
void expect_sketches_lower(const te::Dag& dag, const target::Target& target,
                           const Sketches& sketches, int samples);

}  // namespace tessera::space
