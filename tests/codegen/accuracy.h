// Error of compiled f32 functions over sets of inputs.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/lang/ir/expr.h"

namespace tessera::codegen {

struct FunctionCase {
  ir::Intrinsic fn;
  double (*exact)(double);
  double bound;      // units in the last place
  double zero_from;  // results are flushed to zero for inputs below this
};

inline constexpr double kExpZero = -87.68312;

const FunctionCase* function_case(ir::Intrinsic fn);

struct Accuracy {
  double max_ulps = 0;
  float worst = 0;          // input of max_ulps
  std::int64_t tested = 0;  // inputs
  std::string failure;      // the first wrong special value; empty when there is none
};

// Runs the function on the inputs whose bits are first, first + stride, ... below 2^32, four lanes
// at a time. NaN, infinities, zeros and results beyond the range of f32 must come out exactly.
Accuracy measure_accuracy(const FunctionCase& function, std::uint32_t first, std::uint32_t stride);

}  // namespace tessera::codegen
