#include "tessera/scheduling/lower/tensorize_warps.h"

#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::lower {
namespace {

using Instruction = target::MatrixInstruction;

bool is_group(const Instruction& i) { return i.operands == target::Operands::kTiles; }

// A buffer of sums that a warp or a group holds: which dimensions are the rows and columns of its
// tiles, and how many of them a tile has.
struct Tiled {
  ir::Buffer held;  // by one thread
  std::size_t row = 0, column = 0;
  std::int64_t rows = 0, columns = 0, threads = 0;

  std::int64_t of_thread() const { return rows * columns / threads; }  // outputs of a tile
};

constexpr std::int64_t kWarpRows = 16;  // of the sums of a group, and all of a warp

struct Nest {
  std::vector<const ir::For*> loops;
  const ir::Store* store = nullptr;
};

Nest collect(const ir::For& loop) {
  Nest nest;
  for (const ir::For* at = &loop; at; at = at->body.as<ir::For>()) {
    nest.loops.push_back(at);
    nest.store = at->body.as<ir::Store>();
  }
  return nest;
}

// The dimension that moves with the variable, element by element, if it is the only one.
std::optional<std::size_t> dimension_of(const std::vector<ir::Expr>& indices, const ir::Expr& var) {
  std::optional<std::size_t> out;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (!ir::uses_var(indices[d], var)) continue;
    const auto form = arith::split_on(indices[d], var);
    if (out || !form || form->coefficient != 1) return std::nullopt;
    out = d;
  }
  return out;
}

class TensorizeWarps final : public ir::Mutator {
 public:
  TensorizeWarps(const LoopAttrs& attrs, Result<void>* result) : attrs_(attrs), result_(result) {}

  // A mark that met no loop must not be ignored in silence.
  void refuse_unmet_marks() {
    for (const auto& [var, name] : attrs_.tensorize) {
      if (!met_.count(var)) {
        fail(fmt::format("loop {} is not the outermost of the loops of {}",
                         static_cast<const ir::Var*>(var)->name, name));
      }
    }
  }

 private:
  using ir::Mutator::rewrite;

