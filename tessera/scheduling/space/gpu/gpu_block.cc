#include "tessera/scheduling/space/gpu/gpu_block.h"

#include <algorithm>

#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/limits.h"

namespace tessera::space {
namespace {

const target::Rates& h200_rates() {
  static const target::Rates rates = target::find_target("h200").value().rates;
  return rates;
}

}  // namespace

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

double gpu_rate(const target::Target& target, double target::Rates::*rate) {
  const double own = target.rates.*rate;
  return own > 0 ? own : h200_rates().*rate;
}

double beside_h200(const target::Target& target, double target::Rates::*rate) {
  const double own = target.rates.*rate, other = h200_rates().*rate;
  return own > 0 && other > 0 ? own / other : 1;
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
