// Schedule steps as numbers, one row each, without lowering: Tessera's, and those of foreign logs
// with the same columns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/result.h"

namespace tessera::feature {

// Longer schedules are cut after this many.
inline constexpr std::size_t kMostStepRows = 96;

// The kinds of steps, Tessera's verbs first in the order of schedule::Step; foreign logs use some
// of them.
const std::vector<std::string>& step_kinds();

// One step as a row shows it.
struct StepValues {
  std::size_t kind = 0;  // of step_kinds()
  schedule::Annotation annotation = schedule::Annotation::kNone;
  double stage = 0;     // position among the stages before the step; below 0: an input
  double iterator = 0;  // position among the loops of the stage
  double extent = 0;    // of that loop; 0: not known
  bool from_outer = false, peel = false, pad = false;
  std::vector<double> arguments;  // lengths, positions, numbers: the first eight are shown
};

const std::vector<std::string>& step_names();
std::string step_schema_digest();  // 16 hex digits of names and version

// Appends one row; `position` of `count` steps.
void append_step_row(const StepValues& step, std::size_t position, std::size_t count,
                     std::vector<float>* out);

struct StepRows {
  std::size_t rows = 0;  // at least 1: an empty schedule gives a row of zeros
  std::size_t cut = 0;   // steps left out
};

// Appends the rows of a schedule. Errors as schedule::apply, with `out` as it was.
Result<StepRows> append_step_rows(const te::Dag& dag, const schedule::Schedule& schedule,
                                  std::vector<float>* out);

}  // namespace tessera::feature
