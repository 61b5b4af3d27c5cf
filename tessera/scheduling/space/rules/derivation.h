// Sketches by rules: from the last stage to the first, every rule that fits says what becomes of a
// stage.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/analysis.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/rules/part_sketch.h"
#include "tessera/scheduling/space/rules/tile_part.h"

namespace tessera::space {

// What the rules look at. Stages that are inlined are gone.
struct Problem {
  std::shared_ptr<const Analysis> analysis;
  target::Target target;
  // The tiled stage with most work: only it is tiled in several ways.
  std::optional<std::size_t> main;

  const Stage& stage(std::size_t i) const { return analysis->stages[i]; }
};

// What becomes of one stage.
struct StageDraft {
  enum class Kind {
    kOpen,
    kRows,       // loops of its own
    kTiled,      // `tiling`
    kNest,       // takes over the result of a tiled stage
    kTransform,  // chooses rows of a small matrix: unrolled
  };
  Kind kind = Kind::kOpen;
  Tiling tiling;
  std::optional<Nest> nest;
};

struct Draft {
  std::vector<StageDraft> stages;
  std::string name;  // of the tiling of the main stage
};

enum class Answer {
  kPass,  // the rule does not fit
  kMore,  // rules further down may add other drafts
  kOnly,
};

struct Rule {
  const char* name;
  // Adds the drafts in which the stage is decided.
  Answer (*apply)(const Problem& problem, const Draft& draft, std::size_t stage,
                  std::vector<Draft>* out);
};

// In order of precedence; none for a kind of machine that the rules do not know.
const std::vector<Rule>& rule_table(const target::Target& target);

// A reduction in which an operand is used for several outputs.
bool is_tiled(const Stage& stage);

Problem make_problem(const te::Dag& dag, const std::vector<te::Op>& ops,
                     const target::Target& target);
std::vector<Draft> derive(const Problem& problem);

// Gets every part with the stage that it is for.
using PartHook = std::function<void(Part&, std::size_t)>;

// `fixed`: the steps that come before all others. Null where not even the preferred choice is
// legal: expressions too long to be copied.
std::unique_ptr<PartSketch> make_sketch(const Problem& problem, const Draft& draft,
                                        std::string name, schedule::Schedule fixed,
                                        const PartHook& hook = {});

}  // namespace tessera::space
