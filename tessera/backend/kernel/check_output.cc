#include "tessera/backend/kernel/check_output.h"

#include <algorithm>
#include <cmath>

#include "tessera/lang/interp/interp.h"
#include "tessera/lang/te/before_rounding.h"
#include "tessera/lang/te/roundings.h"

namespace tessera::kernel {
namespace {

// At the points, or at all of them where there is none.
Result<std::vector<double>> values_of(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                                      std::size_t output, const std::vector<std::int64_t>& points,
                                      bool whole) {
  if (!whole) return interp::run_points(dag, inputs, output, points);
  TESSERA_TRY(const std::vector<HostTensor> outputs, interp::run(dag, inputs));
  std::vector<double> out;
  for (const std::int64_t i : points) out.push_back(outputs[output].get_float(i));
  return out;
}

double magnitude(const std::vector<double>& values) {
  double most = 0;
  for (const double v : values) {
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  }
  return most;
}

}  // namespace

double tolerance(const te::Dag& dag, std::size_t output, Products products) {
  if (is_float(dag.outputs[output]->dtype))
    return tessera::tolerance(te::roundings(dag, output, products));
  const std::optional<te::Dag> before = te::before_rounding(dag, output);
  return before ? tessera::tolerance(te::roundings(*before, 0, products)) : 0;
}

Result<Reference> reference(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                            std::size_t output, std::int64_t samples, std::uint64_t seed,
                            double whole_flops) {
  Reference out;
  const std::int64_t n = dag.outputs[output].size();
  const bool whole = te::flop_count(dag) <= whole_flops;
  if (whole) {
    for (std::int64_t i = 0; i < n; ++i) out.points.push_back(i);
  } else {
    Rng rng(seed);
    out.points = {0, n - 1};
    for (std::int64_t i = 0; i < samples; ++i) out.points.push_back(rng.below(n));
  }
  TESSERA_TRY(out.values, values_of(dag, inputs, output, out.points, whole));
  out.scale = magnitude(out.values);
  if (const std::optional<te::Dag> before = te::before_rounding(dag, output)) {
    TESSERA_TRY(out.before, values_of(*before, inputs, 0, out.points, whole));
    out.before_scale = magnitude(out.before);
  }
  return out;
}

bool is_all_nan(const Reference& reference) {
  const std::vector<double>& values = reference.values;
  return !values.empty() &&
         std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); });
}

double over_border(double want, double got, double before, double allowed) {
  if (std::abs(want - got) != 1) return INFINITY;
  return over_tolerance(std::abs(before - (want + got) / 2), allowed);
}

double worst_error(const Reference& want, const HostTensor& got, double tolerance) {
  if (is_all_nan(want)) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < want.points.size(); ++i) {
    const double a = got.get_float(want.points[i]);
    const double b = want.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    const double error = want.before.empty()
                             ? over_tolerance(std::abs(a - b), tolerance * want.scale)
                             : over_border(b, a, want.before[i], tolerance * want.before_scale);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace tessera::kernel
