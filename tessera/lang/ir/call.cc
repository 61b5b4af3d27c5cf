// The table of intrinsics: name, number of arguments and typing rule of each.
#include <array>

#include "tessera/lang/ir/group_tile.h"
#include "tessera/lang/ir/typing.h"

namespace tessera::ir {
namespace {

using TypeRule = Typing (*)(const std::vector<Expr>& args);

Typing fail(const char* error) { return {Type(), error}; }

Typing all_same(const std::vector<Expr>& args) {
  for (const Expr& arg : args) {
    if (arg.type() != args[0].type()) return fail("arguments differ in type");
  }
  return {args[0].type()};
}

Typing float_math(const std::vector<Expr>& args) {
  if (!is_float(args[0].dtype())) return fail("function is for floats only");
  return all_same(args);
}

Typing number(const std::vector<Expr>& args) {
  if (args[0].dtype() == DType::kBool) return fail("no arithmetic on bool");
  return {args[0].type()};
}

Typing bits(const std::vector<Expr>& args) {
  if (is_float(args[0].dtype())) return fail("operation is for integers and bool only");
  return {args[0].type()};
}

Typing float_predicate(const std::vector<Expr>& args) {
  if (!is_float(args[0].dtype())) return fail("function is for floats only");
  return {args[0].type().with_dtype(DType::kBool)};
}

Typing prefetch(const std::vector<Expr>& args) {
  if (!args[0].as<Load>()) return fail("prefetch needs a load");
  return {Type()};
}

Typing refuse(const std::vector<Expr>&) { return fail("bitcast needs a target type"); }

bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

Typing dot(const std::vector<Expr>& args, DType acc, bool bytes, int group) {
  const Type type = args[0].type();
  if (type.dtype != acc) return fail("accumulator has the wrong type");
  for (const Expr& arg : {args[1], args[2]}) {
    if (bytes ? !is_byte(arg.dtype()) : arg.dtype() != DType::kBF16)
      return fail("operand has the wrong type");
    if (arg.lanes() != type.lanes * group) return fail("operand has the wrong number of lanes");
  }
  return {type};
}

Typing dot4(const std::vector<Expr>& args) { return dot(args, DType::kI32, true, 4); }
Typing dot2(const std::vector<Expr>& args) { return dot(args, DType::kF32, false, 2); }

// A 2x2 accumulator: two operand rows feed four results, so operands have half as many groups as
// lanes.
Typing mma(const std::vector<Expr>& args, DType acc, bool bytes, int group) {
  if (args[0].lanes() != 4) return fail("accumulator has the wrong number of lanes");
  return dot(args, acc, bytes, group);
}

Typing mma2x8(const std::vector<Expr>& args) { return mma(args, DType::kI32, true, 4); }
Typing mma2x4(const std::vector<Expr>& args) { return mma(args, DType::kF32, false, 2); }

constexpr std::int64_t kTiles = 8, kTileRows = 16, kTileRowBytes = 64;
constexpr std::int64_t kMostTileStep = std::int64_t{1} << 40;

bool is_number(const Expr& e, std::int64_t least, std::int64_t most) {
  const auto* n = e.as<IntImm>();
  return n && n->value >= least && n->value <= most;
}

bool is_tile(const Expr& e) { return is_number(e, 0, kTiles - 1); }

Typing tile(const std::vector<Expr>& args, std::size_t rows, DType type) {
  if (!is_tile(args[0])) return fail("not the number of a tile");
  if (!is_number(args[rows], 1, kTileRows) ||
      !is_number(args[rows + 1], 1, kTileRowBytes / size_bytes(type)))
    return fail("rows or columns do not fit into a tile");
  return {Type()};
}

Typing tile_zero(const std::vector<Expr>& args) { return tile(args, 1, DType::kI32); }

Typing tile_load(const std::vector<Expr>& args) {
  const auto* load = args[1].as<Load>();
  if (!load || load->type.lanes != 1) return fail("not a load of one element");
  const DType t = load->type.dtype;
  if (!is_byte(t) && t != DType::kBF16) return fail("operand has the wrong type");
  if (!is_number(args[2], 0, kMostTileStep)) return fail("rows are not a constant apart");
  return tile(args, 3, t);
}

Typing tile_dot(const std::vector<Expr>& args) {
  if (!is_tile(args[0]) || !is_tile(args[1]) || !is_tile(args[2]))
    return fail("not the number of a tile");
  return {Type()};
}

Typing tile_store(const std::vector<Expr>& args) {
  const auto* load = args[1].as<Load>();
  if (!load || load->type.lanes != 1) return fail("not a load of one element");
  const DType t = load->type.dtype;
  if (t != DType::kI32 && t != DType::kF32) return fail("accumulator has the wrong type");
  if (!is_number(args[2], 0, kMostTileStep)) return fail("rows are not a constant apart");
  return tile(args, 3, t);
}

Typing shuffle_xor(const std::vector<Expr>& args) {
  const bool pair = args[0].lanes() == 2 && size_bytes(args[0].dtype()) == 2;
  if (args[0].lanes() != 1 && !pair)
    return fail("a shuffle exchanges scalars, or pairs of 2 bytes");
  const auto* mask = args[1].as<IntImm>();
  if (!mask || mask->value < 1) return fail("mask is not a positive constant");
  return {args[0].type()};
}

Typing async_copy(const std::vector<Expr>& args) {
  if (!args[0].as<Load>() || !args[1].as<Load>()) return fail("async_copy needs two loads");
  if (args[0].type() != args[1].type()) return fail("arguments differ in type");
  return {Type()};
}

Typing async_commit(const std::vector<Expr>&) { return {Type()}; }

Typing products_wait(const std::vector<Expr>&) { return {Type()}; }

Typing async_wait(const std::vector<Expr>& args) {
  const auto* groups = args[0].as<IntImm>();
  if (!groups || groups->value < 0) return fail("number of groups is not a constant");
  const auto* threads = args.size() > 1 ? args[1].as<IntImm>() : nullptr;
  if (args.size() > 1 && (!threads || threads->value <= 0))
    return fail("number of threads is not a positive constant");
  return {Type()};
}

bool is_matrix_type(DType t) { return is_byte(t) || (is_float(t) && size_bytes(t) <= 4); }

Typing matrix_rows(const std::vector<Expr>& args) {
  const auto* load = args[0].as<Load>();
  if (!load || load->buffer->scope != Scope::kShared) return fail("not a load of shared memory");
  if (!is_matrix_type(args[0].dtype())) return fail("operand has the wrong type");
  if (args[0].lanes() != 1 && args[0].lanes() * size_bytes(args[0].dtype()) != 16)
    return fail("a row has 16 bytes");
  return {args[0].type()};
}

Typing matrix_columns(const std::vector<Expr>& args) {
  if (size_bytes(args[0].dtype()) != 2) return fail("only elements of 2 bytes are transposed");
  return matrix_rows(args);
}

DType sums_of(DType t) { return is_byte(t) ? DType::kI32 : DType::kF32; }
// Bytes, and floats of a byte, may be of two types.
bool are_factors(DType a, DType b) {
  return a == b || (size_bytes(a) == 1 && size_bytes(b) == 1 && is_byte(a) == is_byte(b));
}

// Operands of a warp group are the first elements of tiles.
Typing group_mma(const std::vector<Expr>& args) {
  const DType t = args[1].dtype();
  if (args[0].dtype() != sums_of(t) || !is_group_width(args[0].dtype(), args[0].lanes() * 2))
    return fail("accumulator has the wrong type");
  for (const Expr& arg : {args[1], args[2]}) {
    const auto* tile = arg.as<Call>();
    const bool place =
        tile && (tile->fn == Intrinsic::kMatrixRows || tile->fn == Intrinsic::kMatrixColumns);
    if (!place || arg.lanes() != 1 || !are_factors(t, arg.dtype()))
      return fail("operand is not a tile of shared memory");
  }
  return {args[0].type()};
}

Typing warp_mma(const std::vector<Expr>& args) {
  if (args[1].lanes() == 1) return group_mma(args);
  const DType t = args[1].dtype();
  if (args[0].type() != Type{sums_of(t), 4}) return fail("accumulator has the wrong type");
  if (!is_matrix_type(t) || !are_factors(t, args[2].dtype()))
    return fail("operand has the wrong type");
  if (args[1].lanes() * size_bytes(t) != 16 || args[2].lanes() * size_bytes(t) != 8)
    return fail("operand has the wrong number of lanes");
  return {args[0].type()};
}

struct Row {
  Intrinsic fn;
  const char* name;
  int arity;
  TypeRule rule;
};

constexpr std::array kRows = {
    Row{Intrinsic::kExp, "exp", 1, float_math},
    Row{Intrinsic::kLog, "log", 1, float_math},
    Row{Intrinsic::kTanh, "tanh", 1, float_math},
    Row{Intrinsic::kErf, "erf", 1, float_math},
    Row{Intrinsic::kSqrt, "sqrt", 1, float_math},
    Row{Intrinsic::kSin, "sin", 1, float_math},
    Row{Intrinsic::kCos, "cos", 1, float_math},
    Row{Intrinsic::kTan, "tan", 1, float_math},
    Row{Intrinsic::kAsin, "asin", 1, float_math},
    Row{Intrinsic::kAcos, "acos", 1, float_math},
    Row{Intrinsic::kAtan, "atan", 1, float_math},
    Row{Intrinsic::kSinh, "sinh", 1, float_math},
    Row{Intrinsic::kCosh, "cosh", 1, float_math},
    Row{Intrinsic::kAsinh, "asinh", 1, float_math},
    Row{Intrinsic::kAcosh, "acosh", 1, float_math},
    Row{Intrinsic::kAtanh, "atanh", 1, float_math},
    Row{Intrinsic::kPow, "pow", 2, float_math},
    Row{Intrinsic::kAbs, "abs", 1, number},
    Row{Intrinsic::kFloor, "floor", 1, float_math},
    Row{Intrinsic::kCeil, "ceil", 1, float_math},
    Row{Intrinsic::kRound, "round", 1, float_math},
    Row{Intrinsic::kTrunc, "trunc", 1, float_math},
    Row{Intrinsic::kFma, "fma", 3, float_math},
    Row{Intrinsic::kNot, "not", 1, bits},
    Row{Intrinsic::kIsNan, "isnan", 1, float_predicate},
    Row{Intrinsic::kIsInf, "isinf", 1, float_predicate},
    Row{Intrinsic::kBitcast, "bitcast", 1, refuse},
    Row{Intrinsic::kPrefetch, "prefetch", 1, prefetch},
    Row{Intrinsic::kDot4, "dot4", 3, dot4},
    Row{Intrinsic::kDot2, "dot2", 3, dot2},
    Row{Intrinsic::kMma2x8, "mma2x8", 3, mma2x8},
    Row{Intrinsic::kMma2x4, "mma2x4", 3, mma2x4},
    Row{Intrinsic::kTileZero, "tile_zero", 3, tile_zero},
    Row{Intrinsic::kTileLoad, "tile_load", 5, tile_load},
    Row{Intrinsic::kTileDot, "tile_dot", 3, tile_dot},
    Row{Intrinsic::kTileStore, "tile_store", 5, tile_store},
    Row{Intrinsic::kShuffleXor, "shuffle_xor", 2, shuffle_xor},
    Row{Intrinsic::kAsyncCopy, "async_copy", 2, async_copy},
    Row{Intrinsic::kAsyncCommit, "async_commit", 0, async_commit},
    Row{Intrinsic::kAsyncWait, "async_wait", 1, async_wait},
    Row{Intrinsic::kMatrixRows, "matrix_rows", 1, matrix_rows},
    Row{Intrinsic::kMatrixColumns, "matrix_columns", 1, matrix_columns},
    Row{Intrinsic::kMma, "mma", 3, warp_mma},
    Row{Intrinsic::kProductsWait, "products_wait", 0, products_wait},
};

constexpr bool rows_follow_enum() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].fn != static_cast<Intrinsic>(i)) return false;
  }
  return true;
}
static_assert(rows_follow_enum());

