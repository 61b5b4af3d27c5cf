#include "tessera/kernel/check_output.h"

#include <algorithm>
#include <cmath>

#include "tessera/interp/interp.h"
#include "tessera/te/roundings.h"

namespace tessera::kernel {
namespace {

// Above this many operations the interpreter computes only the sampled points.
constexpr double kWholeFlops = 2e7;

}  // namespace

double tolerance(const te::Dag& dag, std::size_t output, Products products) {
  return tessera::tolerance(te::roundings(dag, output, products));
}

Result<Reference> reference(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                            std::size_t output, std::int64_t samples, std::uint64_t seed) {
  Reference out;
  const std::int64_t n = dag.outputs[output].size();
  std::vector<HostTensor> whole;
  if (te::flop_count(dag) <= kWholeFlops) {
    TESSERA_TRY(whole, interp::run(dag, inputs));
    for (std::int64_t i = 0; i < n; ++i) out.points.push_back(i);
    for (const std::int64_t i : out.points) out.values.push_back(whole[output].get_float(i));
  } else {
    Rng rng(seed);
    out.points = {0, n - 1};
    for (std::int64_t i = 0; i < samples; ++i) out.points.push_back(rng.below(n));
    TESSERA_TRY(out.values, interp::run_points(dag, inputs, output, out.points));
  }
  out.scale = 0;
  for (const double v : out.values) {
    if (std::isfinite(v)) out.scale = std::max(out.scale, std::abs(v));
  }
  return out;
}

bool is_all_nan(const Reference& reference) {
  const std::vector<double>& values = reference.values;
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

double worst_error(const Reference& want, const HostTensor& got, double tolerance) {
  if (is_all_nan(want)) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < want.points.size(); ++i) {
    const double a = got.get_float(want.points[i]);
    const double b = want.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = over_tolerance(std::abs(a - b), tolerance * want.scale);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace tessera::kernel
