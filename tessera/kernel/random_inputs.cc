#include "tessera/kernel/random_inputs.h"

#include <algorithm>
#include <cstring>

namespace tessera::kernel {
namespace {

// Tensors of batches have tens of millions of elements, and converting each to f16 takes longer
// than measuring. Theirs repeat; the period is prime, so that no tile of a schedule matches it.
constexpr std::int64_t kPeriod = 1048573;

HostTensor repeated_tensor(DType dtype, const Shape& shape, Rng& rng) {
  std::int64_t elements = 1;
  for (const std::int64_t e : shape) elements *= e;
  if (elements <= kPeriod) return random_tensor(dtype, shape, rng);
  const HostTensor first = random_tensor(dtype, {kPeriod}, rng);
  HostTensor out(dtype, shape);
  for (std::size_t at = 0; at < out.bytes(); at += first.bytes())
    std::memcpy(out.as<std::byte>() + at, first.data(), std::min(first.bytes(), out.bytes() - at));
  return out;
}

}  // namespace

std::vector<HostTensor> random_inputs(const te::Dag& dag, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<HostTensor> out;
  for (const te::Input& in : dag.inputs) {
    out.push_back(repeated_tensor(in.buffer->dtype, in.buffer->shape, rng));
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
