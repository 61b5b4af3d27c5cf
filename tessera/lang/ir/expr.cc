#include "tessera/lang/ir/expr.h"

#include <array>
#include <cmath>
#include <limits>

#include "tessera/lang/ir/typing.h"

namespace tessera::ir {
namespace {

constexpr std::array kBinaryNames = {"+", "-", "*", "/",  "%",  "//", "%%", "min", "max",
                                     "&", "|", "^", "<<", ">>", "==", "!=", "<",   "<="};

}  // namespace

void destroy(const ExprNode* node) {
  switch (node->kind) {
#define TESSERA_V(name)                    \
  case ExprKind::k##name:                  \
    delete static_cast<const name*>(node); \
    break;
    TESSERA_EXPR_KINDS(TESSERA_V)
#undef TESSERA_V
  }
}

std::string to_text(Type t) {
  return t.lanes == 1 ? std::string(to_text(t.dtype))
                      : fmt::format("{}x{}", to_text(t.dtype), t.lanes);
}

const char* to_text(BinaryOp op) { return kBinaryNames[static_cast<std::size_t>(op)]; }

bool is_comparison(BinaryOp op) { return op >= BinaryOp::kEq; }

Expr IntImm::make(DType t, std::int64_t value) {
  TESSERA_CHECK(!is_float(t), "integer constant of type {}", tessera::to_text(t));
  return Expr(new IntImm(Type{t, 1}, wrap_int(t, value)));
}

Expr FloatImm::make(DType t, double value) {
  TESSERA_CHECK(is_float(t), "float constant of type {}", tessera::to_text(t));
  // One NaN per type: its payload could not be printed.
  const double v =
      std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : round_float(t, value);
  return Expr(new FloatImm(Type{t, 1}, v));
}

Expr Var::make(std::string name, DType t) { return Expr(new Var(Type{t, 1}, std::move(name))); }

Expr Binary::make(BinaryOp op, Expr a, Expr b) {
  TESSERA_CHECK(a && b, "{}: missing operand", to_text(op));
  const Typing t = binary_typing(op, a.type(), b.type());
  TESSERA_CHECK(!t.error, "{} {} {}: {}", to_text(a.type()), to_text(op), to_text(b.type()),
                t.error);
  return Expr(new Binary(t.type, op, std::move(a), std::move(b)));
}

Expr Select::make(Expr cond, Expr on_true, Expr on_false) {
  TESSERA_CHECK(cond && on_true && on_false, "select: missing operand");
  const Typing t = select_typing(cond.type(), on_true.type(), on_false.type());
  TESSERA_CHECK(!t.error, "select({}, {}, {}): {}", to_text(cond.type()), to_text(on_true.type()),
                to_text(on_false.type()), t.error);
  return Expr(new Select(t.type, std::move(cond), std::move(on_true), std::move(on_false)));
}

Expr Cast::make(DType to, Expr value) {
  TESSERA_CHECK(value, "cast: missing operand");
  const Type type = value.type().with_dtype(to);
  return Expr(new Cast(type, std::move(value)));
}

Buffer Buffer::make(std::string name, DType dtype, std::vector<std::int64_t> shape, Scope scope) {
  for (const std::int64_t d : shape)
    TESSERA_CHECK(d >= 0, "buffer {}: negative dimension {}", name, d);
  auto* node = new BufferNode;
  node->name = std::move(name);
  node->dtype = dtype;
  node->shape = std::move(shape);
  node->scope = scope;
  Buffer buffer;
  buffer.node_ = node;
  buffer.retain();
  return buffer;
}

std::int64_t Buffer::size() const {
  std::int64_t total = 1;
  for (const std::int64_t d : node_->shape) total *= d;
  return total;
}

Expr Load::make(Buffer buffer, std::vector<Expr> indices) {
  const Typing t = access_typing(buffer, indices);
  TESSERA_CHECK(!t.error, "load of {}: {}", buffer ? buffer->name : "?", t.error);
  return Expr(new Load(t.type, std::move(buffer), std::move(indices)));
}

Expr Ramp::make(Expr base, std::int64_t stride, int lanes) {
  TESSERA_CHECK(base, "ramp: missing base");
  const Typing t = ramp_typing(base.type(), lanes);
  TESSERA_CHECK(!t.error, "ramp of {} with {} lanes: {}", to_text(base.type()), lanes, t.error);
  if (lanes == 1) return base;
  return Expr(new Ramp(t.type, std::move(base), stride));
}

Expr Broadcast::make(Expr value, int total_lanes) {
  TESSERA_CHECK(value, "broadcast: missing value");
  const Typing t = broadcast_typing(value.type(), total_lanes);
  TESSERA_CHECK(!t.error, "broadcast of {} to {} lanes: {}", to_text(value.type()), total_lanes,
                t.error);
  if (total_lanes == value.lanes()) return value;
  return Expr(new Broadcast(t.type, std::move(value)));
}

Expr Shuffle::make(Expr value, std::vector<int> lanes) {
  TESSERA_CHECK(value, "shuffle: missing value");
  const Typing t = shuffle_typing(value.type(), lanes);
  TESSERA_CHECK(!t.error, "shuffle of {}: {}", to_text(value.type()), t.error);
  return Expr(new Shuffle(t.type, std::move(value), std::move(lanes)));
}

}  // namespace tessera::ir
