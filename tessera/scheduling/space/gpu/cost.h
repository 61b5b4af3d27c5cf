// What the parts of a product on a GPU cost in clock cycles, whether threads, warps (mma) or warp
// groups (wgmma) compute it. The numbers of the machine are its rates (target/rates.h).
#pragma once

#include <cstdint>
#include <initializer_list>

#include "tessera/machine/target/target.h"

namespace tessera::space {

// The blocks of a launch on the multiprocessors of a device.
struct GpuWaves {
  double at_once = 1;  // that a multiprocessor runs side by side
  double waves = 1;    // one after the other
};
GpuWaves gpu_waves(const target::Target& target, double blocks, double resident);

// A step between barriers that does some work of several kinds side by side (products, reads of
// shared memory, copies) while the operands of so many later steps are under way.
double pipeline_step_cycles(const target::Target& target, std::initializer_list<double> work,
                            std::int64_t under_way);

// Of what the L2 can deliver, what threads take that compute besides (fitted as in cost.cc).
inline constexpr double kThreadCopies = 0.6;

// Split-K: another kernel adds up `parts` sums of f32 for each of so many outputs.
double split_k_cycles(const target::Target& target, double outputs, double parts);

// Threads of a multiprocessor that keep the memory busy with so many bytes under way for each; a
// power of two.
std::int64_t busy_gpu_threads(const target::Target& target, std::int64_t bytes);

}  // namespace tessera::space
