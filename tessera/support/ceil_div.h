// Division that rounds up.
#pragma once

#include <cstdint>

namespace tessera {

// `b` > 0; `a` may be negative.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a > 0 ? (a - 1) / b + 1 : a / b;
}

// The next multiple of `unit` > 0, or `n` itself.
constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace tessera
