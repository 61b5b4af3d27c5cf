#include "tests/codegen/device_program.h"

#include <gtest/gtest.h>

#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/verify.h"

namespace tessera::codegen {

ir::DeviceProgram parse_program(const std::string& text) {
  auto program = ir::parse_device_program(text);
  if (!program.ok()) {
    ADD_FAILURE() << program.error().message << "\n" << text;
    return {};
  }
  const auto verified = ir::verify(*program);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  return std::move(program).value();
}

ir::DeviceProgram tiled_matmul(std::int64_t n) {
  std::string zero, sums, stores;
  for (int i = 0; i < 4; ++i) {
    zero += fmt::format("acc[ramp({}, 1, 4)] = broadcast(0.0, 4)\n", 4 * i);
    sums += fmt::format(
        "acc[ramp({0}, 1, 4)] = acc[ramp({0}, 1, 4)] + broadcast(Ar[{1}], 4) * Br[ramp(0, 1, 4)]\n",
        4 * i, i);
    stores += fmt::format(
        "C[by * 64 + ty * 4 + {0}, ramp(bx * 64 + tx * 4, 1, 4)] = acc[ramp({1}, 1, 4)]\n", i,
        4 * i);
  }
  std::string columns;
  for (int i = 0; i < 4; ++i) {
    columns += fmt::format(
        "As[(tx %% 4) * 4 + {0}, ty * 4 + tx // 4] = "
        "A[by * 64 + ty * 4 + tx // 4, kt * 16 + (tx %% 4) * 4 + {0}]\n",
        i);
  }
  return parse_program(fmt::format(
      "device sgemm(A: f32[{0}, {0}], B: f32[{0}, {0}]) -> (C: f32[{0}, {0}]) {{\n"
      "launch tiles(A, B) -> (C) {{\n"
      "grid bx in {1}, by in {1}, bz in 1\n"
      "block tx in 16, ty in 16, tz in 1\n"
      "shared As: f32[16, 64]\n"
      "shared Bs: f32[16, 64]\n"
      "alloc acc: f32[16] stack {{ alloc Ar: f32[4] stack {{ alloc Br: f32[4] stack {{\n"
      "{2}"
      "for kt in {3} {{\n"
      "{4}"
      "Bs[ty, ramp(tx * 4, 1, 4)] = B[kt * 16 + ty, ramp(bx * 64 + tx * 4, 1, 4)]\n"
      "barrier\n"
      "for k in 16 {{\n"
      "Ar[ramp(0, 1, 4)] = As[k, ramp(ty * 4, 1, 4)]\n"
      "Br[ramp(0, 1, 4)] = Bs[k, ramp(tx * 4, 1, 4)]\n"
      "{5}"
      "}}\n"
      "barrier\n"
      "}}\n"
      "{6}"
      "}} }} }}\n"
      "}}\n"
      "}}\n",
      n, n / 64, zero, n / 16, columns, sums, stores));
}

ir::DeviceProgram row_sums(std::int64_t rows) {
  return parse_program(
      fmt::format("device sums(A: f32[{0}, 256]) -> (B: f32[{0}]) {{\n"
                  "temp P: f32[{0}]\n"
                  "launch sum(A) -> (P) {{\n"
                  "grid bx in {0}, by in 1, bz in 1\n"
                  "block tx in 64, ty in 1, tz in 1\n"
                  "shared S: f32[2]\n"
                  "alloc acc: f32[1] stack {{\n"
                  "acc[0] = 0.0\n"
                  "for i in 4 {{ acc[0] = acc[0] + A[bx, i * 64 + tx] }}\n"
                  "acc[0] = acc[0] + shuffle_xor(acc[0], 16)\n"
                  "acc[0] = acc[0] + shuffle_xor(acc[0], 8)\n"
                  "acc[0] = acc[0] + shuffle_xor(acc[0], 4)\n"
                  "acc[0] = acc[0] + shuffle_xor(acc[0], 2)\n"
                  "acc[0] = acc[0] + shuffle_xor(acc[0], 1)\n"
                  "if tx %% 32 == 0 {{ S[tx // 32] = acc[0] }}\n"
                  "barrier\n"
                  "if tx == 0 {{ P[bx] = S[0] + S[1] }}\n"
                  "}} }}\n"
                  "launch scale(P) -> (B) {{\n"
                  "grid bx in 1, by in 1, bz in 1\n"
                  "block tx in {0}, ty in 1, tz in 1\n"
                  "B[tx] = P[tx] * 0.5\n"
                  "}}\n"
                  "}}\n",
                  rows));
}

ir::DeviceProgram warp_products(const std::string& type, const std::string& acc, int row,
                                int step) {
  std::string half;
  for (int i = 0; i < row / 2; ++i) half += fmt::format("{}{}", i > 0 ? ", " : "", i);
  return parse_program(fmt::format(
      "device p(A: {0}[512]) -> (B: {1}[512]) {{ launch k(A) -> (B) {{ grid bx in 1, by in 1, bz "
      "in "
      "1 block tx in 32, ty in 1, tz in 1 shared S: {0}[512]\n"
      "S[ramp(tx * {2}, 1, {2})] = A[ramp(tx * {2}, 1, {2})]\nbarrier\n"
      "B[ramp(tx * 4, 1, 4)] = mma(mma(B[ramp(tx * 4, 1, 4)], matrix_rows(S[ramp(tx * {3}, 1, "
      "{2})]), shuffle(matrix_rows(S[ramp(tx * {2}, 1, {2})]), [{4}])), matrix_rows(S[ramp(tx * "
      "{3}, 1, {2})]), A[ramp(tx * {2}, 1, {5})])}} }}",
      type, acc, row, step > 0 ? step : row, half, row / 2));
}

ir::DeviceProgram group_product(const std::string& type, int columns, bool rows,
                                const std::string& acc, const std::string& right) {
  return parse_program(fmt::format(
      "device p(A: {0}[4096]) -> (B: {5}[{1}]) {{ launch k(A) -> (B) {{ grid bx in 1, by in 1, bz "
      "in 1 block tx in 128, ty in 1, tz in 1 shared S: {0}[8192] shared T: {6}[32768]\n"
      "alloc C: {5}[{2}] stack {{\nC[ramp(0, 1, {2})] = broadcast({4}, {2})\n"
      "for i in 32 {{\neval async_copy(S[ramp(i * 8 + tx * 16, 1, 8)], A[ramp(tx * 8, 1, 8)])\n"
      "eval async_commit()\neval async_wait(1)\nbarrier\n"
      "C[ramp(0, 1, {2})] = mma(C[ramp(0, 1, {2})], matrix_rows(S[0]), {3}(T[0]))}}\n"
      "eval async_wait(0)\nB[ramp(tx * {2}, 1, {2})] = C[ramp(0, 1, {2})]}}}} }}",
      type, 64 * columns, columns / 2, rows ? "matrix_rows" : "matrix_columns",
      acc == "i32" ? "cast<i32>(0)" : "0.0", acc, right.empty() ? type : right));
}

}  // namespace tessera::codegen
