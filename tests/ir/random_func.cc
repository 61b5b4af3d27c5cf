#include "tests/ir/random_func.h"

#include <bit>

#include "tessera/lang/ir/build.h"

namespace tessera::ir {
namespace {

constexpr DType kTypes[] = {DType::kBool, DType::kI8,  DType::kU8,  DType::kI16, DType::kU16,
                            DType::kI32,  DType::kU32, DType::kI64, DType::kU64, DType::kF16,
                            DType::kBF16, DType::kF32, DType::kF64};
constexpr BinaryOp kIntOps[] = {
    BinaryOp::kAdd,      BinaryOp::kSub,      BinaryOp::kMul, BinaryOp::kDiv, BinaryOp::kMod,
    BinaryOp::kFloorDiv, BinaryOp::kFloorMod, BinaryOp::kMin, BinaryOp::kMax, BinaryOp::kAnd,
    BinaryOp::kOr,       BinaryOp::kXor,      BinaryOp::kShl, BinaryOp::kShr};
constexpr BinaryOp kFloatOps[] = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul, BinaryOp::kDiv,
                                  BinaryOp::kMod, BinaryOp::kMin, BinaryOp::kMax};
constexpr BinaryOp kBoolOps[] = {BinaryOp::kAnd, BinaryOp::kOr, BinaryOp::kXor};
constexpr BinaryOp kCompareOps[] = {BinaryOp::kEq, BinaryOp::kNe, BinaryOp::kLt, BinaryOp::kLe};
constexpr const char* kHints[] = {"i",   "i",   "j", "A",  "A.cache", "for",    "exp",
                                  "f16", "a b", "",  "1x", "i_1",     "f32.inf"};

class Generator {
 public:
  explicit Generator(Rng& rng) : rng_(rng) {}

  Func run() {
    Func f;
    f.name = rng_.chance(0.2) ? "odd \"name\" \\ 1" : "matmul.0";
    const auto inputs = rng_.between(0, 3);
    const auto outputs = rng_.between(1, 2);
    for (std::int64_t i = 0; i < inputs + outputs; ++i) {
      f.params.push_back(buffer(Scope::kParam));
      buffers_.push_back(f.params.back());
      if (i >= inputs) writable_.push_back(f.params.back());
    }
    f.num_outputs = static_cast<int>(outputs);
    f.body = stmt(4);
    return f;
  }

