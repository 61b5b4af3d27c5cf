#include "tessera/scheduling/lower/reduce_threads.h"

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/launch.h"

namespace tessera::lower {
namespace {

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

class Exchange {
 public:
  explicit Exchange(const ThreadReduction& r) : reduction_(r) {
    for (const ir::Buffer& b : r.accumulators) own_.push_back(ir::Load::make(b, r.index));
  }

  ThreadExchange run() {
    // Groups of `warp` threads with consecutive numbers, which no border of a warp cuts.
    const std::int64_t width = reduction_.shape.block[0];
    std::int64_t warp = 1;
    if (reduction_.dim == 0 && reduction_.extent == width) {
      if (width % reduction_.warp == 0) warp = reduction_.warp;
      if (is_power_of_two(width) && width < reduction_.warp) warp = width;
    }
    if (warp > 1) out_.steps.push_back(shuffle(warp));
    if (reduction_.extent > warp) through_memory(warp);
    return std::move(out_);
  }

 private:
  // The result depends on the value that it replaces only through `own_`; an index is stored first.
  ir::Stmt combine(const std::vector<ir::Expr>& with) const {
    const std::vector<ir::Expr> both = te::combine(reduction_.reducer, own_, with);
    std::vector<ir::Stmt> stores;
    for (std::size_t o = both.size(); o-- > 0;)
      stores.push_back(ir::Store::make(reduction_.accumulators[o], reduction_.index, both[o]));
    return ir::Block::make(std::move(stores));
  }

  ir::Stmt shuffle(std::int64_t warp) const {
    std::vector<ir::Stmt> out;
    for (std::int64_t mask = warp / 2; mask > 0; mask /= 2) {
      std::vector<ir::Expr> theirs;
      for (const ir::Expr& e : own_)
        theirs.push_back(ir::call(ir::Intrinsic::kShuffleXor, {e, ir::int_imm(mask)}));
      out.push_back(combine(theirs));
    }
    return ir::Block::make(std::move(out));
  }

  // One part per warp (or thread) goes to shared memory; every thread reads all of its row.
  void through_memory(std::int64_t warp) {
    const auto dim = static_cast<std::size_t>(reduction_.dim);
    const std::int64_t parts = reduction_.extent / warp;
    ir::Expr row = ir::int_imm(0);
    std::int64_t rows = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      if (d == dim || reduction_.shape.block[d] == 1) continue;
      row = row + reduction_.shape.thread_vars[d] * rows;
      rows *= reduction_.shape.block[d];
    }
    const ir::Expr& thread = reduction_.shape.thread_vars[dim];
    const ir::Expr part = warp == 1 ? thread : ir::floor_div(thread, ir::int_imm(warp));
    ir::Expr writes = ir::bool_imm(true);
    if (warp > 1) {
      writes = ir::eq(ir::floor_mod(thread, ir::int_imm(warp)), ir::int_imm(0));
    } else if (reduction_.extent < reduction_.shape.block[dim]) {
      writes = ir::lt(thread, ir::int_imm(reduction_.extent));
    }
    std::vector<std::int64_t> tile;
    for (const ir::Buffer& b : reduction_.accumulators) tile = b->shape;
    std::vector<ir::Expr> at = reduction_.index;
    at.push_back(row);
    std::vector<std::int64_t> extents = tile;
    extents.push_back(rows);
    extents.push_back(parts);
    const ir::Expr p = ir::Var::make("part");
    std::vector<ir::Stmt> put, clear;
    std::vector<ir::Expr> read;
    for (std::size_t o = 0; o < own_.size(); ++o) {
      const ir::Buffer b =
          ir::Buffer::make(reduction_.name + ".parts", reduction_.accumulators[o]->dtype, extents,
                           ir::Scope::kShared);
      out_.shared.push_back(b);
      std::vector<ir::Expr> to = at, from = at;
      to.push_back(part);
      from.push_back(p);
      put.push_back(ir::Store::make(b, to, own_[o]));
      read.push_back(ir::Load::make(b, from));
      clear.push_back(
          ir::Store::make(reduction_.accumulators[o], reduction_.index,
                          te::identity(reduction_.reducer, reduction_.accumulators[o]->dtype, o)));
    }
    const ir::Stmt stores = ir::Block::make(std::move(put));
    out_.steps.push_back(ir::is_const_int(writes, 1) ? stores : ir::If::make(writes, stores));
    clear.push_back(ir::For::make(p, parts, ir::LoopKind::kSerial, combine(read)));
    out_.steps.push_back(ir::Block::make(std::move(clear)));
  }

  const ThreadReduction& reduction_;
  std::vector<ir::Expr> own_;  // the part of this thread
  ThreadExchange out_;
};

}  // namespace

ThreadExchange reduce_threads(const ThreadReduction& r) { return Exchange(r).run(); }

}  // namespace tessera::lower
