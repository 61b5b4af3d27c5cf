// Deterministic random numbers: the same seed gives the same stream on every machine.
#pragma once

#include <cstdint>

namespace tessera {

class Rng {  // splitmix64: small state, passes BigCrush, trivially seedable
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n); n > 0.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
  }
  // Uniform in [lo, hi], both included.
  std::int64_t between(std::int64_t lo, std::int64_t hi) { return lo + below(hi - lo + 1); }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool chance(double p) { return uniform() < p; }
  // A generator whose stream does not depend on how much this one is used later.
  Rng fork() { return Rng(next()); }

 private:
  std::uint64_t state_;
};

}  // namespace tessera
