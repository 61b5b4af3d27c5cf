#include <algorithm>
#include <limits>
#include <map>

#include "tessera/lang/ir/syntax.h"
#include "tessera/lang/ir/token_cursor.h"
#include "tessera/lang/ir/typing.h"
#include "tessera/lang/te/dag.h"
#include "tessera/lang/te/syntax.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {
namespace {

using ir::Expr;
using ir::Token;
using ir::TokenKind;

// Bounds on depth and size keep recursion over the tree within the stack.
constexpr int kMaxNesting = 300;
constexpr int kMaxDepth = 1000;
constexpr std::size_t kMaxExprTokens = 20000;

// An expression before its types are known: constants take theirs from what they meet.
struct Node {
  enum class Kind : std::uint8_t { kNumber, kName, kCall, kLoad, kBinary };
  Kind kind = Kind::kNumber;
  Token token;            // the number, the name or the operator
  bool negative = false;  // of a constant
  int depth = 1;
  ir::BinaryOp op = ir::BinaryOp::kAdd;
  std::vector<Node> args;
};

bool is_constant_word(const std::string& name) {
  return name == "true" || name == "false" || name == "inf" || name == "nan";
}

// Gives the nodes of one operation their types.
class Typer {
 public:
  Typer(const std::map<std::string, Expr>& vars, const std::map<std::string, ir::Buffer>& buffers)
      : vars_(vars), buffers_(buffers) {}

  Result<Expr> build(const Node& n, std::optional<DType> want) const {
    switch (n.kind) {
      case Node::Kind::kNumber:
        return number(n, want);
      case Node::Kind::kName:
        return name(n, want);
      case Node::Kind::kCall:
        return call(n, want);
      case Node::Kind::kLoad:
        return load(n);
      case Node::Kind::kBinary:
        return binary(n, n.op, want);
    }
    return fail_at(n.token, "expected an expression");
  }

 private:
  // bitcast_u32; older text has no type.
  static std::optional<DType> bitcast_to(std::string_view fn) {
    constexpr std::string_view kPrefix = "bitcast_";
    if (!fn.starts_with(kPrefix)) return std::nullopt;
    return dtype_from_text(fn.substr(kPrefix.size()));
  }

  // What the expression has whatever it meets.
  std::optional<DType> type_of(const Node& n) const {
    switch (n.kind) {
      case Node::Kind::kNumber:
        return std::nullopt;
      case Node::Kind::kName:
        if (vars_.contains(n.token.text)) return DType::kI64;
        if (n.token.text == "true" || n.token.text == "false") return DType::kBool;
        return std::nullopt;
      case Node::Kind::kLoad: {
        const auto at = buffers_.find(n.token.text);
        return at == buffers_.end() ? std::nullopt : std::optional(at->second->dtype);
      }
      case Node::Kind::kBinary:
        return ir::is_comparison(n.op) ? DType::kBool : first_type(n, 0);
      case Node::Kind::kCall:
        break;
    }
    if (const auto cast = dtype_from_text(n.token.text)) return cast;
    const auto fn = ir::intrinsic_from_text(n.token.text);
    if (fn == ir::Intrinsic::kIsNan || fn == ir::Intrinsic::kIsInf) return DType::kBool;
    if (const auto to = bitcast_to(n.token.text)) return to;
    if (fn == ir::Intrinsic::kBitcast) return std::nullopt;
    return first_type(n, n.token.text == "select" ? 1 : 0);
  }

  std::optional<DType> first_type(const Node& n, std::size_t from) const {
    for (std::size_t i = from; i < n.args.size(); ++i) {
      if (const auto t = type_of(n.args[i])) return t;
    }
    return std::nullopt;
  }

  Result<Expr> number(const Node& n, std::optional<DType> want) const {
    const bool fractional = n.token.text.find_first_of(".e") != std::string::npos;
    const DType t = want.value_or(fractional ? DType::kF32 : DType::kI64);
    if (!n.token.suffix.empty()) return fail_at(n.token, "number with a suffix");
    if (fractional != is_float(t) || t == DType::kBool) {
      return fail_at(n.token,
                     fmt::format("'{}' is not a constant of {}", n.token.text, to_text(t)));
    }
    return ir::constant_of(n.token, t, n.negative);
  }

