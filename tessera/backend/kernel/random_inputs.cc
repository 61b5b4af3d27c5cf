#include "tessera/backend/kernel/random_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "tessera/lang/interp/interp.h"

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

// What goes into tanh and erf, in networks: beyond it their results are 1 but for the last bits.
constexpr double kMostBefore = 3;
constexpr std::int64_t kSampledPoints = 32;

// The Dag without the tanh or erf by which it ends; none: it ends otherwise.
std::optional<te::Dag> before_saturation(const te::Dag& dag) {
  if (dag.outputs.size() != 1 || dag.ops.empty()) return std::nullopt;
  const te::Op& last = dag.ops.back();
  if (last.outputs != dag.outputs || last.reducer != te::Reducer::kNone) return std::nullopt;
  const auto* call = last.values[0].as<ir::Call>();
  if (call == nullptr || (call->fn != ir::Intrinsic::kTanh && call->fn != ir::Intrinsic::kErf))
    return std::nullopt;
  te::Dag out = dag;
  out.ops.back().values = {call->args[0]};
  return out;
}

// Sums of many random terms are large. Where tanh or erf follows, the results would be 1 or -1 at
// nearly all points, which shows no mistake, and at the others all that counts would be the
// rounding of the sums, which right schedules do not share. Smaller constants give sums as networks
// have them.
void keep_from_saturation(const te::Dag& dag, std::vector<HostTensor>* inputs) {
  const std::optional<te::Dag> before = before_saturation(dag);
  if (!before) return;
  const std::int64_t n = before->outputs[0].size();
  if (n == 0) return;
  Rng rng(1);
  std::vector<std::int64_t> points = {0, n - 1};
  for (std::int64_t i = 0; i < kSampledPoints; ++i) points.push_back(rng.below(n));
  const Result<std::vector<double>> values = interp::run_points(*before, *inputs, 0, points);
  if (!values) return;
  double most = 0;
  for (const double v : *values) most = std::max(most, std::isfinite(v) ? std::abs(v) : 0);
  if (most <= kMostBefore) return;
  // A power of two: nothing is rounded, and all machines take the same.
  const double factor = std::exp2(-std::ceil(std::log2(most / kMostBefore)));
  for (std::size_t i = 0; i < inputs->size(); ++i) {
    HostTensor& t = (*inputs)[i];
    if (!dag.inputs[i].constant || !is_float(t.dtype())) continue;
    for (std::int64_t e = 0; e < t.size(); ++e) t.set_float(e, factor * t.get_float(e));
  }
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
  keep_from_saturation(dag, &out);
  return out;
}

}  // namespace tessera::kernel
