#include "tessera/scheduling/lower/tensorize_loops.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>

#include "tessera/lang/arith/interval.h"
#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

// An instruction as the loop nest it stands for:
//   kLanes:   for n in N, q in k:               acc[n]      += wide(a[n?, q]) * wide(b[n?, q])
//   kVectors: for i in 2, j in 2, q in k:       acc[2i + j] += wide(a[i, q])  * wide(b[j, q])
using Instruction = target::MatrixInstruction;

// Those of tile registers are another pass's.
bool is_lanewise(const Instruction* i) {
  return i && i->operands != target::Operands::kTileRegisters;
}

bool is_matrix(const Instruction& i) { return i.operands == target::Operands::kVectors; }

// What computes as much in the IR.
std::optional<ir::Intrinsic> intrinsic_of(const Instruction& i) {
  struct Meaning {
    target::Operands operands;
    int k;
    DType sums;
    ir::Intrinsic fn;
  };
  constexpr std::array kMeanings = {
      Meaning{target::Operands::kLanes, 4, DType::kI32, ir::Intrinsic::kDot4},
      Meaning{target::Operands::kLanes, 2, DType::kF32, ir::Intrinsic::kDot2},
      Meaning{target::Operands::kVectors, 8, DType::kI32, ir::Intrinsic::kMma2x8},
      Meaning{target::Operands::kVectors, 4, DType::kF32, ir::Intrinsic::kMma2x4}};
  for (const Meaning& m : kMeanings) {
    if (m.operands == i.operands && m.k == i.k && m.sums == i.sums) return m.fn;
  }
  return std::nullopt;
}

struct Nest {
  std::vector<const ir::For*> loops;
  const ir::Store* store = nullptr;
};

Nest collect(const ir::For& loop) {
  Nest nest;
  const ir::For* at = &loop;
  while (at) {
    nest.loops.push_back(at);
    nest.store = at->body.as<ir::Store>();
    at = at->body.as<ir::For>();
  }
  return nest;
}

class TensorizeLoops final : public ir::Mutator {
 public:
  TensorizeLoops(const LoopAttrs& attrs, Result<void>* result, std::span<const Instruction> rows)
      : attrs_(attrs), result_(result), rows_(rows) {}

  // A mark that met no reduction must not be ignored in silence.
  void refuse_unmet_marks() const {
    for (const auto& [var, name] : attrs_.tensorize) {
      const Instruction* row = target::find_matrix(name, rows_);
      if (matched_.count(var) || !result_->ok() || (row && !is_lanewise(row))) continue;
      *result_ = make_error(
          ErrorCode::kIllegalSchedule,
          "tensorize {}: loop {} is not the outermost of a nest that updates accumulators", name,
          static_cast<const ir::Var*>(var)->name);
    }
  }

 private:
  using ir::Mutator::rewrite;

  ir::Stmt rewrite(const ir::Stmt& s, const ir::For& loop) override {
    const auto marked = attrs_.tensorize.find(loop.var.get());
    if (marked == attrs_.tensorize.end()) return Mutator::rewrite(s, loop);
    const Instruction* instruction = target::find_matrix(marked->second, rows_);
    if (!instruction) return s;
    if (!is_lanewise(instruction)) return Mutator::rewrite(s, loop);
    const Nest nest = collect(loop);
    // Setting and writing back the accumulators runs over the spatial loops only.
    const std::size_t depth = is_matrix(*instruction) ? 3 : 2;
    const bool reduces = nest.store && ir::reads_buffer(nest.store->value, nest.store->buffer);
    if (!reduces) return Mutator::rewrite(s, loop);
    const Result<ir::Stmt> call = nest.loops.size() == depth
                                      ? match(*instruction, nest)
                                      : fail(*instruction, "the number of loops inside is wrong");
    matched_.insert(marked->first);
    if (call.ok()) return *call;
    *result_ = call.error();
    return s;
  }

  static Error fail(const Instruction& instruction, const std::string& why) {
    return make_error(ErrorCode::kIllegalSchedule, "tensorize {}: {}", instruction.name, why);
  }

  // An operand: what is read, and what the element of that is made of it, one by one.
  struct Factor {
    const ir::Load* load = nullptr;
    ir::Expr value;
  };
  struct Operand {
    const ir::Load* load = nullptr;
    ir::Expr value;                          // of an element of `load`
    std::vector<std::int64_t> strides = {};  // per loop of the nest
    ir::Expr base;                           // index with all loops of the nest at 0
  };

