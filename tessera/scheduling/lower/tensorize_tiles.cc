#include "tessera/scheduling/lower/tensorize_tiles.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::lower {
namespace {

using Instruction = target::MatrixInstruction;
using Values = std::vector<std::pair<ir::Expr, ir::Expr>>;  // of unrolled loops around

// Sums have the first ones.
constexpr std::size_t kRegisters = 8, kMostSums = 4;

// A tile in memory.
struct Place {
  ir::Buffer buffer;
  ir::Expr first;
  std::int64_t step = 0, rows = 1, columns = 1;

  bool operator==(const Place& o) const {
    return buffer == o.buffer && step == o.step && rows == o.rows && columns == o.columns &&
           ir::equal(first, o.first);
  }
  bool same_shape(const Place& o) const { return rows == o.rows && columns == o.columns; }

  ir::Expr call(ir::Intrinsic fn, std::size_t tile) const {
    return ir::Call::make(
        fn, {ir::int_imm(static_cast<std::int64_t>(tile)), ir::Load::make(buffer, {first}),
             ir::int_imm(step), ir::int_imm(rows), ir::int_imm(columns)});
  }
};

// One product of two tiles.
struct Product {
  Place sums, left, right;
};

const Instruction* tiles_named(const std::string& name) {
  const Instruction* row = target::find_matrix(name);
  return row && row->operands == target::Operands::kTileRegisters ? row : nullptr;
}

// The statements of a reduction whose sums stay in registers.
class Unit {
 public:
  Unit(const LoopAttrs& attrs, std::set<const ir::ExprNode*>* met) : attrs_(attrs), met_(met) {}

  std::string why;  // of the first failure

  // The statement with products of tiles in the place of its marked loops; null after a failure.
  ir::Stmt rewrite(const ir::Stmt& s) { return rewrite(s, {}); }

  std::vector<ir::Stmt> zeros() const {
    std::vector<ir::Stmt> out;
    for (std::size_t t = 0; t < sums_.size(); ++t) {
      out.push_back(ir::Evaluate::make(ir::Call::make(
          ir::Intrinsic::kTileZero, {ir::int_imm(static_cast<std::int64_t>(t)),
                                     ir::int_imm(sums_[t].rows), ir::int_imm(sums_[t].columns)})));
    }
    return out;
  }
  std::vector<ir::Stmt> stores() const {
    std::vector<ir::Stmt> out;
    for (std::size_t t = 0; t < sums_.size(); ++t)
      out.push_back(ir::Evaluate::make(sums_[t].call(ir::Intrinsic::kTileStore, t)));
    return out;
  }
  const ir::Buffer& sums() const { return sums_.front().buffer; }
  bool empty() const { return sums_.empty(); }

 private:
  ir::Stmt fail(const std::string& reason) {
    if (why.empty()) why = reason;
    return {};
  }

  ir::Stmt rewrite(const ir::Stmt& s, const Values& values) {
    if (!s || !why.empty()) return {};
    if (const auto* block = s.as<ir::Block>()) {
      std::vector<ir::Stmt> out;
      for (const ir::Stmt& child : block->stmts) {
        if (ir::Stmt now = rewrite(child, values)) out.push_back(std::move(now));
      }
      return ir::Block::make(std::move(out));
    }
    if (s.as<ir::Evaluate>()) return with_values(s, values);
    if (const auto* branch = s.as<ir::If>()) {
      const auto holds = ir::as_const_int(with_values(branch->cond, values));
      if (!holds || branch->else_body) return fail("a condition around the tiles is not constant");
      return *holds != 0 ? rewrite(branch->then_body, values) : ir::Stmt();
    }
    const auto* loop = s.as<ir::For>();
    if (!loop) return fail("there is more around the loops than loops");
    if (const auto mark = attrs_.tensorize.find(loop->var.get()); mark != attrs_.tensorize.end()) {
      met_->insert(mark->first);
      const auto product = match(*tiles_named(mark->second), *loop, values);
      return product ? emit(*product) : ir::Stmt();
    }
    if (loop->loop_kind == ir::LoopKind::kUnrolled) return unrolled(*loop, values);
    if (loop->loop_kind != ir::LoopKind::kSerial) return fail("a loop around is not serial");
    const std::size_t known = sums_.size();
    resident_.clear();
    const ir::Stmt body = rewrite(loop->body, values);
    for (std::size_t t = known; t < sums_.size(); ++t) {
      if (ir::uses_var(sums_[t].first, loop->var)) return fail("a loop changes the sums");
    }
    resident_.clear();
    return body ? ir::For::make(loop->var, with_values(loop->extent, values), loop->loop_kind, body)
                : body;
  }

