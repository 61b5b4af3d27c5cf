// Permutations as `transpose` has them: axis i of the result is axis perm[i] of the operand.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "tessera/support/host_tensor.h"

namespace tessera::graph {

using Permutation = std::vector<std::int64_t>;

inline Permutation identity_permutation(std::size_t rank) {
  Permutation p(rank);
  std::iota(p.begin(), p.end(), 0);
  return p;
}

// items[perm[0]], items[perm[1]], ...: a list per axis after the transpose.
template <class T>
std::vector<T> permuted(const std::vector<T>& items, const Permutation& perm) {
  std::vector<T> out;
  out.reserve(perm.size());
  for (const std::int64_t p : perm) out.push_back(items[static_cast<std::size_t>(p)]);
  return out;
}

inline Permutation inverse(const Permutation& perm) {
  Permutation out(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    out[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  }
  return out;
}

// transpose(transpose(x, first), second) == transpose(x, compose(first, second)).
inline Permutation compose(const Permutation& first, const Permutation& second) {
  return permuted(first, second);
}

inline bool is_identity(const Permutation& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

// The order of elements in memory stays: only axes of size 1 move, or there is at most one element.
inline bool keeps_order(const Shape& shape, const Permutation& perm) {
  std::int64_t last = -1;
  for (const std::int64_t p : perm) {
    const std::int64_t size = shape[static_cast<std::size_t>(p)];
    if (size == 0) return true;
    if (size == 1) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

}  // namespace tessera::graph
