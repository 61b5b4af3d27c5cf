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
  bool tail = false;  // its last iteration is shorter: it cannot be fused
};

// Makes the leading loops of `outer` parallel, fused as far as needed to give every core several
// parts, and never beyond the first `limit` of them. The loops must be adjacent and in this order
// already. Returns the loops afterwards.
std::vector<OuterLoop> make_parallel(Context& context, const std::string& stage,
                                     std::vector<OuterLoop> outer, std::size_t limit);

Loops names_of(const std::vector<OuterLoop>& loops);

}  // namespace tessera::space
