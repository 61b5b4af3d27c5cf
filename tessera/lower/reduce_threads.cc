#include "tessera/lower/reduce_threads.h"

#include "tessera/ir/build.h"
#include "tessera/ir/launch.h"

namespace tessera::lower {
namespace {

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

class Exchange {
 public:
  explicit Exchange(const ThreadReduction& r) : r_(r) {
    for (const ir::Buffer& b : r.accumulators) own_.push_back(ir::Load::make(b, r.index));
  }

  ThreadExchange run() {
    // Groups of `warp` threads with consecutive numbers, which no border of a warp cuts.
    const std::int64_t width = r_.shape.block[0];
    std::int64_t warp = 1;
    if (r_.dim == 0 && r_.extent == width) {
      if (width % ir::kWarpThreads == 0) warp = ir::kWarpThreads;
      if (is_power_of_two(width) && width < ir::kWarpThreads) warp = width;
    }
    if (warp > 1) out_.steps.push_back(shuffle(warp));
    if (r_.extent > warp) through_memory(warp);
    return std::move(out_);
  }

 private:
  // The result depends on the value that it replaces only through `own_`; an index is stored first.
  ir::Stmt combine(const std::vector<ir::Expr>& with) const {
    const std::vector<ir::Expr> both = te::combine(r_.reducer, own_, with);
    std::vector<ir::Stmt> stores;
    for (std::size_t o = both.size(); o-- > 0;)
      stores.push_back(ir::Store::make(r_.accumulators[o], r_.index, both[o]));
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
    const auto dim = static_cast<std::size_t>(r_.dim);
    const std::int64_t parts = r_.extent / warp;
    ir::Expr row = ir::int_imm(0);
    std::int64_t rows = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      if (d == dim || r_.shape.block[d] == 1) continue;
      row = row + r_.shape.thread_vars[d] * rows;
      rows *= r_.shape.block[d];
    }
    const ir::Expr& thread = r_.shape.thread_vars[dim];
    const ir::Expr part = warp == 1 ? thread : ir::floor_div(thread, ir::int_imm(warp));
    ir::Expr writes = ir::bool_imm(true);
    if (warp > 1) {
      writes = ir::eq(ir::floor_mod(thread, ir::int_imm(warp)), ir::int_imm(0));
    } else if (r_.extent < r_.shape.block[dim]) {
      writes = ir::lt(thread, ir::int_imm(r_.extent));
    }
    std::vector<std::int64_t> tile;
    for (const ir::Buffer& b : r_.accumulators) tile = b->shape;
    std::vector<ir::Expr> at = r_.index;
    at.push_back(row);
    std::vector<std::int64_t> extents = tile;
    extents.push_back(rows);
    extents.push_back(parts);
    const ir::Expr p = ir::Var::make("part");
    std::vector<ir::Stmt> put, clear;
    std::vector<ir::Expr> read;
    for (std::size_t o = 0; o < own_.size(); ++o) {
      const ir::Buffer b = ir::Buffer::make(r_.name + ".parts", r_.accumulators[o]->dtype, extents,
                                            ir::Scope::kShared);
      out_.shared.push_back(b);
      std::vector<ir::Expr> to = at, from = at;
      to.push_back(part);
      from.push_back(p);
      put.push_back(ir::Store::make(b, to, own_[o]));
      read.push_back(ir::Load::make(b, from));
      clear.push_back(ir::Store::make(r_.accumulators[o], r_.index,
                                      te::identity(r_.reducer, r_.accumulators[o]->dtype, o)));
    }
    const ir::Stmt stores = ir::Block::make(std::move(put));
    out_.steps.push_back(ir::is_const_int(writes, 1) ? stores : ir::If::make(writes, stores));
    clear.push_back(ir::For::make(p, parts, ir::LoopKind::kSerial, combine(read)));
    out_.steps.push_back(ir::Block::make(std::move(clear)));
  }

  const ThreadReduction& r_;
  std::vector<ir::Expr> own_;  // the part of this thread
  ThreadExchange out_;
};

}  // namespace

ThreadExchange reduce_threads(const ThreadReduction& r) { return Exchange(r).run(); }

}  // namespace tessera::lower