  static std::optional<Operand> operand(const Factor& factor, const Nest& nest) {
    Operand out{.load = factor.load, .value = factor.value, .base = factor.load->indices[0]};
    for (const ir::For* loop : nest.loops) {
      const auto form = arith::split_on(out.base, loop->var);
      if (!form) return std::nullopt;
      out.strides.push_back(form->coefficient);
      out.base = form->rest;
    }
    return out;
  }

  // The operand as one vector of `lanes` elements, if it is contiguous over `order` (outer loop
  // first) and, where the outer stride is zero, repeated.
  static std::optional<ir::Expr> gather(const Operand& o, std::size_t outer, std::size_t inner,
                                        std::int64_t outer_extent, std::int64_t depth) {
    if (o.strides[inner] != 1) return std::nullopt;
    const int all = static_cast<int>(outer_extent * depth);
    if (o.strides[outer] == depth)
      return of_vector(o, ir::Load::make(o.load->buffer, {ir::Ramp::make(o.base, 1, all)}));
    if (o.strides[outer] != 0) return std::nullopt;
    const ir::Expr once =
        ir::Load::make(o.load->buffer, {ir::Ramp::make(o.base, 1, static_cast<int>(depth))});
    return ir::Broadcast::make(of_vector(o, once), all);
  }

  // What is made of a vector of elements.
  static ir::Expr of_vector(const Operand& o, const ir::Expr& loaded) {
    return of_vector(o.value, o.load, loaded);
  }
  static ir::Expr of_vector(const ir::Expr& e, const ir::Load* element, const ir::Expr& loaded) {
    if (e.get() == element) return loaded;
    const auto* binary = e.as<ir::Binary>();
    if (!binary) return ir::Broadcast::make(e, loaded.lanes());
    return ir::Binary::make(binary->op, of_vector(binary->a, element, loaded),
                            of_vector(binary->b, element, loaded));
  }

  // The one load of what is computed of it by operations that take elements one by one.
  static const ir::Load* only_load(const ir::Expr& e) {
    const ir::Load* found = nullptr;
    bool plain = true;
    ir::for_each_expr(e, [&](const ir::Expr& x) {
      const auto* load = x.as<ir::Load>();
      plain = plain && !(load && found);
      if (load) found = load;
    });
    return plain && found && reaches(e, found) ? found : nullptr;
  }
  // Through binary operations alone, all of its type.
  static bool reaches(const ir::Expr& e, const ir::Load* load) {
    if (e.get() == load) return true;
    const auto* binary = e.as<ir::Binary>();
    return binary && e.type() == load->type &&
           (reaches(binary->a, load) || reaches(binary->b, load));
  }

  static std::optional<Factor> widened(const Instruction& instruction, const ir::Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    const ir::Load* load = cast ? only_load(cast->value) : nullptr;
    if (!load || cast->type.dtype != instruction.sums) return std::nullopt;
    if (!instruction.takes(load->type.dtype)) return std::nullopt;
    return Factor{load, cast->value};
  }

  // Nothing that is computed of an element beside it changes from one to the next.
  static bool is_even(const Factor& f, const Nest& nest) {
    return std::none_of(nest.loops.begin(), nest.loops.end(),
                        [&](const ir::For* loop) { return varies(f.value, f.load, loop->var); });
  }
  static bool varies(const ir::Expr& e, const ir::Load* element, const ir::Expr& var) {
    if (e.get() == element) return false;
    const auto* binary = e.as<ir::Binary>();
    if (!binary) return ir::uses_var(e, var);
    return varies(binary->a, element, var) || varies(binary->b, element, var);
  }