  Result<Expr> name(const Node& n, std::optional<DType> want) const {
    const std::string& text = n.token.text;
    const auto var = vars_.find(text);
    if (var != vars_.end()) return var->second;
    if (text == "true" || text == "false") return ir::IntImm::make(DType::kBool, text == "true");
    if (!is_constant_word(text)) return fail_at(n.token, fmt::format("no axis '{}'", text));
    const DType t = want.value_or(DType::kF32);
    if (!is_float(t))
      return fail_at(n.token, fmt::format("'{}' is not of type {}", text, to_text(t)));
    const double value = text == "inf" ? std::numeric_limits<double>::infinity()
                                       : std::numeric_limits<double>::quiet_NaN();
    return ir::FloatImm::make(t, n.negative ? -value : value);
  }

  Result<Expr> load(const Node& n) const {
    const auto at = buffers_.find(n.token.text);
    if (at == buffers_.end()) return fail_at(n.token, fmt::format("no buffer '{}'", n.token.text));
    std::vector<Expr> indices;
    for (const Node& a : n.args) {
      TESSERA_TRY(Expr index, build(a, DType::kI64));
      indices.push_back(std::move(index));
    }
    if (const ir::Typing t = ir::access_typing(at->second, indices); t.error != nullptr) {
      return fail_at(n.token, fmt::format("load of {}: {}", n.token.text, t.error));
    }
    return ir::Load::make(at->second, std::move(indices));
  }

  Result<Expr> binary(const Node& n, ir::BinaryOp op, std::optional<DType> want) const {
    if (n.args.size() != 2) return fail_at(n.token, "wrong number of arguments");
    std::optional<DType> of = first_type(n, 0);
    if (!of && !ir::is_comparison(op)) of = want;
    TESSERA_TRY(Expr a, build(n.args[0], of));
    TESSERA_TRY(Expr b, build(n.args[1], of));
    if (const ir::Typing t = ir::binary_typing(op, a.type(), b.type()); t.error != nullptr) {
      return fail_at(n.token, fmt::format("{} {} {}: {}", ir::to_text(a.type()), n.token.text,
                                          ir::to_text(b.type()), t.error));
    }
    return ir::Binary::make(op, std::move(a), std::move(b));
  }

  Result<Expr> call(const Node& n, std::optional<DType> want) const {
    const std::string& fn = n.token.text;
    if (fn == "min") return binary(n, ir::BinaryOp::kMin, want);
    if (fn == "max") return binary(n, ir::BinaryOp::kMax, want);
    if (fn == "select") return select(n, want);
    if (const auto to = dtype_from_text(fn)) {
      if (n.args.size() != 1) return fail_at(n.token, "wrong number of arguments");
      TESSERA_TRY(Expr value, build(n.args[0], std::nullopt));
      return ir::Cast::make(*to, std::move(value));
    }
    if (const auto to = bitcast_to(fn)) {
      if (n.args.size() != 1) return fail_at(n.token, "wrong number of arguments");
      TESSERA_TRY(Expr value, build(n.args[0], std::nullopt));
      return bitcast(n, to, std::move(value));
    }
    const auto intrinsic = ir::intrinsic_from_text(fn);
    if (!intrinsic) return fail_at(n.token, fmt::format("no function '{}'", fn));
    if (n.args.size() != static_cast<std::size_t>(ir::arity(*intrinsic))) {
      return fail_at(n.token, "wrong number of arguments");
    }
    std::optional<DType> of = first_type(n, 0);
    if (!of && *intrinsic != ir::Intrinsic::kBitcast) of = want;
    std::vector<Expr> args;
    for (const Node& a : n.args) {
      TESSERA_TRY(Expr arg, build(a, of));
      args.push_back(std::move(arg));
    }
    if (*intrinsic == ir::Intrinsic::kBitcast) return bitcast(n, want, std::move(args[0]));
    if (const ir::Typing t = ir::call_typing(*intrinsic, args); t.error != nullptr) {
      return fail_at(n.token, fmt::format("{}: {}", fn, t.error));
    }
    return ir::Call::make(*intrinsic, std::move(args));
  }

  static Result<Expr> bitcast(const Node& n, std::optional<DType> want, Expr value) {
    if (!want) return fail_at(n.token, "bitcast to a type that is not known");
    if (const ir::Typing t = ir::bitcast_typing(*want, value.type()); t.error != nullptr) {
      return fail_at(n.token, t.error);
    }
    return ir::Call::make_bitcast(*want, std::move(value));
  }