  ir::Stmt unrolled(const ir::For& loop, const Values& values) {
    const auto extent = ir::as_const_int(with_values(loop.extent, values));
    if (!extent) return fail("the number of tiles is not constant");
    std::vector<ir::Stmt> out;
    for (std::int64_t i = 0; i < *extent; ++i) {
      Values inner = values;
      inner.emplace_back(loop.var, ir::int_imm(i));
      if (ir::Stmt now = rewrite(loop.body, inner)) out.push_back(std::move(now));
    }
    return ir::Block::make(std::move(out));
  }

  template <class T>
  static T with_values(T e, const Values& values) {
    for (const auto& [var, value] : values) e = ir::substitute(e, var, value);
    return arith::simplify(e);
  }

  struct Operand {
    ir::Expr base;                      // with all loops of the nest at 0
    std::vector<std::int64_t> strides;  // per loop of the nest
  };

  static std::optional<Operand> operand(const ir::Expr& index,
                                        const std::vector<const ir::For*>& loops) {
    Operand out{.base = index};
    for (const ir::For* loop : loops) {
      const auto form = arith::split_on(out.base, loop->var);
      if (!form) return std::nullopt;
      out.strides.push_back(form->coefficient);
      out.base = form->rest;
    }
    return out;
  }

  static const ir::Load* widened(const Instruction& instruction, const ir::Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    const auto* load = cast ? cast->value.as<ir::Load>() : nullptr;
    if (!load || cast->type.dtype != instruction.sums) return nullptr;
    return instruction.takes(load->type.dtype) ? load : nullptr;
  }

  // sums[i, j] += wide(a[i, q, r]) * wide(b[j, q, r]), in any order of i, j, q and r.
  std::optional<Product> match(const Instruction& instruction, const ir::For& outermost,
                               const Values& values) {
    std::vector<const ir::For*> loops;
    std::vector<std::int64_t> extents;
    const ir::Store* store = nullptr;
    for (const ir::For* at = &outermost; at;) {
      const auto extent = ir::as_const_int(with_values(at->extent, values));
      if (!extent) return refuse("the shape of a tile is not constant");
      loops.push_back(at);
      extents.push_back(*extent);
      ir::Stmt body = at->body;
      for (const auto* branch = body.as<ir::If>(); branch; branch = body.as<ir::If>()) {
        if (!cut(branch->cond, values, loops, &extents))
          return refuse("a condition within a tile does not end a loop");
        body = branch->then_body;
      }
      store = body.as<ir::Store>();
      at = body.as<ir::For>();
    }
    if (std::any_of(extents.begin(), extents.end(), [](std::int64_t e) { return e <= 0; }))
      return std::nullopt;
    const auto* sum = store ? store->value.as<ir::Binary>() : nullptr;
    const auto* old = sum && sum->op == ir::BinaryOp::kAdd ? sum->a.as<ir::Load>() : nullptr;
    const auto* product = sum ? sum->b.as<ir::Binary>() : nullptr;
    if (!old || old->buffer != store->buffer || !product || product->op != ir::BinaryOp::kMul ||
        !ir::equal(old->indices[0], store->indices[0]))
      return refuse("the body is not acc = acc + a * b");
    const ir::Load* a = widened(instruction, product->a);
    const ir::Load* b = widened(instruction, product->b);
    if (!a || !b) return refuse("the factors are not casts of what it multiplies");
    const auto acc = operand(with_values(old->indices[0], values), loops);
    auto left = operand(with_values(a->indices[0], values), loops);
    auto right = operand(with_values(b->indices[0], values), loops);
    if (!acc || !left || !right) return refuse("an index is not linear in the loops");
    // The operand with the rows of the sums is the left one.
    for (std::size_t l = 0; l < loops.size(); ++l) {
      const bool column = acc->strides[l] == 1;
      if (acc->strides[l] == 0 || (column ? right : left)->strides[l] != 0) continue;
      std::swap(left, right);
      std::swap(a, b);
      break;
    }
    return place(instruction, {old, a, b}, {*acc, *left, *right}, extents);
  }

  // Ends the loop that the condition depends on where it stops to hold. False: it is not of this
  // kind.
  static bool cut(const ir::Expr& cond, const Values& values,
                  const std::vector<const ir::For*>& loops, std::vector<std::int64_t>* extents) {
    const ir::Expr known = with_values(cond, values);
    for (std::size_t l = 0; l < loops.size(); ++l) {
      if (!ir::uses_var(known, loops[l]->var)) continue;
      const auto holds = [&](std::int64_t at) {
        return ir::as_const_int(
            arith::simplify(ir::substitute(known, loops[l]->var, ir::int_imm(at))));
      };
      std::int64_t end = 0;
      while (end < (*extents)[l] && holds(end).value_or(0) != 0) ++end;
      for (std::int64_t at = end; at < (*extents)[l]; ++at) {
        if (holds(at) != 0) return false;
      }
      (*extents)[l] = end;
      return true;
    }
    return ir::is_const_int(known, 1);
  }