  static Result<ir::Stmt> match(const Instruction& instruction, const Nest& nest) {
    const auto* sum = nest.store->value.as<ir::Binary>();
    const auto* old = sum && sum->op == ir::BinaryOp::kAdd ? sum->a.as<ir::Load>() : nullptr;
    const auto* product = sum ? sum->b.as<ir::Binary>() : nullptr;
    if (!old || old->buffer != nest.store->buffer ||
        !ir::equal(old->indices[0], nest.store->indices[0]) || !product ||
        product->op != ir::BinaryOp::kMul) {
      return fail(instruction, "the body is not acc = acc + a * b");
    }
    const auto a = widened(instruction, product->a), b = widened(instruction, product->b);
    if (!a || !b || !is_even(*a, nest) || !is_even(*b, nest)) {
      return fail(
          instruction,
          fmt::format("the factors are not casts of {} or {} to {}", to_text(instruction.types[0]),
                      to_text(instruction.types[1]), to_text(instruction.sums)));
    }
    const auto acc = operand({old, sum->a}, nest);
    const auto left = operand(*a, nest);
    const auto right = operand(*b, nest);
    if (!acc || !left || !right) return fail(instruction, "an index is not linear in the loops");
    return is_matrix(instruction) ? match_matrix(instruction, nest, *acc, *left, *right)
                                  : match_dot(instruction, nest, *acc, *left, *right);
  }

  static Result<ir::Stmt> match_dot(const Instruction& instruction, const Nest& nest,
                                    const Operand& acc, const Operand& left, const Operand& right) {
    const std::size_t q =
        acc.strides[1] == 0 ? 1 : 0;  // the reduce loop does not move the accumulator
    const std::size_t n = 1 - q;
    const auto lanes = ir::as_const_int(nest.loops[n]->extent);
    if (!ir::is_const_int(nest.loops[q]->extent, instruction.k) || acc.strides[q] != 0) {
      return fail(instruction,
                  fmt::format("the reduce loop must have {} iterations", instruction.k));
    }
    if (!lanes || acc.strides[n] != 1)
      return fail(instruction, "the accumulators are not contiguous");
    const auto va = gather(left, n, q, *lanes, instruction.k);
    const auto vb = gather(right, n, q, *lanes, instruction.k);
    if (!va || !vb) return fail(instruction, "an operand is not packed in the order of the loops");
    return store(instruction, acc, static_cast<int>(*lanes), *va, *vb);
  }

  static Result<ir::Stmt> match_matrix(const Instruction& instruction, const Nest& nest,
                                       const Operand& acc, const Operand& left,
                                       const Operand& right) {
    const bool shape = ir::is_const_int(nest.loops[0]->extent, 2) &&
                       ir::is_const_int(nest.loops[1]->extent, 2) &&
                       ir::is_const_int(nest.loops[2]->extent, instruction.k);
    if (!shape) return fail(instruction, fmt::format("the loops must be 2, 2, {}", instruction.k));
    if (acc.strides != std::vector<std::int64_t>{2, 1, 0})
      return fail(instruction, "the accumulators are not a 2x2 tile");
    const std::vector<std::int64_t> rows{instruction.k, 0, 1};
    const std::vector<std::int64_t> columns{0, instruction.k, 1};
    if (left.strides != rows || right.strides != columns) {
      return fail(instruction, "an operand is not packed in rows of the tile");
    }
    const int all = static_cast<int>(2 * instruction.k);
    return store(
        instruction, acc, 4,
        of_vector(left, ir::Load::make(left.load->buffer, {ir::Ramp::make(left.base, 1, all)})),
        of_vector(right, ir::Load::make(right.load->buffer, {ir::Ramp::make(right.base, 1, all)})));
  }

  static Result<ir::Stmt> store(const Instruction& instruction, const Operand& acc, int lanes,
                                const ir::Expr& a, const ir::Expr& b) {
    const auto fn = intrinsic_of(instruction);
    if (!fn) return fail(instruction, "the IR has no product of its shape");
    const ir::Expr index = ir::Ramp::make(acc.base, 1, lanes);
    const ir::Expr old = ir::Load::make(acc.load->buffer, {index});
    return ir::Store::make(acc.load->buffer, {index}, ir::Call::make(*fn, {old, a, b}));
  }

  const LoopAttrs& attrs_;
  Result<void>* result_;
  std::span<const Instruction> rows_;
  std::set<const ir::ExprNode*> matched_;  // marked loops that hold a reduction
};

}  // namespace

ir::Stmt tensorize_loops(const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result,
                         std::span<const target::MatrixInstruction> rows) {
  if (attrs.tensorize.empty()) return s;
  TensorizeLoops pass(attrs, result, rows);
  const ir::Stmt out = pass(s);
  pass.refuse_unmet_marks();
  return out;
}

}  // namespace tessera::lower
