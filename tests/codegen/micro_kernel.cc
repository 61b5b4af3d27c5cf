#include "micro_kernel.h"

#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Buffer;
using ir::Expr;
using ir::Stmt;

Expr columns(int first, int lanes) { return ir::Ramp::make(ir::int_imm(first), 1, lanes); }

}  // namespace

ir::Func micro_kernel(int rows, int cols, int lanes, std::int64_t depth) {
  const Buffer a = Buffer::make("a", DType::kF32, {depth, rows});
  const Buffer b = Buffer::make("b", DType::kF32, {depth, cols});
  const Buffer c = Buffer::make("c", DType::kF32, {rows, cols});
  const Buffer tile = Buffer::make("tile", DType::kF32, {rows, cols}, ir::Scope::kStack);
  const Expr k = ir::Var::make("k");
  std::vector<Stmt> clear;
  std::vector<Stmt> update;
  std::vector<Stmt> write;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; j += lanes) {
      const std::vector<Expr> index = {ir::int_imm(i), columns(j, lanes)};
      clear.push_back(ir::Store::make(tile, index, ir::zero({DType::kF32, lanes})));
      const Expr x = ir::Broadcast::make(ir::Load::make(a, {k, ir::int_imm(i)}), lanes);
      const Expr y = ir::Load::make(b, {k, columns(j, lanes)});
      update.push_back(ir::Store::make(tile, index, ir::Load::make(tile, index) + x * y));
      write.push_back(ir::Store::make(c, index, ir::Load::make(tile, index)));
    }
  }
  const Stmt loop = ir::For::make(k, depth, ir::LoopKind::kSerial, ir::Block::make(update));
  const Stmt body = ir::Block::make({ir::Block::make(clear), loop, ir::Block::make(write)});
  return {"micro_kernel", {a, b, c}, 1, ir::Allocate::make(tile, body)};
}

}  // namespace tessera::codegen
