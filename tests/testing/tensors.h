// Small tensors from numbers and back.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/support/host_tensor.h"

namespace tessera::testing {

inline HostTensor tensor(DType t, const Shape& shape, const std::vector<double>& values) {
  HostTensor out(t, shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (is_float(t)) {
      out.set_float(at, values[i]);
    } else {
      out.set_int(at, static_cast<std::int64_t>(values[i]));
    }
  }
  return out;
}

// first, first + 1, ...
inline HostTensor counting(const Shape& shape, DType t = DType::kF32, std::int64_t first = 0) {
  HostTensor out(t, shape);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    is_float(t) ? out.set_float(i, static_cast<double>(first + i)) : out.set_int(i, first + i);
  }
  return out;
}

inline std::vector<double> values_of(const HostTensor& t) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    values.push_back(is_float(t.dtype()) ? t.get_float(i) : static_cast<double>(t.get_int(i)));
  }
  return values;
}

}  // namespace tessera::testing
