// What the families of stages share while a schedule is written.
#pragma once

#include <string>
#include <vector>

#include "tessera/machine/target/core_table.h"
#include "tessera/scheduling/space/analysis.h"
#include "tessera/scheduling/space/chooser.h"
#include "tessera/scheduling/space/writer.h"

namespace tessera::space {

struct Context {
  const Analysis& analysis;
  const target::Target& target;
  Writer& writer;
  Chooser& chooser;
  std::vector<bool> done;  // per stage: its loops are written
  int chain_output = -1;   // the stage that computes others row of tiles by row of tiles
  Loops served;            // those stages: it shares out their work, too

  const Stage& stage(std::size_t i) const { return analysis.stages[i]; }
  const target::Core& core() const { return target::core_of(target); }
  // Elements of a vector register.
  int lanes(DType t) const;
  std::int64_t l1_bytes() const;
  std::int64_t l2_bytes() const;
};

}  // namespace tessera::space
