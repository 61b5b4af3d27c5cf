#include "tessera/scheduling/lower/widen_stores.h"

#include <optional>
#include <vector>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

constexpr std::int64_t kQuad = 4;  // threads that exchange, and stores
constexpr std::int64_t kPair = 2, kRow = kQuad * kPair;

bool multiplies(const ir::Stmt& s) {
  bool found = false;
  ir::for_each_expr(s, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::Call>();
    found = found || (call && call->fn == ir::Intrinsic::kMma);
  });
  return found;
}

class WidenStores final : public ir::Mutator {
 private:
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    const auto extent = ir::as_const_int(loop.extent);
    ranges_[loop.var.get()] = extent ? arith::Interval::of_extent(*extent) : arith::Interval{};
    if (loop.loop_kind != ir::LoopKind::kThreadX) return Mutator::rewrite(s, loop);
    thread_ = multiplies(loop.body) && extent && *extent % ir::kFragmentThreads == 0 ? loop.var
                                                                                     : ir::Expr();
    threads_ = extent.value_or(0);
    return thread_ ? Mutator::rewrite(s, loop) : s;
  }

  // Some threads may not arrive.
  ir::Stmt rewrite(const ir::Stmt& s, const ir::If&) override { return s; }

  ir::Stmt rewrite(const ir::Stmt& s, const ir::Block& block) override {
    if (!thread_) return Mutator::rewrite(s, block);
    std::vector<ir::Stmt> out;
    bool changed = false;
    for (std::size_t i = 0; i < block.stmts.size();) {
      if (const auto wide = widen(block.stmts, i)) {
        out.push_back(*wide);
        i += static_cast<std::size_t>(kQuad);
        changed = true;
        continue;
      }
      out.push_back((*this)(block.stmts[i]));
      changed = changed || !out.back().same_as(block.stmts[i]);
      ++i;
    }
    return changed ? ir::Block::make(std::move(out)) : s;
  }

  ir::Expr simple(const ir::Expr& e) const { return arith::simplify(e, ranges_); }

  // Where a pair is stored; nothing where the statement stores none to device memory.
  static std::optional<ir::Expr> pair_place(const ir::Stmt& s) {
    const auto* store = s.as<ir::Store>();
    const auto* ramp = store ? store->indices[0].as<ir::Ramp>() : nullptr;
    if (!ramp || ramp->stride != 1 || ramp->type.lanes != kPair) return std::nullopt;
    const ir::Buffer& b = store->buffer;
    const bool device = b->scope == ir::Scope::kParam || b->scope == ir::Scope::kHeap;
    if (!device || size_bytes(b->dtype) != 2 || ir::reads_buffer(store->value, b))
      return std::nullopt;
    return ramp->base;
  }

  // The threads of four differ by their pair and nothing else.
  bool is_quad(const ir::Expr& place) {
    const ir::Expr quad = ir::Var::make("quad"), member = ir::Var::make("member");
    ranges_[quad.get()] = arith::Interval::of_extent(threads_ / kQuad);
    ranges_[member.get()] = arith::Interval::of_extent(kQuad);
    const ir::Expr rest =
        simple(ir::substitute(place, thread_, quad * kQuad + member) - member * kPair);
    const bool out = !ir::uses_var(rest, member);
    ranges_.erase(quad.get());
    ranges_.erase(member.get());
    return out;
  }

  std::optional<ir::Stmt> widen(const std::vector<ir::Stmt>& stmts, std::size_t first) {
    if (first + static_cast<std::size_t>(kQuad) > stmts.size()) return std::nullopt;
    const auto place = pair_place(stmts[first]);
    if (!place || !is_quad(*place)) return std::nullopt;
    const ir::Buffer& buffer = stmts[first].as<ir::Store>()->buffer;
    std::vector<ir::Expr> values;
    for (std::int64_t i = 0; i < kQuad; ++i) {
      const ir::Stmt& s = stmts[first + static_cast<std::size_t>(i)];
      const auto other = pair_place(s);
      if (!other || s.as<ir::Store>()->buffer != buffer ||
          !ir::is_const_int(simple(*other - *place), i * kRow))
        return std::nullopt;
      values.push_back(s.as<ir::Store>()->value);
    }
    const ir::Expr member = ir::floor_mod(thread_, ir::int_imm(kQuad));
    const ir::Expr row = simple(*place + member * (kRow - kPair));
    if (!ir::is_const_int(simple(ir::floor_mod(row, ir::int_imm(kRow))), 0)) return std::nullopt;
    return exchange(buffer, row, values);
  }

  // A transpose of four by four pairs, among as many threads.
  ir::Stmt exchange(const ir::Buffer& buffer, const ir::Expr& row,
                    const std::vector<ir::Expr>& values) const {
    const ir::Buffer held =
        ir::Buffer::make(buffer->name + ".row", buffer->dtype, {kRow}, ir::Scope::kStack);
    const ir::Buffer other =
        ir::Buffer::make(buffer->name + ".other", buffer->dtype, {kPair}, ir::Scope::kStack);
    const auto at = [&](std::int64_t i) {
      return ir::Ramp::make(ir::int_imm(i * kPair), 1, kPair);
    };
    const auto pair = [&](std::int64_t i) { return ir::Load::make(held, {at(i)}); };
    std::vector<ir::Stmt> out;
    for (std::int64_t i = 0; i < kQuad; ++i)
      out.push_back(ir::Store::make(held, {at(i)}, values[static_cast<std::size_t>(i)]));
    for (const std::int64_t bit : {1, 2}) {
      const ir::Expr upper = simple(ir::eq(
          ir::floor_mod(ir::floor_div(thread_, ir::int_imm(bit)), ir::int_imm(2)), ir::int_imm(1)));
      for (std::int64_t low = 0; low < kQuad; ++low) {
        if ((low & bit) != 0) continue;
        const std::int64_t high = low | bit;
        const ir::Expr given = ir::Select::make(upper, pair(low), pair(high));
        const ir::Expr taken = ir::Load::make(other, {at(0)});
        out.push_back(ir::Store::make(
            other, {at(0)}, ir::call(ir::Intrinsic::kShuffleXor, {given, ir::int_imm(bit)})));
        out.push_back(ir::Store::make(held, {at(low)}, ir::Select::make(upper, taken, pair(low))));
        out.push_back(
            ir::Store::make(held, {at(high)}, ir::Select::make(upper, pair(high), taken)));
      }
    }
    const auto lanes = static_cast<int>(kRow);
    out.push_back(
        ir::Store::make(buffer, {ir::Ramp::make(row, 1, lanes)},
                        ir::Load::make(held, {ir::Ramp::make(ir::int_imm(0), 1, lanes)})));
    return ir::Allocate::make(held, ir::Allocate::make(other, ir::Block::make(std::move(out))));
  }

  ir::Expr thread_;
  std::int64_t threads_ = 0;
  arith::Ranges ranges_;
};

}  // namespace

ir::Stmt widen_stores(const ir::Stmt& s) { return WidenStores()(s); }

}  // namespace tessera::lower