  std::optional<Product> refuse(const std::string& reason) {
    fail(reason);
    return std::nullopt;
  }

  std::optional<Product> place(const Instruction& instruction,
                               const std::array<const ir::Load*, 3>& loads,
                               const std::array<Operand, 3>& at,
                               const std::vector<std::int64_t>& extents) {
    const auto& [acc, left, right] = at;
    const std::int64_t group = instruction.group();
    Product out{.sums = {loads[0]->buffer, acc.base},
                .left = {loads[1]->buffer, left.base},
                .right = {loads[2]->buffer, right.base}};
    std::int64_t steps = 1;
    bool grouped = false;
    for (std::size_t l = 0; l < extents.size(); ++l) {
      const std::int64_t c = acc.strides[l], x = left.strides[l], y = right.strides[l];
      if (extents[l] == 1) continue;
      if (c == 1 && x == 0 && y == group) {
        out.sums.columns = extents[l];
      } else if (c != 0 && y == 0) {
        out.sums.rows = extents[l];
        out.sums.step = c;
        out.left.step = x;
      } else if (c == 0 && x == 1 && y == 1 && extents[l] == group) {
        grouped = true;
      } else if (c == 0 && x == group && y != 0) {
        steps = extents[l];
        out.right.step = y;
      } else {
        return refuse("an operand is not packed in the order of the loops");
      }
    }
    if (!grouped) return refuse(fmt::format("the last loop must have {} iterations", group));
    out.left.rows = out.sums.rows;
    out.left.columns = steps * group;
    out.right.rows = steps;
    out.right.columns = out.sums.columns * group;
    if (out.sums.rows > instruction.m || out.sums.columns > instruction.n ||
        steps * group > instruction.k)
      return refuse(fmt::format("a tile has at most {} x {} sums of {} products", instruction.m,
                                instruction.n, instruction.k));
    return out;
  }

  ir::Stmt emit(const Product& product) {
    std::vector<ir::Stmt> out;
    const auto known = std::find(sums_.begin(), sums_.end(), product.sums);
    const auto sums = static_cast<std::size_t>(known - sums_.begin());
    if (known == sums_.end()) {
      if (sums_.size() == kMostSums) return fail("there are more sums than tile registers");
      if (!sums_.empty() && sums_.front().buffer != product.sums.buffer)
        return fail("there are two buffers of sums");
      sums_.push_back(product.sums);
    }
    const std::size_t left = load(product.left, kRegisters, &out);
    const std::size_t right = load(product.right, left, &out);
    if (!why.empty()) return {};
    const auto number = [](std::size_t t) { return ir::int_imm(static_cast<std::int64_t>(t)); };
    out.push_back(ir::Evaluate::make(
        ir::Call::make(ir::Intrinsic::kTileDot, {number(sums), number(left), number(right)})));
    return ir::Block::make(std::move(out));
  }

  // The register that holds the tile: where it is, or that of the same shape that was loaded the
  // longest ago, once no other is free. Not `busy`.
  std::size_t load(const Place& place, std::size_t busy, std::vector<ir::Stmt>* out) {
    const auto has = [&](const Held& h) { return h.place == place; };
    if (const auto at = std::find_if(resident_.begin(), resident_.end(), has);
        at != resident_.end()) {
      return at->tile;
    }
    std::size_t tile = kRegisters;
    for (std::size_t t = kRegisters; t-- > kMostSums;) {
      const bool used =
          std::any_of(shapes_.begin(), shapes_.end(), [&](const Held& h) { return h.tile == t; });
      if (!used) tile = t;
    }
    if (tile == kRegisters) {
      const auto oldest = std::find_if(resident_.begin(), resident_.end(), [&](const Held& h) {
        return h.tile != busy && h.place.same_shape(place);
      });
      const auto shaped = std::find_if(shapes_.begin(), shapes_.end(), [&](const Held& h) {
        return h.tile != busy && h.place.same_shape(place) && !holds(h.tile);
      });
      if (shaped != shapes_.end()) {
        tile = shaped->tile;
      } else if (oldest != resident_.end()) {
        tile = oldest->tile;
      } else {
        fail("there are more shapes of operands than tile registers");
        return tile;
      }
    } else {
      shapes_.push_back({tile, place});
    }
    std::erase_if(resident_, [&](const Held& h) { return h.tile == tile; });
    resident_.push_back({tile, place});
    out->push_back(ir::Evaluate::make(place.call(ir::Intrinsic::kTileLoad, tile)));
    return tile;
  }

