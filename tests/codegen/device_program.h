// Programs of GPUs for the tests of their back ends.
#pragma once

#include <string>

#include "tessera/lang/ir/launch.h"

namespace tessera::codegen {

// Fails the current test when the text is no program.
ir::DeviceProgram parse_program(const std::string& text);

// C = A B of n x n, n a multiple of 64: blocks of 64 x 64, 16 x 16 threads with 4 x 4 sums each, 16
// of the depth at a time in shared memory, copied 16 bytes a thread.
ir::DeviceProgram tiled_matmul(std::int64_t n);

// Sums of rows of 256 by 64 threads, through shuffles and shared memory; a second launch scales.
ir::DeviceProgram row_sums(std::int64_t rows);

// Two products of a warp in the type, with sums in `acc`; 16 bytes have `row` elements. Rows of
// shared memory begin at `step` times the thread, by default `row`.
ir::DeviceProgram warp_products(const std::string& type, const std::string& acc, int row,
                                int step = 0);

// A product of a warp group, 64 x `columns`, of tiles that a copy has filled; the right operand has
// the same type, or another one.
ir::DeviceProgram group_product(const std::string& type, int columns, bool rows = false,
                                const std::string& acc = "f32", const std::string& right = "");

}  // namespace tessera::codegen
