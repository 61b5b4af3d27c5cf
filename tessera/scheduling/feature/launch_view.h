// Statements of a GPU program together with the launch they are part of.
#pragma once

#include <cstddef>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/feature/program.h"
#include "tessera/scheduling/feature/statement_view.h"

namespace tessera::feature {

struct LaunchView {
  // Of the launch.
  double launches = 1;  // of the whole program
  double blocks = 1, threads = 1, warps = 1;
  double shared_bytes = 0;  // of a block
  double registers = 0;     // of a thread, roughly
  double resident = 0;      // blocks that a core holds at once; 0: one does not fit
  double occupancy = 0;     // share of the threads that a core can hold
  double waves = 0;         // times that all cores are filled
  double tail = 1;          // time of whole waves over the work that is in them
  double work = 0;          // operations
  double global_bytes = 0;  // moved between memory and the block, every access counted
  double barriers = 0;      // times that a block waits for its threads, roughly
  // Of the statement.
  bool is_shared = false, is_local = false;  // where its result is kept
  double thread_work = 0;                    // operations of one thread
  double read_sectors = 0;   // of 32 bytes that a warp reads at once, of the worst tensor in memory
  double write_sectors = 0;  // ... and writes
  double vector_bytes = 0;   // widest access to memory
  double bank_conflicts = 0;  // threads of a warp that want one bank of shared memory, at most
};

// Of statement `index`, whose view is `statement`.
LaunchView view_launch(const Program& program, std::size_t index, const StatementView& statement,
                       const target::Target& target);

}  // namespace tessera::feature
