// The type of an expression: element type and number of vector lanes.
#pragma once

#include <string>

#include "tessera/support/dtype.h"

namespace tessera::ir {

struct Type {
  DType dtype = DType::kI64;
  int lanes = 1;  // 1: scalar

  bool is_vector() const { return lanes > 1; }
  Type with_lanes(int n) const { return {dtype, n}; }
  Type with_dtype(DType t) const { return {t, lanes}; }
  friend bool operator==(Type a, Type b) = default;
};

std::string to_text(Type t);  // "f32", "f32x4"

}  // namespace tessera::ir
