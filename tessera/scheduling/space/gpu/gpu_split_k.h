// A sum whose parts are computed by different blocks or threads, for products of threads and of
// tensor cores alike.
#pragma once

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu.h"

namespace tessera::space {

// Where a contraction is computed.
struct GpuSum {
  std::string part;    // loop over the parts; empty: there is one
  std::string cut;     // loop of the reduction within a part
  std::string launch;  // stage whose loops are blocks and threads
  std::string inner;   // stage of the sums, in registers
};

// Cuts the reduce axis `cut` of the stage into `parts`, which become a launch of their own.
GpuSum cut_gpu_sum(Context& x, const Contraction& c, const Nest& nest, std::size_t cut,
                   std::int64_t parts);

// The whole sum goes through shared memory, from where its nest takes whole rows.
GpuSum stage_gpu_sum(Context& x, const Contraction& c, const Nest& nest, std::size_t cut);

// Loops over results of the sum that no tile divides.
Loops gpu_untiled_loops(const Context& x, const Contraction& c);

// Loops of the nest over the results of a sum, which a thread computes together; none where parts
// of the sum are a launch of their own.
Loops gpu_spread_loops(const Context& x, const Nest& nest, const std::string& part);

// Loops of the launch that are blocks, outermost first: parts, units of the nest alone, and axes
// that no tile divides.
Loops gpu_block_loops(const Context& x, const Contraction& c, const Nest& nest,
                      const std::string& part);

// The second launch: adds the parts up, in order, with the epilogue.
void add_split_k(Context& x, const Contraction& c, const Nest& nest, const std::string& part);
// The same within a launch: the sum of what the parts have, where loop `thread` of the nest needs
// it.
void add_split_k_at(Context& x, const Contraction& c, const Nest& nest, const std::string& part,
                    const std::string& thread, bool vectors);

}  // namespace tessera::space
