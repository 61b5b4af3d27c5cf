// Schedules by reasoning alone, and the sketches that leave open what reasoning decides.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/space/analysis.h"
#include "tessera/scheduling/space/chooser.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/scheduling/space/writer.h"

namespace tessera::space {

// From the best to the surest.
enum class Effort {
  kFull,
  kSeparate,  // stages inlined, but every other one by itself
  kWritten,   // every stage by itself
  kNone,
};

// A Dag as far as nothing is left to choose: which stages are inlined, and what is left of them.
struct Outline {
  target::Target target;
  Effort effort = Effort::kFull;
  std::vector<std::string> inlined;
  Analysis analysis;  // of the stages that remain
};

Result<Outline> make_outline(const te::Dag& dag, const target::Target& target, Effort effort,
                             std::vector<std::string> inlined);

// The steps, each choice taken from `chooser`.
schedule::Schedule write_outline(const Outline& outline, Chooser& chooser);
void write_outline(const Outline& outline, Chooser& chooser, Writer& writer);

// The outline of the best effort whose preferred schedule lowers. An error only where the loops as
// written cannot be lowered.
struct BestOutline {
  Outline outline;
  schedule::Schedule preferred;
  lower::Lowered lowered;
};
Result<BestOutline> best_outline(const te::Dag& dag, const target::Target& target);

// The first has the default schedule as its preferred candidate.
Result<std::vector<std::unique_ptr<Sketch>>> reasoned_sketches(const te::Dag& dag,
                                                               const target::Target& target);

}  // namespace tessera::space
