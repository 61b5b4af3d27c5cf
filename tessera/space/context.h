// What the families of stages share while a schedule is written.
#pragma once

#include <string>
#include <vector>

#include "tessera/space/analysis.h"
#include "tessera/space/chooser.h"
#include "tessera/space/writer.h"
#include "tessera/target/target.h"

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
  // Elements of a vector register.
  int lanes(DType t) const;
  std::int64_t l1_bytes() const;
  std::int64_t l2_bytes() const;
  // Below this many operations, handing out work costs more than it saves.
  static bool worth_threads(double operations) { return operations > 4e5; }
};

// A loop outside of the innermost tile.
struct OuterLoop {
  std::string name;
  std::int64_t count = 1;
};

// How work is shared out among threads.
struct Sharing {
  bool parallel = false;
  // Loops fused and shared out, from the first of more than one iteration; 0: as many as give every
  // core several parts.
  int depth = 0;
};

// Parts that the work of a stage should have where it is shared out: as many for each core that one
// more or less does not matter.
std::int64_t wanted_parts(const Context& context);

// Whether it may be worth trying threads.
bool may_share(const Context& context, const std::string& stage, double operations);

// The choice for a stage of so many operations.
Sharing choose_sharing(Context& context, const std::string& stage, double operations);

// Makes the leading loops of `outer` parallel, and never beyond the first `limit` of them. The
// loops must be adjacent and in this order already. Returns the loops afterwards.
std::vector<OuterLoop> make_parallel(Context& context, const std::string& stage, Sharing sharing,
                                     std::vector<OuterLoop> outer, std::size_t limit);

Loops names_of(const std::vector<OuterLoop>& loops);

}  // namespace tessera::space
