#include "tessera/scheduling/lower/swizzle_tiles.h"

#include <set>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

class SwizzleTiles final : public ir::Mutator {
 public:
  SwizzleTiles(const std::set<ir::Buffer>& tiles, Result<void>* result)
      : tiles_(tiles), result_(result) {}

 private:
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    const auto extent = ir::as_const_int(loop.extent);
    ranges_[loop.var.get()] = extent ? arith::Interval::of_extent(*extent) : arith::Interval{};
    return Mutator::rewrite(s, loop);
  }

  ir::Expr place(const ir::Buffer& b, const ir::Expr& index) {
    const auto* ramp = index.as<ir::Ramp>();
    const ir::Expr& first = ramp ? ramp->base : index;
    const int lanes = index.lanes();
    const std::int64_t length = ir::tile_row(b->dtype), part = ir::tile_chunk(b->dtype);
    const auto simple = [&](const ir::Expr& e) { return arith::simplify(e, ranges_); };
    const bool chunk =
        lanes == 1 || (ramp && ramp->stride == 1 && part % lanes == 0 &&
                       ir::is_const_int(simple(ir::floor_mod(first, ir::int_imm(lanes))), 0));
    if (!chunk) {
      if (result_->ok()) {
        *result_ = make_error(ErrorCode::kIllegalSchedule,
                              "{} is multiplied by warp groups: vectors of it must be parts of "
                              "chunks of {} elements",
                              b->name, part);
      }
      return index;
    }
    const ir::Expr row = simple(ir::floor_div(first, ir::int_imm(length)));
    const ir::Expr turn = simple(ir::floor_mod(row, ir::int_imm(ir::kTileChunks)));
    const ir::Expr from = simple(
        ir::floor_mod(ir::floor_div(first, ir::int_imm(part)), ir::int_imm(ir::kTileChunks)));
    const ir::Expr to = ir::Binary::make(ir::BinaryOp::kXor, from, turn);
    const ir::Expr rest = simple(ir::floor_mod(first, ir::int_imm(part)));
    const ir::Expr at = simple(row * length + rest) + to * part;
    return ramp ? ir::Ramp::make(at, 1, lanes) : at;
  }

  ir::Expr rewrite(const ir::Expr& e, const ir::Call& call) override {
    return ir::is_group_product(e) ? e : Mutator::rewrite(e, call);
  }
  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    if (!tiles_.count(load.buffer)) return Mutator::rewrite(e, load);
    return ir::Load::make(load.buffer, {place(load.buffer, load.indices[0])});
  }
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    if (!tiles_.count(store.buffer)) return Mutator::rewrite(s, store);
    return ir::Store::make(store.buffer, {place(store.buffer, store.indices[0])},
                           (*this)(store.value));
  }

  const std::set<ir::Buffer>& tiles_;
  Result<void>* result_;
  arith::Ranges ranges_;
};

}  // namespace

ir::Stmt swizzle_tiles(const ir::Stmt& s, Result<void>* result) {
  std::set<ir::Buffer> tiles;
  ir::for_each_expr(s, [&](const ir::Expr& e) {
    if (!ir::is_group_product(e)) return;
    for (const std::size_t i : {1U, 2U}) {
      const auto* tile = e.as<ir::Call>()->args[i].as<ir::Call>();
      tiles.insert(tile->args[0].as<ir::Load>()->buffer);
    }
  });
  return tiles.empty() ? s : SwizzleTiles(tiles, result)(s);
}

}  // namespace tessera::lower