  Result<Expr> select(const Node& n, std::optional<DType> want) const {
    if (n.args.size() != 3) return fail_at(n.token, "select: wrong number of arguments");
    const std::optional<DType> own = first_type(n, 1);
    const std::optional<DType> of = own ? own : want;
    TESSERA_TRY(Expr cond, build(n.args[0], DType::kBool));
    TESSERA_TRY(Expr a, build(n.args[1], of));
    TESSERA_TRY(Expr b, build(n.args[2], of));
    const ir::Typing t = ir::select_typing(cond.type(), a.type(), b.type());
    if (t.error != nullptr) return fail_at(n.token, t.error);
    return ir::Select::make(std::move(cond), std::move(a), std::move(b));
  }

  const std::map<std::string, Expr>& vars_;
  const std::map<std::string, ir::Buffer>& buffers_;
};

class Parser : private ir::TokenCursor {
 public:
  using TokenCursor::TokenCursor;

  Result<void> run(Dag* dag) {
    while (is("input") || is("constant")) {
      const bool constant = next().text == "constant";
      TESSERA_TRY(ir::Buffer buffer, declaration());
      dag->inputs.push_back({buffer, constant});
      buffers_[buffer->name] = buffer;
    }
    while (accept("stage")) {
      TESSERA_TRY(Op op, stage());
      for (const ir::Buffer& out : op.outputs) buffers_[out->name] = out;
      dag->ops.push_back(std::move(op));
    }
    TESSERA_DO(expect("output"));
    do {
      const Token at = peek();
      TESSERA_TRY(const std::string name, any_name());
      const auto buffer = buffers_.find(name);
      if (buffer == buffers_.end()) return fail_at(at, fmt::format("no buffer '{}'", name));
      dag->outputs.push_back(buffer->second);
    } while (accept(","));
    if (peek().kind != TokenKind::kEnd) return fail("expected the end");
    return {};
  }

 private:
  Result<std::int64_t> extent() {
    if (is("-")) return fail("expected an extent");
    return integer(0, std::numeric_limits<std::int64_t>::max());
  }

  Result<ir::Buffer> declaration() {
    const Token at = peek();
    TESSERA_TRY(std::string name, any_name());
    if (buffers_.contains(name)) return fail_at(at, fmt::format("two buffers '{}'", name));
    TESSERA_DO(expect(":"));
    TESSERA_TRY(const DType t, dtype());
    TESSERA_DO(expect("["));
    Shape shape;
    while (!accept("]")) {
      TESSERA_TRY(const std::int64_t d, extent());
      shape.push_back(d);
      if (!is("]")) TESSERA_DO(expect(","));
    }
    if (const auto n = checked_elements(shape, t); !n) return fail_at(at, n.error().message);
    return ir::Buffer::make(std::move(name), t, std::move(shape));
  }

  Result<Op> stage() {
    Op op;
    do {
      TESSERA_TRY(ir::Buffer out, declaration());
      op.outputs.push_back(std::move(out));
    } while (accept(","));
    op.name = op.outputs[0]->name;
    std::map<std::string, Expr> vars;
    TESSERA_DO(left_side(&op, &vars));
    TESSERA_DO(reducer(&op, &vars));
    const Typer typer(vars, buffers_);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (i > 0) TESSERA_DO(expect(","));
      expr_begin_ = position();
      TESSERA_TRY(const Node node, infix(1));
      TESSERA_TRY(Expr value, typer.build(node, op.outputs[i]->dtype));
      op.values.push_back(std::move(value));
    }
    return op;
  }

