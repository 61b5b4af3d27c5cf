// Expressions of the loop IR: immutable, reference-counted, typed. Semantics:
// tessera/lang/ir/README.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lang/ir/type.h"
#include "tessera/support/check.h"

namespace tessera::ir {

// One row per expression node: the enum, the dispatch and the tables derive from it.
#define TESSERA_EXPR_KINDS(V) \
  V(IntImm)                   \
  V(FloatImm) V(Var) V(Binary) V(Select) V(Cast) V(Load) V(Ramp) V(Broadcast) V(Shuffle) V(Call)

enum class ExprKind : std::uint8_t {
#define TESSERA_V(name) k##name,
  TESSERA_EXPR_KINDS(TESSERA_V)
#undef TESSERA_V
};

struct ExprNode {
  ExprNode(ExprKind k, Type t) : kind(k), type(t) {}
  mutable std::atomic<std::int32_t> refs{0};
  ExprKind kind;
  Type type;
};

void destroy(const ExprNode* node);

// Shared handle to an immutable node. Null only when default-constructed.
class Expr {
 public:
  Expr() = default;
  explicit Expr(const ExprNode* node) : node_(node) { retain(); }
  Expr(const Expr& o) : node_(o.node_) { retain(); }
  Expr(Expr&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  Expr& operator=(Expr o) noexcept { return std::swap(node_, o.node_), *this; }
  ~Expr() {
    if (node_ && node_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(node_);
  }

  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Expr& o) const { return node_ == o.node_; }
  const ExprNode* get() const { return node_; }
  ExprKind kind() const { return node_->kind; }
  Type type() const { return node_->type; }
  DType dtype() const { return node_->type.dtype; }
  int lanes() const { return node_->type.lanes; }

  // The node as a T, or null when it is of another kind: `if (const auto* load = e.as<Load>())`.
  template <class T>
  const T* as() const {
    return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_) : nullptr;
  }

 private:
  void retain() const {
    if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  const ExprNode* node_ = nullptr;
};

// Integer, unsigned or bool constant, wrapped to its type. Scalar; a vector constant is a
// Broadcast.
struct IntImm : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kIntImm;
  static Expr make(DType t, std::int64_t value);
  std::int64_t value;
  IntImm(Type t, std::int64_t v) : ExprNode(kKind, t), value(v) {}
};

// Float constant, rounded to its type.
struct FloatImm : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kFloatImm;
  static Expr make(DType t, double value);
  double value;
  FloatImm(Type t, double v) : ExprNode(kKind, t), value(v) {}
};

// A loop or axis variable. Identity is the node; the name is a hint for the printer.
struct Var : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kVar;
  static Expr make(std::string name, DType t = DType::kI64);
  std::string name;
  Var(Type t, std::string n) : ExprNode(kKind, t), name(std::move(n)) {}
};

// Both operands have the same type; comparisons give bool with the same lanes.
enum class BinaryOp : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,       // floats: IEEE; integers: truncates towards zero
  kMod,       // floats: fmod; integers: sign of the dividend
  kFloorDiv,  // integers only
  kFloorMod,  // integers only; sign of the divisor
  kMin,
  kMax,  // floats: if either is NaN, the result is NaN
  kAnd,
  kOr,
  kXor,  // bitwise on integers, logical on bool; never short-circuit
  kShl,
  kShr,  // integers; shr is arithmetic for signed types
  kEq,
  kNe,
  kLt,
  kLe,
};

struct Binary : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kBinary;
  static Expr make(BinaryOp op, Expr a, Expr b);
  BinaryOp op;
  Expr a, b;
  Binary(Type t, BinaryOp o, Expr x, Expr y)
      : ExprNode(kKind, t), op(o), a(std::move(x)), b(std::move(y)) {}
};

