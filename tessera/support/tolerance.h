// How far two right ways to compute one output may differ: the one table of tolerances. Rounding on
// the way to the output is counted where it happens (te/roundings.h, graph/roundings.h); types that
// are only stored or moved there loosen nothing.
#pragma once

#include <array>
#include <cstdint>

#include "tessera/support/dtype.h"

namespace tessera {

// Half of the distance from 1 to the next value of a float type; of small integers, half a step of
// the range that they quantise. 0 for bool and wide integers, which do not round.
double unit_roundoff(DType t);

// How products of f32 are computed: as the type says, or of operands rounded to tf32, which has the
// range of f32 and 10 bits of fraction.
enum class Products : std::uint8_t { kExact, kTf32 };

// Rounding steps on the way to an output, by the type rounded to.
class Roundings {
 public:
  // Values rounded once to `to`, or sums of `length` terms in it.
  void add(DType to, double length = 1);
  void add(const Roundings& other);
  void add_tf32(double count);  // values rounded to tf32
  double count(DType to) const;
  bool any() const;  // none: whatever is computed is exact

 private:
  friend double tolerance(const Roundings& roundings);
  std::array<double, 8> counts_{};  // by row of the table
  double tf32_ = 0;
};

// The difference allowed, relative to the largest magnitude of the output. Rounding errors add up
// as the root of their number; what a type may add in all is limited, however deep the network.
double tolerance(const Roundings& roundings);

// The difference of two right results of one calculation in `t` whose terms were of `magnitude`,
// however small the result: a rounding of a term and one of the result, on either side.
double rounding_of_terms(DType t, double magnitude);

// How much of `allowed` an error takes: above 1 is wrong. Where nothing is allowed, any error is.
double over_tolerance(double error, double allowed);

}  // namespace tessera
