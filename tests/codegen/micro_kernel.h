// The inner kernel of a matrix product as lowering produces it: a register tile in a kStack buffer.
#pragma once

#include <cstdint>

#include "tessera/lang/ir/stmt.h"

namespace tessera::codegen {

// C[rows, cols] = sum over k of A[k, rows] * B[k, cols], all f32 and packed, `lanes` columns per
// vector. Params: A, B, C.
ir::Func micro_kernel(int rows, int cols, int lanes, std::int64_t depth);

}  // namespace tessera::codegen
