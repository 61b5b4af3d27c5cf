// The loops of a schedule as plain numbers: what features are read from. No expression is built.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "tessera/scheduling/schedule/state.h"
#include "tessera/support/result.h"

namespace tessera::feature {

using Numbers = std::pmr::vector<double>;

// Loops of one iteration are left out.
struct Loop {
  int id = 0;     // the same for every statement inside the loop
  int stage = 0;  // index in State::stages of the stage it belongs to
  int iter = 0;   // ... and which of its iterators it is
  double extent = 1;
  bool reduce = false;
  schedule::Annotation annotation = schedule::Annotation::kNone;
};

struct OpCounts {
  double mad = 0;  // a product added to or subtracted from something
  double add = 0;  // and sub
  double mul = 0;
  double div = 0;      // and mod
  double compare = 0;  // and min, max
  double math = 0;
  double other = 0;

  // Floating point operations; a multiply-add is two.
  double total() const { return 2 * mad + add + mul + div + compare + math + other; }
};

// All accesses of a statement to one tensor, in the layout in which it is stored.
struct Access {
  explicit Access(std::pmr::memory_resource* memory)
      : shape(memory), stride(memory), elements(memory), lines(memory) {}

  const ir::BufferNode* buffer = nullptr;
  bool read = false;
  bool write = false;
  bool conditional = false;  // some read is under a select
  bool packed = false;       // a layout step reordered it
  bool temporary = false;    // made by another statement of this program
  int reads = 0;             // written occurrences
  double element_bytes = 1;
  double stored = 1;  // elements of the whole storage

  Numbers shape;     // of the storage
  Numbers stride;    // per loop: elements of storage from iteration 0 to 1
  Numbers elements;  // per level 0..loops: distinct elements while loops[level..] run
  Numbers lines;     // per level: cache lines of these

  // Whether the loop selects other elements.
  bool uses(std::size_t loop) const {
    return stride[loop] != 0 || elements[loop] > elements[loop + 1];
  }
};

// What a stage computes at each point: its store, after the values of inlined stages.
struct Statement {
  explicit Statement(std::pmr::memory_resource* memory)
      : loops(memory), accesses(memory), extents(memory) {}

  const schedule::Stage* stage = nullptr;
  int stage_index = 0;
  std::pmr::vector<Loop> loops;       // outermost first; those of the stages around it come first
  std::size_t own = 0;                // index of its first own loop
  std::pmr::vector<Access> accesses;  // reads in order of appearance, then what is only written
  OpCounts float_ops, int_ops;        // at one point
  double bool_ops = 0, select_ops = 0;
  double work = 0;    // floating point operations at one point; of integers where there are none
  Numbers extents;    // per output axis: what one visit computes
  double points = 1;  // over all loops
  double useful_points = 1;    // of one visit without the overhang of splits, times the visits
  double domain = 1;           // of the whole operation: more visits than that recompute
  double allocated = 0;        // elements of its storage; 0 for outputs of the Dag
  double max_unroll = 0;       // of auto_unroll_max_step
  double guards = 0;           // splits that do not divide and are not padded
  double peels = 0, pads = 0;  // ... by what happens there
};

// In program order: a stage computed inside another comes before it.
struct Program {
  explicit Program(std::pmr::memory_resource* memory) : statements(memory) {}
  std::pmr::vector<Statement> statements;
  int loops = 0;  // Loop::id is below
};

class ReadsCache;  // stage_reads.h

// kIllegalSchedule where a stage is used outside the loop it is computed in, as lowering says. With
// a cache, whose Dag is that of the state, much that does not depend on the schedule is not
// computed again.
Result<void> build_program(const schedule::State& state, double line_bytes, Program* program,
                           std::pmr::memory_resource* memory, ReadsCache* cache = nullptr);

}  // namespace tessera::feature