  // a[i, j], b[i, j] = ...
  Result<void> left_side(Op* op, std::map<std::string, Expr>* vars) {
    for (std::size_t i = 0; i < op->outputs.size(); ++i) {
      if (i > 0) TESSERA_DO(expect(","));
      TESSERA_DO(expect(op->outputs[i]->name));
      TESSERA_DO(expect("["));
      const std::vector<std::int64_t>& shape = op->outputs[i]->shape;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        if (d > 0) TESSERA_DO(expect(","));
        if (i > 0) {
          TESSERA_DO(expect(d < op->axes.size() ? op->axes[d].var.as<ir::Var>()->name : "]"));
        } else {
          TESSERA_DO(add_axis(shape[d], &op->axes, vars));
        }
      }
      TESSERA_DO(expect("]"));
    }
    return expect("=");
  }

  Result<void> add_axis(std::int64_t length, std::vector<Axis>* axes,
                        std::map<std::string, Expr>* vars) {
    const Token at = peek();
    TESSERA_TRY(const std::string name, any_name());
    const Expr var = ir::Var::make(name);
    if (!vars->emplace(name, var).second) return fail_at(at, fmt::format("two axes '{}'", name));
    axes->push_back({var, length});
    return {};
  }

  // "sum(k in 64) "; min and max are functions too, of other arguments.
  Result<void> reducer(Op* op, std::map<std::string, Expr>* vars) {
    const bool ranges = peek(1).text == "(" && (peek(2).text == ")" || peek(3).text == "in");
    if (peek().kind != TokenKind::kName || !ranges) return {};
    for (int i = 1; i <= static_cast<int>(Reducer::kArgMin); ++i) {
      if (is(to_text(static_cast<Reducer>(i)))) op->reducer = static_cast<Reducer>(i);
    }
    if (op->reducer == Reducer::kNone) return {};
    next();
    TESSERA_DO(expect("("));
    while (!accept(")")) {
      TESSERA_DO(add_axis(0, &op->reduce_axes, vars));
      TESSERA_DO(expect("in"));
      TESSERA_TRY(op->reduce_axes.back().extent, extent());
      if (!is(")")) TESSERA_DO(expect(","));
    }
    return {};
  }

  Result<Node> infix(int least) {
    if (++nesting_ > kMaxNesting || position() - expr_begin_ > kMaxExprTokens) {
      return fail("expression too large");
    }
    TESSERA_TRY(Node left, primary());
    while (peek().kind == TokenKind::kSymbol) {
      const auto op = ir::infix_from_text(peek().text);
      if (!op || strength(*op) < least) break;
      Node joined;
      joined.kind = Node::Kind::kBinary;
      joined.token = next();
      joined.op = *op;
      TESSERA_TRY(Node right, infix(strength(*op) + 1));
      // A chain grows to the left without nesting calls here, but whoever walks it recurses.
      joined.depth = 1 + std::max(left.depth, right.depth);
      if (joined.depth > kMaxDepth) return fail("expression too large");
      joined.args.push_back(std::move(left));
      joined.args.push_back(std::move(right));
      left = std::move(joined);
    }
    --nesting_;
    return left;
  }

  Result<Node> primary() {
    if (accept("(")) {
      TESSERA_TRY(Node e, infix(1));
      TESSERA_DO(expect(")"));
      return e;
    }
    Node n;
    n.negative = accept("-");
    n.token = peek();
    if (n.token.kind == TokenKind::kNumber) return next(), n;
    if (n.token.kind != TokenKind::kName) return fail("expected an expression");
    next();
    if (n.negative && n.token.text != "inf" && n.token.text != "nan") {
      return fail_at(n.token, "expected a constant after '-'");
    }
    const bool call = is("("), load = is("[");
    n.kind = call ? Node::Kind::kCall : load ? Node::Kind::kLoad : Node::Kind::kName;
    if (!call && !load) return n;
    next();
    const char* end = call ? ")" : "]";
    while (!accept(end)) {
      TESSERA_TRY(Node arg, infix(1));
      n.depth = std::max(n.depth, 1 + arg.depth);
      if (n.depth > kMaxDepth) return fail("expression too large");
      n.args.push_back(std::move(arg));
      if (!is(end)) TESSERA_DO(expect(","));
    }
    return n;
  }

  std::size_t expr_begin_ = 0;
  int nesting_ = 0;
  std::map<std::string, ir::Buffer> buffers_;
};

}  // namespace

Result<Dag> dag_from_text(std::string_view text) {
  constexpr std::string_view kStart = "dag ";
  const std::size_t line_end = text.find('\n');
  if (!text.starts_with(kStart) || line_end == std::string_view::npos) {
    return make_error(ErrorCode::kInvalidArgument, "line 1: expected 'dag NAME'");
  }
  Dag dag;
  dag.name = std::string(text.substr(kStart.size(), line_end - kStart.size()));
  // With its line break, so that lines count from the first.
  TESSERA_TRY(std::vector<Token> tokens, ir::tokenize(text.substr(line_end)));
  TESSERA_DO(Parser(std::move(tokens)).run(&dag));
  TESSERA_DO(verify(dag));
  return dag;
}

}  // namespace tessera::te