// Lazy: only the taken side is evaluated (so the other may load out of bounds). Lane-wise for
// vectors; a scalar condition chooses for all lanes.
struct Select : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kSelect;
  static Expr make(Expr cond, Expr on_true, Expr on_false);
  Expr cond, on_true, on_false;
  Select(Type t, Expr c, Expr x, Expr y)
      : ExprNode(kKind, t), cond(std::move(c)), on_true(std::move(x)), on_false(std::move(y)) {}
};

// Value conversion. int->int wraps; float->int truncates and saturates, NaN gives 0; to bool is `!=
// 0`.
struct Cast : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kCast;
  static Expr make(DType to, Expr value);
  Expr value;
  Cast(Type t, Expr v) : ExprNode(kKind, t), value(std::move(v)) {}
};

enum class Scope : std::uint8_t {
  kParam,   // memory of the caller
  kHeap,    // temporary from the caller's workspace (or malloc)
  kStack,   // small temporary; becomes registers when every index is constant after unrolling
  kShared,  // GPU shared memory
};

struct BufferNode {
  mutable std::atomic<std::int32_t> refs{0};
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  Scope scope = Scope::kParam;
};

// Shared handle to a buffer: name, element type, constant shape, scope. Identity is the node.
// Row-major.
class Buffer {
 public:
  Buffer() = default;
  static Buffer make(std::string name, DType dtype, std::vector<std::int64_t> shape,
                     Scope scope = Scope::kParam);
  Buffer(const Buffer& o) : node_(o.node_) { retain(); }
  Buffer(Buffer&& o) noexcept : node_(std::exchange(o.node_, nullptr)) {}
  Buffer& operator=(Buffer o) noexcept { return std::swap(node_, o.node_), *this; }
  ~Buffer() {
    if (node_ && node_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete node_;
  }
  explicit operator bool() const { return node_ != nullptr; }
  const BufferNode* operator->() const { return node_; }
  const BufferNode* get() const { return node_; }
  bool same_as(const Buffer& o) const { return node_ == o.node_; }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.node_ == b.node_; }
  friend bool operator<(const Buffer& a, const Buffer& b) { return a.node_ < b.node_; }
  std::int64_t size() const;  // elements

 private:
  void retain() const {
    if (node_) node_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  const BufferNode* node_ = nullptr;
};

// Reads buffer[indices]. One index per dimension (i64). At most one index is a vector (the last,
// after vectorize_loops); then the load has its lanes. A Ramp index of stride 1 is a dense vector
// load.
struct Load : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kLoad;
  static Expr make(Buffer buffer, std::vector<Expr> indices);
  Buffer buffer;
  std::vector<Expr> indices;
  Load(Type t, Buffer b, std::vector<Expr> i)
      : ExprNode(kKind, t), buffer(std::move(b)), indices(std::move(i)) {}
};

// The vector base, base + stride, ..., base + (lanes-1)*stride; base is scalar i64.
struct Ramp : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kRamp;
  static Expr make(Expr base, std::int64_t stride, int lanes);
  Expr base;
  std::int64_t stride;
  Ramp(Type t, Expr b, std::int64_t s) : ExprNode(kKind, t), base(std::move(b)), stride(s) {}
};

// `lanes` copies of a scalar, or of a vector (abab...): type.lanes is the total.
struct Broadcast : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kBroadcast;
  static Expr make(Expr value, int total_lanes);
  Expr value;
  Broadcast(Type t, Expr v) : ExprNode(kKind, t), value(std::move(v)) {}
};

// Lanes `lanes[i]` of `value`; one lane gives a scalar.
struct Shuffle : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kShuffle;
  static Expr make(Expr value, std::vector<int> lanes);
  Expr value;
  std::vector<int> picks;
  Shuffle(Type t, Expr v, std::vector<int> p)
      : ExprNode(kKind, t), value(std::move(v)), picks(std::move(p)) {}
};