 private:
  template <class T, std::size_t N>
  T pick(const T (&list)[N]) {
    return list[rng_.below(static_cast<std::int64_t>(N))];
  }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(rng_.below(static_cast<std::int64_t>(list.size())))];
  }

  Buffer buffer(Scope scope) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(rng_.below(4)));
    for (auto& d : shape) d = rng_.between(1, 8);
    return Buffer::make(pick(kHints), pick(kTypes), std::move(shape), scope);
  }

  Stmt stmt(int depth) {
    switch (depth > 0 ? rng_.below(8) : 0) {
      case 1:
        return loop(depth);
      case 2: {
        const Expr cond = expr({DType::kBool, 1}, 2);
        Stmt body = stmt(depth - 1);
        return If::make(cond, body, rng_.chance(0.5) ? stmt(depth - 1) : Stmt());
      }
      case 3:
        return allocation(depth);
      case 4:
        return Evaluate::make(Call::make(Intrinsic::kPrefetch, {load(pick(buffers_), 1, 1)}));
      case 5:
      case 6: {
        std::vector<Stmt> list(static_cast<std::size_t>(rng_.below(4)));
        for (Stmt& s : list) s = stmt(depth - 1);
        return Block::make(std::move(list));
      }
      default: {
        const Buffer b = pick(writable_);
        const int lanes = last_index_lanes(b);
        return Store::make(b, indices(b, lanes, 2), expr({b->dtype, lanes}, 4));
      }
    }
  }

  Stmt loop(int depth) {
    const Expr var = Var::make(pick(kHints));
    const Expr extent = rng_.chance(0.2) ? expr({DType::kI64, 1}, 2) : int_imm(rng_.between(0, 9));
    const auto kind = static_cast<LoopKind>(rng_.below(static_cast<int>(LoopKind::kVThread) + 1));
    const bool dynamic_ok =
        kind != LoopKind::kVectorized && kind != LoopKind::kUnrolled && kind != LoopKind::kVThread;
    const bool parallel_in_vector = kind == LoopKind::kParallel && vectorized_ > 0;
    const bool negative = as_const_int(extent).value_or(0) < 0;
    vars_.push_back(var);
    vectorized_ += kind == LoopKind::kVectorized;
    Stmt body = stmt(depth - 1);
    vectorized_ -= kind == LoopKind::kVectorized;
    vars_.pop_back();
    return For::make(var, dynamic_ok && !negative ? extent : int_imm(4),
                     parallel_in_vector ? LoopKind::kSerial : kind, body);
  }

  Stmt allocation(int depth) {
    const Buffer b = buffer(static_cast<Scope>(rng_.between(1, 3)));
    buffers_.push_back(b);
    writable_.push_back(b);
    Stmt body = stmt(depth - 1);
    buffers_.pop_back();
    writable_.pop_back();
    return Allocate::make(b, body);
  }

  // A vector index needs a dimension, and a variable so that no constant index is out of bounds.
  int last_index_lanes(const Buffer& b) {
    return b->shape.empty() || vars_.empty() || rng_.chance(0.6)
               ? 1
               : static_cast<int>(rng_.between(2, 4));
  }

  std::vector<Expr> indices(const Buffer& b, int lanes, int depth) {
    std::vector<Expr> out;
    for (std::size_t i = 0; i < b->shape.size(); ++i) {
      if (lanes > 1 && i + 1 == b->shape.size()) {
        out.push_back(
            Ramp::make(add(pick(vars_), int_imm(rng_.below(3))), rng_.between(-2, 2), lanes));
      } else if (vars_.empty() || rng_.chance(0.3)) {
        out.push_back(int_imm(rng_.below(b->shape[i])));
      } else {
        out.push_back(Binary::make(pick(kIntOps), pick(vars_), expr({DType::kI64, 1}, depth - 1)));
      }
    }
    return out;
  }

  Expr load(const Buffer& b, int lanes, int depth) {
    return Load::make(b, indices(b, lanes, depth));
  }

  Expr constant(DType t) {
    const std::uint64_t bits = rng_.next();
    switch (t) {
      case DType::kF16:
        return FloatImm::make(t, f16_to_f32(static_cast<std::uint16_t>(bits)));
      case DType::kBF16:
        return FloatImm::make(t, bf16_to_f32(static_cast<std::uint16_t>(bits)));
      case DType::kF32:
        return FloatImm::make(t, std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
      case DType::kF64:
        return FloatImm::make(t, std::bit_cast<double>(bits));
      default:
        return IntImm::make(t, static_cast<std::int64_t>(rng_.chance(0.5) ? bits : bits % 100));
    }
  }

  Expr leaf(Type t) {
    if (t.lanes > 1) return Broadcast::make(leaf(t.with_lanes(1)), t.lanes);
    if (t.dtype == DType::kI64 && !vars_.empty() && rng_.chance(0.6)) return pick(vars_);
    return constant(t.dtype);
  }

  Expr binary(Type t, int depth) {
    if (t.dtype == DType::kBool && rng_.chance(0.6)) {
      const Type operand = t.with_dtype(pick(kTypes));
      return Binary::make(pick(kCompareOps), expr(operand, depth), expr(operand, depth));
    }
    const BinaryOp op = t.dtype == DType::kBool ? pick(kBoolOps)
                        : is_float(t.dtype)     ? pick(kFloatOps)
                                                : pick(kIntOps);
    return Binary::make(op, expr(t, depth), expr(t, depth));
  }

  Expr call(Type t, int depth) {
    if (t.dtype == DType::kBool) {
      return Call::make(rng_.chance(0.5) ? Intrinsic::kIsNan : Intrinsic::kIsInf,
                        {expr(t.with_dtype(DType::kF16), depth)});
    }
    if (t.dtype == DType::kI32 && rng_.chance(0.5)) {
      return Call::make(Intrinsic::kDot4, {expr(t, depth), expr({DType::kI8, 4 * t.lanes}, depth),
                                           expr({DType::kU8, 4 * t.lanes}, depth)});
    }
    if (t.dtype == DType::kF32 && rng_.chance(0.3)) {
      return Call::make_bitcast(t.dtype, expr(t.with_dtype(DType::kU32), depth));
    }
    if (!is_float(t.dtype))
      return Call::make(rng_.chance(0.5) ? Intrinsic::kAbs : Intrinsic::kNot, {expr(t, depth)});
    if (rng_.chance(0.2))
      return Call::make(Intrinsic::kFma, {expr(t, depth), expr(t, depth), expr(t, depth)});
    if (rng_.chance(0.2)) return Call::make(Intrinsic::kPow, {expr(t, depth), expr(t, depth)});
    return Call::make(static_cast<Intrinsic>(rng_.below(static_cast<int>(Intrinsic::kPow))),
                      {expr(t, depth)});
  }

  Expr memory(Type t, int depth) {
    const Buffer b = pick(buffers_);
    const bool vector = t.lanes > 1 && !b->shape.empty() && !vars_.empty();
    Expr value = load(b, vector ? t.lanes : 1, depth);
    if (b->dtype != t.dtype) value = Cast::make(t.dtype, value);
    return Broadcast::make(value, t.lanes);
  }

  Expr vector_form(Type t, int depth) {
    const int source = static_cast<int>(rng_.between(2, 4));
    if (t.dtype == DType::kI64 && t.lanes > 1 && rng_.chance(0.5)) {
      return Ramp::make(expr(t.with_lanes(1), depth), rng_.between(-9, 9), t.lanes);
    }
    std::vector<int> picks(static_cast<std::size_t>(t.lanes));
    for (int& p : picks) p = static_cast<int>(rng_.below(source));
    return Shuffle::make(expr(t.with_lanes(source), depth), picks);
  }

  Expr expr(Type t, int depth) {
    switch (depth > 0 ? rng_.below(9) : 0) {
      case 1:
      case 2:
      case 3:
        return binary(t, depth - 1);
      case 4: {
        const Type cond{DType::kBool, rng_.chance(0.5) ? 1 : t.lanes};
        return Select::make(expr(cond, depth - 1), expr(t, depth - 1), expr(t, depth - 1));
      }
      case 5:
        return Cast::make(t.dtype, expr(t.with_dtype(pick(kTypes)), depth - 1));
      case 6:
        return memory(t, depth - 1);
      case 7:
        return call(t, depth - 1);
      case 8:
        return vector_form(t, depth - 1);
      default:
        return leaf(t);
    }
  }

  Rng& rng_;
  std::vector<Expr> vars_;
  std::vector<Buffer> buffers_;
  std::vector<Buffer> writable_;
  int vectorized_ = 0;
};

}  // namespace

Func random_func(Rng& rng) { return Generator(rng).run(); }

}  // namespace tessera::ir
