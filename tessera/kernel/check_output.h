// Compares results with the interpreter, wholly when small and on sampled points otherwise.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"
#include "tessera/support/tolerance.h"
#include "tessera/te/dag.h"

namespace tessera::kernel {

// The difference allowed between two ways to compute an output, relative to its largest magnitude:
// that of the table (support/tolerance.h) for the roundings on the way to it.
double tolerance(const te::Dag& dag, std::size_t output, Products products = Products::kExact);

// Points of one output with the interpreter's values. All points when the Dag is small, else
// `samples` random ones together with the first and the last.
struct Reference {
  std::vector<std::int64_t> points;
  std::vector<double> values;
  double scale = 1;  // largest magnitude among the values
};
Result<Reference> reference(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                            std::size_t output, std::int64_t samples, std::uint64_t seed);

// Whether every value is NaN: then nothing that was computed can be told from what was not.
bool is_all_nan(const Reference& reference);

// Largest |got - want| / (tolerance * scale) over the points; above 1 is wrong. Infinite when
// is_all_nan(want): such a comparison verifies nothing.
double worst_error(const Reference& want, const HostTensor& got, double tolerance);

}  // namespace tessera::kernel
