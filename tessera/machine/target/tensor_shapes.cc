#include <array>

#include "tessera/machine/target/target.h"

namespace tessera::target {
namespace {

// "Matrix shape" tables of mma.sync and wgmma in the PTX ISA: one row a type and generation.
struct Row {
  int since, until;  // compute capability; wgmma is not of later generations
  TensorShape shape;
};
constexpr int kForever = 1000;
constexpr std::array kRows = {
    Row{70, 74, {DType::kF16, 8, 8, 4}},         Row{75, kForever, {DType::kI8, 8, 8, 16}},
    Row{75, kForever, {DType::kF16, 16, 8, 8}},  Row{80, kForever, {DType::kF32, 16, 8, 8}},
    Row{80, kForever, {DType::kF16, 16, 8, 16}}, Row{80, kForever, {DType::kBF16, 16, 8, 16}},
    Row{80, kForever, {DType::kI8, 16, 8, 32}},  Row{80, kForever, {DType::kF64, 8, 8, 4}},
    Row{90, 90, {DType::kF32, 64, 256, 8}},      Row{90, 90, {DType::kF16, 64, 256, 16}},
    Row{90, 90, {DType::kBF16, 64, 256, 16}},    Row{90, 90, {DType::kI8, 64, 256, 32}},
};

}  // namespace

std::vector<TensorShape> tensor_shapes(const Target& t) {
  std::vector<TensorShape> out;
  for (const Row& row : kRows) {
    if (t.gpu.capability >= row.since && t.gpu.capability <= row.until) out.push_back(row.shape);
  }
  return out;
}

}  // namespace tessera::target