// Intrinsic functions: the table in call.cc holds name, arity and result type of each.
enum class Intrinsic : std::uint8_t {
  kExp,
  kLog,
  kTanh,
  kErf,
  kSqrt,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kPow,  // 2 args
  kAbs,
  kFloor,
  kCeil,
  kRound,  // round: half to even
  kTrunc,
  kFma,  // a*b+c rounded once
  kNot,  // bitwise / logical
  kIsNan,
  kIsInf,     // bool
  kBitcast,   // same size; the target type is the call's type
  kPrefetch,  // one arg: a Load whose line is wanted; evaluates to i64 0, never faults
  kDot4,      // acc[i] + sum_{q<4} a[4i+q]*b[4i+q]; acc i32xN, a and b i8/u8 x4N
  kDot2,      // acc[i] + sum_{q<2} a[2i+q]*b[2i+q]; acc f32xN, a and b bf16 x2N
  kMma2x8,    // acc i32x4 (2x2 row-major) + a(2x8 i8/u8) * b(2x8)^T
  kMma2x4,    // acc f32x4 (2x2 row-major) + a(2x4 bf16) * b(2x4)^T
  // Of the eight tile registers of a thread. Each stands alone in an Evaluate and gives i64 0; all
  // numbers are constants. Rows have up to 64 bytes.
  kTileZero,  // tile, rows, columns: sums (4 bytes each), all 0
  kTileLoad,  // tile, a Load = the first element, elements from row to row, rows, columns
  kTileDot,   // sums, left, right: sums[i][j] += left[i][g*q+r] * right[q][g*j+r] over q and r < g,
              // where g elements have 4 bytes; i8/u8 are summed in i32, bf16 in f32
  kTileStore,  // tile of sums, a Load = where the first goes, elements from row to row, rows,
               // columns
  // Of threads: only in launches. Those of asynchronous copies stand alone in an Evaluate and give
  // i64 0; all threads of a warp evaluate kMatrixRows, kMatrixColumns and kMma together.
  kShuffleXor,  // 2 args: scalar value, constant mask within a warp: the value that the thread of
                // the same warp computed whose number differs from ours by the mask
  kAsyncCopy,  // 2 args: a Load of shared memory = the place, a Load of device memory = the source;
               // starts the copy
  kAsyncCommit,  // no args: the copies that this thread started since the last commit are a group
  kAsyncWait,    // 1 or 2 args, constant n: all groups of this thread but the last n have arrived,
                 // and those of the t threads (whole warps) around it that wait here, too
  kMatrixRows,   // 1 arg: a Load of 16 bytes of shared memory, row number (thread of the warp) of
                 // four matrices of 8 rows; every thread gets 4 bytes of each matrix
  kMatrixColumns,  // the same of the transposed matrices; 2-byte elements only
  kMma,  // 3 args: accumulator f32x4 (i32x4), operands of 16 and 8 bytes: what the threads of a
         // warp hold of the 16 x 8 outputs, of the 16 x k and of the k x 8 operand
  kProductsWait,  // no args: the products of tiles that this thread takes part in have ended; its
                  // copies may still be under way
};

struct Call : ExprNode {
  static constexpr ExprKind kKind = ExprKind::kCall;
  // The result type follows from the arguments, except for kBitcast.
  static Expr make(Intrinsic fn, std::vector<Expr> args);
  static Expr make_bitcast(DType to, Expr value);
  Intrinsic fn;
  std::vector<Expr> args;
  Call(Type t, Intrinsic f, std::vector<Expr> a) : ExprNode(kKind, t), fn(f), args(std::move(a)) {}
};

const char* to_text(BinaryOp op);   // "+", "min", "//", ...
const char* to_text(Intrinsic fn);  // "exp", ...
bool is_comparison(BinaryOp op);

// Total order of structure: equal trees with identical Vars and Buffers compare equal.
bool equal(const Expr& a, const Expr& b);
std::size_t hash(const Expr& e);

}  // namespace tessera::ir
