// Compares results with the interpreter, wholly when small and on sampled points otherwise.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"
#include "tessera/support/tolerance.h"

namespace tessera::kernel {

// The difference allowed between two ways to compute an output, relative to its largest magnitude:
// that of the table (support/tolerance.h) for the roundings on the way to it. Of an integer: of
// what it was before it was rounded (te/before_rounding.h); 0: it is exact.
double tolerance(const te::Dag& dag, std::size_t output, Products products = Products::kExact);

// Above this many operations the interpreter computes only sampled points.
inline constexpr double kWholeFlops = 2e7;

// Points of one output with the interpreter's values. All points when the Dag has at most
// `whole_flops` operations, else `samples` random ones together with the first and the last.
struct Reference {
  std::vector<std::int64_t> points;
  std::vector<double> values;
  double scale = 1;  // largest magnitude among the values
  // Of integers that rounding decides: what the values were before, and their largest magnitude.
  std::vector<double> before = {};
  double before_scale = 0;
};
Result<Reference> reference(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                            std::size_t output, std::int64_t samples, std::uint64_t seed,
                            double whole_flops = kWholeFlops);

// Whether every value is NaN: then nothing that was computed can be told from what was not.
bool is_all_nan(const Reference& reference);

// How much of `allowed` an integer takes that is not the one wanted, which was `before` until it
// was rounded: how far that is from the border between the two. Infinite when they are not
// neighbours.
double over_border(double want, double got, double before, double allowed);

// Largest |got - want| / (tolerance * scale) over the points, of integers over_border(); above 1 is
// wrong. Infinite when is_all_nan(want): such a comparison verifies nothing.
double worst_error(const Reference& want, const HostTensor& got, double tolerance);

}  // namespace tessera::kernel