const Row& row(Intrinsic fn) { return kRows[static_cast<std::size_t>(fn)]; }

}  // namespace

const char* to_text(Intrinsic fn) { return row(fn).name; }
int arity(Intrinsic fn) { return row(fn).arity; }
int intrinsic_count() { return static_cast<int>(kRows.size()); }

Typing call_typing(Intrinsic fn, const std::vector<Expr>& args) {
  const int more = fn == Intrinsic::kAsyncWait && args.size() == 2 ? 1 : 0;
  if (static_cast<int>(args.size()) != row(fn).arity + more)
    return fail("wrong number of arguments");
  for (const Expr& arg : args) {
    if (!arg) return fail("missing argument");
  }
  return row(fn).rule(args);
}

Expr Call::make(Intrinsic fn, std::vector<Expr> args) {
  const Typing t = call_typing(fn, args);
  TESSERA_CHECK(!t.error, "{}: {}", to_text(fn), t.error);
  return Expr(new Call(t.type, fn, std::move(args)));
}

Expr Call::make_bitcast(DType to, Expr value) {
  const Typing t = bitcast_typing(to, value.type());
  TESSERA_CHECK(!t.error, "bitcast: {}", t.error);
  return Expr(new Call(t.type, Intrinsic::kBitcast, {std::move(value)}));
}

}  // namespace tessera::ir
