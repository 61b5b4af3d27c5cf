#include "tessera/kernel/random_inputs.h"

#include <algorithm>

namespace tessera::kernel {

std::vector<HostTensor> random_inputs(const te::Dag& dag, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<HostTensor> out;
  for (const te::Input& in : dag.inputs) {
    out.push_back(random_tensor(in.buffer->dtype, in.buffer->shape, rng));
    // Integer inputs index other tensors: the smallest extent that any tensor has is always in
    // range.
    if (in.buffer->dtype != DType::kI64) continue;
    std::int64_t smallest = 1 << 20;
    for (const te::Input& other : dag.inputs) {
      if (!other.buffer->shape.empty() && other.buffer != in.buffer)
        smallest = std::min(smallest, other.buffer->shape[0]);
    }
    for (std::int64_t i = 0; i < out.back().size(); ++i)
      out.back().set_int(i, rng.below(std::max<std::int64_t>(smallest, 1)));
  }
  return out;
}

}  // namespace tessera::kernel
