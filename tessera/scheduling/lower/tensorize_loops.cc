#include "tessera/scheduling/lower/tensorize_loops.h"

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
//   dot: for n in N, q in depth:               acc[n]      += wide(a[n?, q]) * wide(b[n?, q])
//   mma: for i in 2, j in 2, q in depth:       acc[2i + j] += wide(a[i, q])  * wide(b[j, q])
struct Intrinsic {
  const char* name;
  ir::Intrinsic fn;
  bool matrix;
  std::int64_t depth;
  DType accumulator;
  std::array<DType, 2> operands;  // the element types it takes
};

constexpr std::array kIntrinsics = {
    Intrinsic{"dot4", ir::Intrinsic::kDot4, false, 4, DType::kI32, {DType::kI8, DType::kU8}},
    Intrinsic{"dot2", ir::Intrinsic::kDot2, false, 2, DType::kF32, {DType::kBF16, DType::kBF16}},
    Intrinsic{"mma2x8", ir::Intrinsic::kMma2x8, true, 8, DType::kI32, {DType::kI8, DType::kU8}},
    Intrinsic{"mma2x4", ir::Intrinsic::kMma2x4, true, 4, DType::kF32, {DType::kBF16, DType::kBF16}},
};

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
  TensorizeLoops(const LoopAttrs& attrs, Result<void>* result) : attrs_(attrs), result_(result) {}

  // A mark that met no reduction must not be ignored in silence.
  void refuse_unmet_marks() const {
    for (const auto& [var, name] : attrs_.tensorize) {
      if (matched_.count(var) || !result_->ok()) continue;
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
    for (const Intrinsic& intrinsic : kIntrinsics) {
      if (marked->second != intrinsic.name) continue;
      const Nest nest = collect(loop);
      // Setting and writing back the accumulators runs over the spatial loops only.
      const std::size_t depth = intrinsic.matrix ? 3 : 2;
      const bool reduces = nest.store && ir::reads_buffer(nest.store->value, nest.store->buffer);
      if (!reduces) return Mutator::rewrite(s, loop);
      const Result<ir::Stmt> call = nest.loops.size() == depth
                                        ? match(intrinsic, nest)
                                        : fail(intrinsic, "the number of loops inside is wrong");
      matched_.insert(marked->first);
      if (call.ok()) return *call;
      *result_ = call.error();
    }
    return s;
  }

  static Error fail(const Intrinsic& intrinsic, const std::string& why) {
    return make_error(ErrorCode::kIllegalSchedule, "tensorize {}: {}", intrinsic.name, why);
  }

  struct Operand {
    const ir::Load* load = nullptr;
    std::vector<std::int64_t> strides;  // per loop of the nest
    ir::Expr base;                      // index with all loops of the nest at 0
  };

  static std::optional<Operand> operand(const ir::Load* load, const Nest& nest) {
    Operand out{.load = load, .base = load->indices[0]};
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
      return ir::Load::make(o.load->buffer, {ir::Ramp::make(o.base, 1, all)});
    if (o.strides[outer] != 0) return std::nullopt;
    const ir::Expr once =
        ir::Load::make(o.load->buffer, {ir::Ramp::make(o.base, 1, static_cast<int>(depth))});
    return ir::Broadcast::make(once, all);
  }

  static const ir::Load* widened(const Intrinsic& intrinsic, const ir::Expr& e) {
    const auto* cast = e.as<ir::Cast>();
    const auto* load = cast ? cast->value.as<ir::Load>() : nullptr;
    if (!load || cast->type.dtype != intrinsic.accumulator) return nullptr;
    const bool known =
        load->type.dtype == intrinsic.operands[0] || load->type.dtype == intrinsic.operands[1];
    return known ? load : nullptr;
  }

  static Result<ir::Stmt> match(const Intrinsic& intrinsic, const Nest& nest) {
    const auto* sum = nest.store->value.as<ir::Binary>();
    const auto* old = sum && sum->op == ir::BinaryOp::kAdd ? sum->a.as<ir::Load>() : nullptr;
    const auto* product = sum ? sum->b.as<ir::Binary>() : nullptr;
    if (!old || old->buffer != nest.store->buffer ||
        !ir::equal(old->indices[0], nest.store->indices[0]) || !product ||
        product->op != ir::BinaryOp::kMul) {
      return fail(intrinsic, "the body is not acc = acc + a * b");
    }
    const ir::Load* a = widened(intrinsic, product->a);
    const ir::Load* b = widened(intrinsic, product->b);
    if (!a || !b)
      return fail(
          intrinsic,
          fmt::format("the factors are not casts of {} or {} to {}", to_text(intrinsic.operands[0]),
                      to_text(intrinsic.operands[1]), to_text(intrinsic.accumulator)));
    const auto acc = operand(old, nest);
    const auto left = operand(a, nest);
    const auto right = operand(b, nest);
    if (!acc || !left || !right) return fail(intrinsic, "an index is not linear in the loops");
    return intrinsic.matrix ? match_matrix(intrinsic, nest, *acc, *left, *right)
                            : match_dot(intrinsic, nest, *acc, *left, *right);
  }

  static Result<ir::Stmt> match_dot(const Intrinsic& intrinsic, const Nest& nest,
                                    const Operand& acc, const Operand& left, const Operand& right) {
    const std::size_t q =
        acc.strides[1] == 0 ? 1 : 0;  // the reduce loop does not move the accumulator
    const std::size_t n = 1 - q;
    const auto lanes = ir::as_const_int(nest.loops[n]->extent);
    if (!ir::is_const_int(nest.loops[q]->extent, intrinsic.depth) || acc.strides[q] != 0) {
      return fail(intrinsic,
                  fmt::format("the reduce loop must have {} iterations", intrinsic.depth));
    }
    if (!lanes || acc.strides[n] != 1)
      return fail(intrinsic, "the accumulators are not contiguous");
    const auto va = gather(left, n, q, *lanes, intrinsic.depth);
    const auto vb = gather(right, n, q, *lanes, intrinsic.depth);
    if (!va || !vb) return fail(intrinsic, "an operand is not packed in the order of the loops");
    return store(intrinsic, acc, static_cast<int>(*lanes), *va, *vb);
  }

  static Result<ir::Stmt> match_matrix(const Intrinsic& intrinsic, const Nest& nest,
                                       const Operand& acc, const Operand& left,
                                       const Operand& right) {
    const bool shape = ir::is_const_int(nest.loops[0]->extent, 2) &&
                       ir::is_const_int(nest.loops[1]->extent, 2) &&
                       ir::is_const_int(nest.loops[2]->extent, intrinsic.depth);
    if (!shape) return fail(intrinsic, fmt::format("the loops must be 2, 2, {}", intrinsic.depth));
    if (acc.strides != std::vector<std::int64_t>{2, 1, 0})
      return fail(intrinsic, "the accumulators are not a 2x2 tile");
    const std::vector<std::int64_t> rows{intrinsic.depth, 0, 1};
    const std::vector<std::int64_t> columns{0, intrinsic.depth, 1};
    if (left.strides != rows || right.strides != columns) {
      return fail(intrinsic, "an operand is not packed in rows of the tile");
    }
    const int all = static_cast<int>(2 * intrinsic.depth);
    return store(intrinsic, acc, 4,
                 ir::Load::make(left.load->buffer, {ir::Ramp::make(left.base, 1, all)}),
                 ir::Load::make(right.load->buffer, {ir::Ramp::make(right.base, 1, all)}));
  }

  static ir::Stmt store(const Intrinsic& intrinsic, const Operand& acc, int lanes,
                        const ir::Expr& a, const ir::Expr& b) {
    const ir::Expr index = ir::Ramp::make(acc.base, 1, lanes);
    const ir::Expr old = ir::Load::make(acc.load->buffer, {index});
    return ir::Store::make(acc.load->buffer, {index}, ir::Call::make(intrinsic.fn, {old, a, b}));
  }

  const LoopAttrs& attrs_;
  Result<void>* result_;
  std::set<const ir::ExprNode*> matched_;  // marked loops that hold a reduction
};

}  // namespace

ir::Stmt tensorize_loops(const ir::Stmt& s, const LoopAttrs& attrs, Result<void>* result) {
  if (attrs.tensorize.empty()) return s;
  TensorizeLoops pass(attrs, result);
  const ir::Stmt out = pass(s);
  pass.refuse_unmet_marks();
  return out;
}

}  // namespace tessera::lower