  void fail(const std::string& why) {
    if (result_->ok()) *result_ = make_error(ErrorCode::kIllegalSchedule, "tensorize: {}", why);
  }

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    if (!result_->ok()) return s;
    const auto extent = ir::as_const_int(loop.extent);
    if (extent) ranges_[loop.var.get()] = arith::Interval::of_extent(*extent);
    if (loop.loop_kind == ir::LoopKind::kThreadX) {
      lane_ = loop.var;
      lanes_ = extent.value_or(0);
      find_sums(loop.body);
    }
    const auto marked = attrs_.tensorize.find(loop.var.get());
    if (marked == attrs_.tensorize.end()) return Mutator::rewrite(s, loop);
    met_.insert(loop.var.get());
    const Nest nest = collect(loop);
    const auto tiled = nest.store ? sums_.find(nest.store->buffer) : sums_.end();
    if (!nest.store || tiled == sums_.end()) {
      fail(fmt::format("loop {} holds more than {}", loop.var.as<ir::Var>()->name,
                       "the loops of the instruction"));
      return s;
    }
    for (const ir::For* inner : nest.loops) {
      ranges_[inner->var.get()] =
          arith::Interval::of_extent(ir::as_const_int(inner->extent).value_or(1));
    }
    return nest.loops.size() == 2
               ? set(tiled->second, nest)
               : multiply(tiled->second, nest, *target::find_warp_matrix(marked->second));
  }

  // The buffers that marked nests add to.
  void find_sums(const ir::Stmt& body) {
    ir::for_each_stmt(body, [&](const ir::Stmt& s) {
      const auto* loop = s.as<ir::For>();
      const auto marked = loop ? attrs_.tensorize.find(loop->var.get()) : attrs_.tensorize.end();
      if (marked == attrs_.tensorize.end() || !result_->ok()) return;
      const Nest nest = collect(*loop);
      if (!nest.store || !ir::reads_buffer(nest.store->value, nest.store->buffer)) return;
      const Instruction& instruction = *target::find_warp_matrix(marked->second);
      if (lanes_ != instruction.threads) {
        return fail(fmt::format("{} is done by {}: the launch must have {} threads in x, not {}",
                                marked->second, is_group(instruction) ? "four warps" : "warps",
                                instruction.threads, lanes_));
      }
      add_sums(nest, instruction);
    });
  }

  // The extents of the nest are those of the instruction.
  static bool has_shape(const Nest& nest, const Instruction& instruction) {
    if (nest.loops.size() != 3 || !ir::is_const_int(nest.loops[0]->extent, instruction.m) ||
        !ir::is_const_int(nest.loops[2]->extent, instruction.k))
      return false;
    const auto columns = ir::as_const_int(nest.loops[1]->extent);
    if (!is_group(instruction)) return columns == instruction.n;
    return columns && ir::is_group_width(instruction.sums, *columns);
  }

  static std::string width_of(const Instruction& instruction) {
    return fmt::format("a multiple of {} up to 256", instruction.sums == DType::kI32 ? 16 : 8);
  }

  void add_sums(const Nest& nest, const Instruction& instruction) {
    if (!has_shape(nest, instruction)) {
      return fail(
          fmt::format("the loops of {} must be {}, {}, {}", instruction.name, instruction.m,
                      is_group(instruction) ? width_of(instruction) : std::to_string(instruction.n),
                      instruction.k));
    }
    const ir::Store& store = *nest.store;
    const auto r = dimension_of(store.indices, nest.loops[0]->var),
               c = dimension_of(store.indices, nest.loops[1]->var);
    const ir::Buffer& b = store.buffer;
    const std::int64_t rows = instruction.m, columns = *ir::as_const_int(nest.loops[1]->extent);
    const bool tiles = r && c && *r != *c && b->scope == ir::Scope::kStack &&
                       b->shape[*r] % rows == 0 && b->shape[*c] % columns == 0;
    if (!tiles) {
      return fail(fmt::format("{} is not made of tiles of {} x {} sums in registers", b->name, rows,
                              columns));
    }
    sums_[b] = {ir::Buffer::make(b->name, b->dtype, {b.size() / instruction.threads}, b->scope),
                *r,
                *c,
                rows,
                columns,
                instruction.threads};
  }

  ir::Expr simple(const ir::Expr& e) const { return arith::simplify(e, ranges_); }

  // Where a thread keeps the sum at the indices, whichever thread it is.
  ir::Expr place(const ir::Buffer& b, const Tiled& t, const std::vector<ir::Expr>& indices) const {
    const auto div = [](const ir::Expr& e, std::int64_t n) {
      return ir::floor_div(e, ir::int_imm(n));
    };
    const auto mod = [](const ir::Expr& e, std::int64_t n) {
      return ir::floor_mod(e, ir::int_imm(n));
    };
    ir::Expr tile = ir::int_imm(0);
    for (std::size_t d = 0; d < indices.size(); ++d) {
      if (d != t.row && d != t.column) tile = tile * b->shape[d] + indices[d];
    }
    const ir::Expr& row = indices[t.row];
    const ir::Expr& column = indices[t.column];
    tile = tile * (b->shape[t.row] / t.rows) + div(row, t.rows);
    tile = tile * (b->shape[t.column] / t.columns) + div(column, t.columns);
    return simple(tile * t.of_thread() + div(mod(column, t.columns), 8) * 4 +
                  div(mod(row, kWarpRows), 8) * 2 + mod(column, 2));
  }

  ir::Expr holder(const Tiled& t, const std::vector<ir::Expr>& indices) const {
    const ir::Expr row = ir::floor_mod(indices[t.row], ir::int_imm(8));
    const ir::Expr column = ir::floor_mod(indices[t.column], ir::int_imm(8));
    const ir::Expr warp =
        ir::floor_div(ir::floor_mod(indices[t.row], ir::int_imm(t.rows)), ir::int_imm(kWarpRows));
    return warp * ir::kFragmentThreads + row * 4 + ir::floor_div(column, ir::int_imm(2));
  }

  // Whether each thread is the holder itself, by algebra or one after the other.
  bool holds(const Tiled& t, const std::vector<ir::Expr>& indices) const {
    const ir::Expr by = simple(holder(t, indices));
    if (ir::is_const_int(simple(by - lane_), 0)) return true;
    for (std::int64_t i = 0; i < t.threads; ++i) {
      if (!ir::is_const_int(simple(ir::substitute(by, lane_, ir::int_imm(i))), i)) return false;
    }
    return true;
  }

  ir::Stmt rewrite(const ir::Stmt& s, const ir::Allocate& alloc) override {
    const auto it = sums_.find(alloc.buffer);
    if (it == sums_.end()) return Mutator::rewrite(s, alloc);
    return ir::Allocate::make(it->second.held, (*this)(alloc.body));
  }

  ir::Stmt rewrite(const ir::Stmt& s, const ir::Store& store) override {
    if (sums_.count(store.buffer))
      fail(fmt::format("{} is also stored outside of the instruction", store.buffer->name));
    return Mutator::rewrite(s, store);
  }

  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    const auto it = sums_.find(load.buffer);
    if (it == sums_.end()) return Mutator::rewrite(e, load);
    if (!holds(it->second, load.indices)) {
      fail(fmt::format(
          "a thread reads {} of another: thread 4r + c of a warp holds rows r and r + 8, columns "
          "2c and 2c + 1 of every 16 x 8",
          load.buffer->name));
      return e;
    }
    return ir::Load::make(it->second.held, {place(load.buffer, it->second, load.indices)});
  }

  // The place of the first sum that a thread holds of the tile that the nest runs over.
  ir::Expr tile_of(const Tiled& t, const Nest& nest) {
    std::vector<ir::Expr> first;
    for (ir::Expr e : nest.store->indices) {
      for (std::size_t i = 0; i < 2; ++i) e = ir::substitute(e, nest.loops[i]->var, ir::int_imm(0));
      first.push_back(simple(e));
    }
    for (const auto& [d, side] : {std::pair(t.row, t.rows), std::pair(t.column, t.columns)}) {
      if (!ir::is_const_int(simple(ir::floor_mod(first[d], ir::int_imm(side))), 0)) {
        fail(fmt::format("tiles of {} do not begin at multiples of {}", nest.store->buffer->name,
                         side));
      }
    }
    return place(nest.store->buffer, t, first);
  }

  ir::Stmt set(const Tiled& t, const Nest& nest) {
    const ir::Expr& value = nest.store->value;
    if (!value.as<ir::IntImm>() && !value.as<ir::FloatImm>()) {
      fail(fmt::format("{} is set to something else than a constant", nest.store->buffer->name));
      return nest.loops[0]->body;
    }
    const auto held = static_cast<int>(t.of_thread());
    return ir::Store::make(t.held, {ir::Ramp::make(tile_of(t, nest), 1, held)},
                           ir::Broadcast::make(value, held));
  }

  // The load of a factor, converted to the type of the sums or of that type.
  static const ir::Load* factor(const Instruction& instruction, const ir::Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    const auto* load = (cast ? cast->value : e).as<ir::Load>();
    if (!load || e.dtype() != instruction.sums) return nullptr;
    return instruction.takes(load->type.dtype) ? load : nullptr;
  }

  ir::Stmt multiply(const Tiled& t, const Nest& nest, const Instruction& instruction) {
    const ir::Stmt& unchanged = nest.loops[0]->body;
    const auto* sum = nest.store->value.as<ir::Binary>();
    const auto* old = sum && sum->op == ir::BinaryOp::kAdd ? sum->a.as<ir::Load>() : nullptr;
    const auto* product = old ? sum->b.as<ir::Binary>() : nullptr;
    bool same = product && product->op == ir::BinaryOp::kMul && old->buffer == nest.store->buffer;
    for (std::size_t d = 0; same && d < old->indices.size(); ++d)
      same = ir::equal(old->indices[d], nest.store->indices[d]);
    if (!same) return fail("the body is not sum = sum + a * b"), unchanged;
    const ir::Load* a = factor(instruction, product->a);
    const ir::Load* b = factor(instruction, product->b);
    if (!a || !b || (a->type.dtype != b->type.dtype && instruction.sums != DType::kI32)) {
      return fail(fmt::format("the factors of {} are not elements of {} or {}", instruction.name,
                              to_text(instruction.types[0]), to_text(instruction.types[1]))),
             unchanged;
    }
    const auto uses = [](const ir::Load& load, const ir::Expr& var) {
      bool any = false;
      for (const ir::Expr& e : load.indices) any = any || ir::uses_var(e, var);
      return any;
    };
    if (uses(*b, nest.loops[0]->var)) std::swap(a, b);
    if (uses(*a, nest.loops[1]->var) || uses(*b, nest.loops[0]->var))
      return fail("a factor depends on both rows and columns"), unchanged;
    if (is_group(instruction)) return multiply_tiles(t, nest, *a, *b);
    const ir::Expr left = operand(*a, nest, 0), right = operand(*b, nest, 1);
    if (!result_->ok()) return unchanged;
    std::vector<ir::Stmt> products;
    const ir::Expr first = tile_of(t, nest);
    const int half = right.lanes() / 2;
    for (int side = 0; side < 2; ++side) {
      const ir::Expr at = ir::Ramp::make(simple(first + std::int64_t{4} * side), 1, 4);
      std::vector<int> picks(half);
      std::iota(picks.begin(), picks.end(), side * half);
      products.push_back(ir::Store::make(
          t.held, {at},
          ir::call(ir::Intrinsic::kMma, {ir::Load::make(t.held, {at}), left,
                                         ir::Shuffle::make(right, std::move(picks))})));
    }
    return ir::Block::make(std::move(products));
  }

  ir::Stmt multiply_tiles(const Tiled& t, const Nest& nest, const ir::Load& a, const ir::Load& b) {
    const ir::Expr left = tile(a, nest, 0), right = tile(b, nest, 1);
    if (!result_->ok()) return nest.loops[0]->body;
    const ir::Expr at = ir::Ramp::make(tile_of(t, nest), 1, static_cast<int>(t.of_thread()));
    return ir::Store::make(
        t.held, {at}, ir::call(ir::Intrinsic::kMma, {ir::Load::make(t.held, {at}), left, right}));
  }

  // The place of an operand's element with the numbers in its loops, from the start of its buffer.
  ir::Expr flat_place(const ir::Load& load, const Nest& nest, std::size_t side, std::int64_t outer,
                      std::int64_t inner) const {
    ir::Expr out = ir::int_imm(0);
    for (std::size_t d = 0; d < load.indices.size(); ++d) {
      const ir::Expr row =
          ir::substitute(load.indices[d], nest.loops[side]->var, ir::int_imm(outer));
      out =
          out * load.buffer->shape[d] + ir::substitute(row, nest.loops[2]->var, ir::int_imm(inner));
    }
    return simple(out);
  }

  // The tile of an operand, by its first element; `side` as in operand().
  ir::Expr tile(const ir::Load& load, const Nest& nest, std::size_t side) {
    const ir::Expr first = flat_place(load, nest, side, 0, 0);
    const std::int64_t length = *ir::as_const_int(nest.loops[side]->extent);
    const std::int64_t row = ir::tile_row(load.type.dtype);
    const auto lies = [&](bool rows) {
      // The corners of rows and tiles, and a neighbour: indices are sums, quotients and remainders.
      for (const std::int64_t i : {std::int64_t{1}, row - 1, row, length - 1}) {
        for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, row - 1}) {
          if (i >= length) continue;
          const std::int64_t place = rows ? i * row + k : i / row * row * row + k * row + i % row;
          if (!ir::is_const_int(simple(flat_place(load, nest, side, i, k) - first), place))
            return false;
        }
      }
      return true;
    };
    const bool rows = lies(true);
    const std::int64_t align = ir::kTileAlign / size_bytes(load.type.dtype);
    if (load.buffer->scope != ir::Scope::kShared) {
      fail(fmt::format("{} is not in shared memory", load.buffer->name));
    } else if (!rows && (size_bytes(load.type.dtype) != 2 || !lies(false))) {
      fail(
          fmt::format("{} does not lie in rows of {} elements as the products of a group need it "
                      "(layout)",
                      load.buffer->name, row));
    } else if (load.buffer.size() % align != 0 ||
               !ir::is_const_int(simple(ir::floor_mod(first, ir::int_imm(align))), 0)) {
      fail(fmt::format("tiles of {} do not begin at multiples of {} bytes", load.buffer->name,
                       ir::kTileAlign));
    }
    std::vector<ir::Expr> indices;
    for (const ir::Expr& e : load.indices) {
      indices.push_back(
          simple(ir::substitute(ir::substitute(e, nest.loops[side]->var, ir::int_imm(0)),
                                nest.loops[2]->var, ir::int_imm(0))));
    }
    if (!result_->ok()) return {};
    return ir::call(rows ? ir::Intrinsic::kMatrixRows : ir::Intrinsic::kMatrixColumns,
                    {ir::Load::make(load.buffer, std::move(indices))});
  }

  // What a thread holds of the tile of an operand: rows of 16 bytes of shared memory that it names
  // for all. `side`: 0 for the left operand, whose loop outside is nest.loops[0], 1 for the right.
  ir::Expr operand(const ir::Load& load, const Nest& nest, std::size_t side) {
    const ir::Expr& outer = nest.loops[side]->var;
    const ir::Expr& inner = nest.loops[2]->var;
    const ir::Expr none = ir::zero({load.type.dtype, 16 / size_bytes(load.type.dtype)});
    if (load.buffer->scope != ir::Scope::kShared) {
      return fail(fmt::format("{} is not in shared memory", load.buffer->name)), none;
    }
    const int bytes = size_bytes(load.type.dtype);
    const int row = 16 / bytes;  // elements
    const std::size_t last = load.indices.size() - 1;
    const auto along = dimension_of(load.indices, inner),
               across = dimension_of(load.indices, outer);
    const bool rows = along == last;
    if (!rows && !(across == last && bytes == 2)) {
      return fail(fmt::format("{} must lie in shared memory with the elements of a sum side by side"
                              "{}",
                              load.buffer->name, bytes == 2 ? ", or its rows" : "")),
             none;
    }
    const auto mod = [&](std::int64_t n) { return ir::floor_mod(lane_, ir::int_imm(n)); };
    const ir::Expr upper = ir::floor_div(lane_, ir::int_imm(16));
    const ir::Expr middle = ir::floor_mod(ir::floor_div(lane_, ir::int_imm(8)), ir::int_imm(2));
    // Pieces go to the second half of the left operand's rows before that of its columns, and the
    // other way round on the right.
    const bool rows_first = (side == 0) == rows;
    const ir::Expr which = rows_first ? mod(16) : mod(8) + upper * 8;
    const ir::Expr start = (rows_first ? upper : middle) * row;
    std::vector<ir::Expr> indices;
    for (const ir::Expr& e : load.indices) {
      indices.push_back(simple(ir::substitute(ir::substitute(e, outer, rows ? which : start), inner,
                                              rows ? start : which)));
    }
    indices[last] = ir::Ramp::make(indices[last], 1, row);
    return ir::call(rows ? ir::Intrinsic::kMatrixRows : ir::Intrinsic::kMatrixColumns,
                    {ir::Load::make(load.buffer, std::move(indices))});
  }

  const LoopAttrs& attrs_;
  Result<void>* result_;
  arith::Ranges ranges_;
  ir::Expr lane_;
  std::int64_t lanes_ = 0;
  std::map<ir::Buffer, Tiled> sums_;
  std::set<const ir::ExprNode*> met_;  // marked loops
};

}  // namespace

ir::Stmt tensorize_warps(const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result) {
  if (attrs.tensorize.empty()) return s;
  TensorizeWarps pass(attrs, result);
  const ir::Stmt out = pass(s);
  pass.refuse_unmet_marks();
  return result->ok() ? out : s;
}

}  // namespace tessera::lower
