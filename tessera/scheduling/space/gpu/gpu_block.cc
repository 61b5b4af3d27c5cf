#include "tessera/scheduling/space/gpu/gpu_block.h"

#include <algorithm>

#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/limits.h"

namespace tessera::space {

const char* refuse_gpu_block(const target::Target& target, const GpuBlock& block,
                             std::int64_t most_threads) {
  if (block.threads > std::min<std::int64_t>(most_threads, target.gpu.block_threads))
    return "more threads than a block has";
  if (!limits::fits_gpu_registers(target, block.registers, block.threads))
    return "more sums than registers";
  if (block.shared_bytes > target.gpu.block_shared_bytes)
    return "more than the shared memory of a block";
  return nullptr;
}

const target::Rates& gpu_rates(const target::Target& target) {
  static const target::Rates fitted = target::find_target("h200").value().rates;
  return target.rates.block_start_cycles > 0 ? target.rates : fitted;
}

double resident_gpu_blocks(const target::Target& target, const GpuBlock& block, double most) {
  const target::GpuLimits& gpu = target.gpu;
  const auto fits = [](std::int64_t all, std::int64_t each) {
    return std::floor(static_cast<double>(all) / static_cast<double>(each));
  };
  return std::max(
      1.0, std::min({fits(gpu.core_registers, block.registers * block.threads),
                     fits(gpu.core_shared_bytes, block.shared_bytes + kGpuBlockBytes), most}));
}

}  // namespace tessera::space
