// Which changes of a model are kept where all of them together do not prove to be faster.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/app/tune/final_choice.h"
#include "tessera/support/result.h"

namespace tessera::app {

// Times the model with these changes in turns with the untuned one; none: there is no time for it.
using TimeChanges =
    std::function<Result<std::optional<Gain>>(const std::vector<std::size_t>& changes)>;

// `changes`: what promises most comes first; together they were not sure. A half of them, and
// where that fails a half of the half, down to single changes, is kept if the model then gains at
// least `least` for sure, and more than without it; the others are undone. Empty: none is sure.
// This picks the best of several times, so what is kept has to be timed anew.
Result<std::vector<std::size_t>> surely_faster(const std::vector<std::size_t>& changes,
                                               double least, const TimeChanges& time);

}  // namespace tessera::app
