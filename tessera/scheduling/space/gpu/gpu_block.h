// What the block of a product asks of a GPU, whatever computes it, and the choice among tiles.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {

struct GpuBlock {
  std::int64_t threads = 0;
  std::int64_t registers = 0;  // of a thread
  std::int64_t shared_bytes = 0;
};

// Why a device cannot run it; null if it can.
const char* refuse_gpu_block(const target::Target& target, const GpuBlock& block,
                             std::int64_t most_threads);

// Blocks that a multiprocessor holds at once, at least one and at most `most`.
double resident_gpu_blocks(const target::Target& target, const GpuBlock& block, double most);

// A rate that estimates are made of: that of the machine's row, or of an H200 where it has none,
// as no row of another GPU has most of them (`tessera machine fit` measures one). In cycles
// generations differ less than in time.
double gpu_rate(const target::Target& target, double target::Rates::*rate);

// How many times that of an H200 it is; 1 where either is not known. What was fitted on an H200
// beyond its row follows the row of another machine by this.
double beside_h200(const target::Target& target, double target::Rates::*rate);

inline double blocks_of(std::int64_t n, std::int64_t of) {
  return static_cast<double>(parts_of(n, of));
}

// The tile of fewest cycles among those offered; the first of equals.
template <class Tile>
class Cheapest {
 public:
  explicit Cheapest(const Tile& first, double cycles = HUGE_VAL) : best_(first), least_(cycles) {}
  void offer(const Tile& tile, double cycles) {
    if (cycles >= least_) return;
    least_ = cycles;
    best_ = tile;
  }
  const Tile& best() const { return best_; }

 private:
  Tile best_;
  double least_;
};

}  // namespace tessera::space
