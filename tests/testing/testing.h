// What every test folder shares: the one tolerance, tensor comparison, golden files.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/support/host_tensor.h"

namespace tessera::testing {

// Allowed |got - want| / max(1, |want|) for a sum of `reduction_length` products of values around
// 1, added in any order and accumulated in compute_type(t). 0 for integers and bool: they must be
// exact.
double tolerance(DType t, std::int64_t reduction_length);

// Empty when the tensors agree; otherwise the first bad index, both values and the number of bad
// elements. NaN agrees with NaN, an infinity only with itself.
std::string mismatch(const HostTensor& got, const HostTensor& want, double tolerance);

// Fails the current test when `text` differs from tests/golden/<path> ("ir/matmul.txt").
// With TESSERA_UPDATE_GOLDEN in the environment or --update-golden on the command line it writes
// the file instead.
void expect_golden(const std::string& path, const std::string& text);

}  // namespace tessera::testing
