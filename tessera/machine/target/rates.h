// What a machine does in a clock cycle of one core, by data sheet or by measurement. Physical
// quantities only; `tessera machine fit` measures them, except that the clock of a GPU is the
// driver's. Tiles and prefetching of CPUs and the algorithms of convolutions follow from them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera::target {

struct Target;

// A core of a GPU is a multiprocessor. 0: the machine cannot, or nobody has measured it.
struct Rates {
  double clock_mhz = 0;           // cycles of all other numbers
  double fma_per_cycle = 0;       // f32 multiply-adds: vectors of a CPU, numbers of a GPU
  double fma_latency_cycles = 0;  // until a result can be added to again
  double byte_dots_per_cycle = 0, bf16_dots_per_cycle = 0;      // vectors
  double byte_matrix_per_cycle = 0, bf16_matrix_per_cycle = 0;  // instructions
  double mma_per_cycle = 0, wgmma_per_cycle = 0;     // f16 multiply-adds by warps, by warp groups
  double loads_per_cycle = 0, stores_per_cycle = 0;  // vectors, from and to L1
  double shared_bytes_per_cycle = 0;                 // read from shared memory
  // Read by one core while the others rest.
  double l2_bytes_per_cycle = 0, l3_bytes_per_cycle = 0, memory_bytes_per_cycle = 0;
  double store_bytes_per_cycle = 0;                                   // by one core of a GPU
  double all_l3_bytes_per_cycle = 0, all_memory_bytes_per_cycle = 0;  // read by all cores
  double line_latency_cycles = 0;  // from asking for a line of memory until it arrives
  double barrier_cycles = 0;       // all threads meet: of the pool, of a block
  double dispatch_cycles = 0;      // of a parallel loop; of one more kernel in a recording
  double block_start_cycles = 0;   // of a block, until its first operands have arrived
};

struct RateField {
  std::string_view name, unit, meaning;
  double Rates::*value;
  bool cpu, gpu;
};
// In the order of a row.
std::span<const RateField> rate_fields();
bool has_rate(const Target& target, const RateField& field);  // fields of its kind

// The rates of the table for the machine: of its CPU, else of its architecture or generation.
Rates shipped_rates(const Target& target);
// Where a number of shipped_rates comes from; empty where there is none.
std::string_view rate_source(const Target& target, const RateField& field);

// All of them, in digits that tell any two apart: what else decides by them has this in its key.
std::string to_text(const Rates& rates);

}  // namespace tessera::target