  struct Held {
    std::size_t tile;
    Place place;
  };

  bool holds(std::size_t tile) const {
    return std::any_of(resident_.begin(), resident_.end(),
                       [&](const Held& h) { return h.tile == tile; });
  }

  const LoopAttrs& attrs_;
  std::set<const ir::ExprNode*>* met_;
  std::vector<Place> sums_;     // by the number of the register
  std::vector<Held> resident_;  // operands, in the order in which they were loaded
  std::vector<Held> shapes_;    // registers of operands that have a shape
};

class TensorizeTiles final : public ir::Mutator {
 public:
  TensorizeTiles(const LoopAttrs& attrs, Result<void>* result) : attrs_(attrs), result_(result) {}

  void refuse_unmet_marks() const {
    for (const auto& [var, name] : attrs_.tensorize) {
      if (!tiles_named(name) || met_.count(var) || !result_->ok()) continue;
      *result_ = make_error(ErrorCode::kIllegalSchedule,
                            "tensorize {}: loop {} is not the outermost of a nest that updates "
                            "sums which are set to zero before",
                            name, static_cast<const ir::Var*>(var)->name);
    }
  }

 private:
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::Block& block) override {
    std::vector<ir::Stmt> out;
    bool changed = false;
    for (std::size_t i = 0; i < block.stmts.size(); ++i) {
      const bool follows_zeros = i > 0 && is_unit(block.stmts[i]);
      if (!follows_zeros) {
        if (ir::Stmt now = (*this)(block.stmts[i])) {
          changed = changed || !now.same_as(block.stmts[i]);
          out.push_back(std::move(now));
        }
        continue;
      }
      Unit unit(attrs_, &met_);
      const ir::Stmt loops = unit.rewrite(block.stmts[i]);
      if (unit.why.empty() && (unit.empty() || !zeroes(block.stmts[i - 1], unit.sums())))
        unit.why = "the sums are not set to zero before";
      if (!unit.why.empty()) {
        if (result_->ok())
          *result_ = make_error(ErrorCode::kIllegalSchedule, "tensorize tiles: {}", unit.why);
        return s;
      }
      out.pop_back();
      for (ir::Stmt& zero : unit.zeros()) out.push_back(std::move(zero));
      out.push_back(loops);
      for (ir::Stmt& store : unit.stores()) out.push_back(std::move(store));
      changed = true;
    }
    return changed ? ir::Block::make(std::move(out)) : s;
  }

  // Loops around marked ones that add to something, with nothing allocated in between.
  bool is_unit(const ir::Stmt& s) const {
    bool reduces = false, only_loops = true;
    ir::for_each_stmt(s, [&](const ir::Stmt& at) {
      if (at.as<ir::Allocate>()) only_loops = false;
      const auto* loop = at.as<ir::For>();
      const auto mark = loop ? attrs_.tensorize.find(loop->var.get()) : attrs_.tensorize.end();
      if (mark == attrs_.tensorize.end() || !tiles_named(mark->second)) return;
      ir::for_each_stmt(loop->body, [&](const ir::Stmt& inner) {
        const auto* store = inner.as<ir::Store>();
        if (store && ir::reads_buffer(store->value, store->buffer)) reduces = true;
      });
    });
    return reduces && only_loops;
  }

  static bool is_zero(const ir::Expr& e) {
    const auto* f = e.as<ir::FloatImm>();
    return f ? f->value == 0 : ir::is_const_int(e, 0);
  }

  static bool zeroes(const ir::Stmt& s, const ir::Buffer& buffer) {
    bool zero = false, other = false;
    ir::for_each_stmt(s, [&](const ir::Stmt& at) {
      if (at.as<ir::Evaluate>()) other = true;
      const auto* store = at.as<ir::Store>();
      if (!store) return;
      const bool sets = store->buffer == buffer && is_zero(store->value);
      (sets ? zero : other) = true;
    });
    return zero && !other;
  }

  const LoopAttrs& attrs_;
  Result<void>* result_;
  std::set<const ir::ExprNode*> met_;  // marked loops that became products
};

}  // namespace

ir::Stmt tensorize_tiles(const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result) {
  const bool marked = std::any_of(attrs.tensorize.begin(), attrs.tensorize.end(),
                                  [](const auto& mark) { return tiles_named(mark.second); });
  if (!marked) return s;
  TensorizeTiles pass(attrs, result);
  const ir::Stmt out = pass(s);
  pass.refuse_unmet_marks();
  return out;
}

}  // namespace tessera::lower
