#include <array>
#include <limits>
#include <optional>

#include "tessera/lang/ir/syntax.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/token_cursor.h"
#include "tessera/lang/ir/typing.h"
#include "tessera/support/host_tensor.h"

namespace tessera::ir {
namespace {

// Bounds on nesting and size keep recursion over the tree, here and in every pass, within the
// stack.
constexpr int kMaxNesting = 500;
constexpr std::size_t kMaxExprTokens = 20000;
constexpr std::int64_t kMaxLanes = 4096;
// Of one dimension of a grid, as devices have it.
constexpr std::int64_t kMaxExtent = std::numeric_limits<std::int32_t>::max();

class Parser : private TokenCursor {
 public:
  using TokenCursor::TokenCursor;

  Result<Func> func() {
    Func f;
    TESSERA_DO(expect("func"));
    TESSERA_DO(signature(&f));
    TESSERA_TRY(f.body, body());
    if (peek().kind != TokenKind::kEnd) return fail("expected the end");
    return f;
  }

  Result<DeviceProgram> device() {
    DeviceProgram p;
    TESSERA_DO(expect("device"));
    TESSERA_DO(signature(&p));
    TESSERA_DO(expect("{"));
    while (accept("temp")) {
      TESSERA_TRY(Buffer b, declaration(Scope::kHeap));
      p.temporaries.push_back(std::move(b));
    }
    while (!accept("}")) {
      TESSERA_TRY(Launch l, launch());
      p.launches.push_back(std::move(l));
    }
    if (peek().kind != TokenKind::kEnd) return fail("expected the end");
    return p;
  }

 private:
  Result<std::string> title() {
    if (peek().kind != TokenKind::kName && peek().kind != TokenKind::kString)
      return fail("expected the function's name");
    return next().text;
  }

  // name(inputs) -> (outputs)
  template <class Unit>
  Result<void> signature(Unit* unit) {
    TESSERA_TRY(unit->name, title());
    TESSERA_DO(params(&unit->params));
    TESSERA_DO(expect("->"));
    const std::size_t inputs = unit->params.size();
    TESSERA_DO(params(&unit->params));
    unit->num_outputs = static_cast<int>(unit->params.size() - inputs);
    return {};
  }

  Result<Launch> launch() {
    Launch l;
    TESSERA_DO(expect("launch"));
    TESSERA_TRY(l.name, title());
    TESSERA_DO(names(&l.params));
    TESSERA_DO(expect("->"));
    const std::size_t inputs = l.params.size();
    TESSERA_DO(names(&l.params));
    l.num_outputs = static_cast<int>(l.params.size() - inputs);
    TESSERA_DO(expect("{"));
    const std::size_t outer_vars = vars_.size();
    const std::size_t outer_buffers = buffers_.size();
    TESSERA_DO(extents("grid", &l.block_vars, &l.grid));
    TESSERA_DO(extents("block", &l.thread_vars, &l.block));
    if (accept(",")) {
      TESSERA_DO(expect("warp"));
      TESSERA_DO(expect("in"));
      TESSERA_TRY(l.warp, integer(1, kMaxExtent));
    }
    while (accept("shared")) {
      TESSERA_TRY(Buffer b, declaration(Scope::kShared));
      l.shared.push_back(std::move(b));
    }
    TESSERA_TRY(l.body, statements());
    vars_.resize(outer_vars);
    buffers_.resize(outer_buffers);
    return l;
  }

  // Buffers in scope.
  Result<void> names(std::vector<Buffer>* out) {
    TESSERA_DO(expect("("));
    while (!accept(")")) {
      TESSERA_TRY(Buffer b, buffer());
      out->push_back(std::move(b));
      if (!is(")")) TESSERA_DO(expect(","));
    }
    return {};
  }

  Result<void> extents(const char* word, std::array<Expr, 3>* vars,
                       std::array<std::int64_t, 3>* extent) {
    TESSERA_DO(expect(word));
    for (std::size_t d = 0; d < 3; ++d) {
      if (d > 0) TESSERA_DO(expect(","));
      TESSERA_TRY(std::string name, new_name());
      TESSERA_DO(expect("in"));
      TESSERA_TRY((*extent)[d], integer(1, kMaxExtent));
      (*vars)[d] = Var::make(name);
      vars_.emplace_back(std::move(name), (*vars)[d]);
    }
    return {};
  }

  Result<std::string> new_name() {
    const bool reserved = peek().kind == TokenKind::kName && is_reserved(peek().text);
    return reserved ? fail("expected a name that is not reserved") : any_name();
  }

  Result<void> params(std::vector<Buffer>* out) {
    TESSERA_DO(expect("("));
    while (!accept(")")) {
      TESSERA_TRY(Buffer b, declaration());
      out->push_back(b);
      if (!is(")")) TESSERA_DO(expect(","));
    }
    return {};
  }

  // Adds the buffer to the scope. Without `fixed`, its memory may be named after the shape.
  Result<Buffer> declaration(std::optional<Scope> fixed = std::nullopt) {
    const Token at = peek();
    TESSERA_TRY(std::string name, new_name());
    TESSERA_DO(expect(":"));
    TESSERA_TRY(const DType t, dtype());
    TESSERA_DO(expect("["));
    Shape shape;
    while (!accept("]")) {
      TESSERA_TRY(const std::int64_t d, integer(0, std::numeric_limits<std::int64_t>::max()));
      shape.push_back(d);
      if (!is("]")) TESSERA_DO(expect(","));
    }
    if (const auto n = checked_elements(shape, t); !n.ok()) return fail_at(at, n.error().message);
    Scope scope = fixed.value_or(Scope::kParam);
    if (const auto word = scope_from_text(peek().text); word && !fixed) {
      scope = *word;
      next();
    }
    Buffer b = Buffer::make(name, t, std::move(shape), scope);
    buffers_.emplace_back(std::move(name), b);
    return b;
  }

  Result<Stmt> body() {
    TESSERA_DO(expect("{"));
    return statements();
  }

  // Up to the closing brace.
  Result<Stmt> statements() {
    if (++nesting_ > kMaxNesting) return fail("nested too deeply");
    std::vector<Stmt> stmts;
    while (!accept("}")) {
      TESSERA_TRY(Stmt s, statement());
      stmts.push_back(std::move(s));
    }
    --nesting_;
    return Block::make(std::move(stmts));
  }

  Result<Stmt> statement() {
    if (peek().kind != TokenKind::kName) return fail("expected a statement");
    if (const auto kind = loop_kind_from_text(peek().text)) return loop(*kind);
    if (accept("if")) return branch();
    if (accept("alloc")) return allocation();
    if (accept("barrier")) return Barrier::make();
    if (accept("eval")) {
      TESSERA_TRY(Expr value, expression());
      return Evaluate::make(std::move(value));
    }
    return store();
  }

  Result<Stmt> loop(LoopKind kind) {
    next();
    TESSERA_TRY(std::string name, new_name());
    TESSERA_DO(expect("in"));
    const Token at = peek();
    TESSERA_TRY(Expr extent, expression());
    if (extent.type() != Type()) return fail_at(at, "the extent of a loop is a scalar i64");
    const Expr var = Var::make(name);
    vars_.emplace_back(std::move(name), var);
    TESSERA_TRY(Stmt inner, body());
    vars_.pop_back();
    return For::make(var, std::move(extent), kind, std::move(inner));
  }

  Result<Stmt> branch() {
    const Token at = peek();
    TESSERA_TRY(Expr cond, expression());
    if (cond.type() != Type{DType::kBool, 1})
      return fail_at(at, "the condition of an if is a scalar bool");
    TESSERA_TRY(Stmt then_body, body());
    Stmt else_body;
    if (accept("else")) {
      TESSERA_TRY(else_body, body());
    }
    return If::make(std::move(cond), std::move(then_body), std::move(else_body));
  }

  Result<Stmt> allocation() {
    const Token at = peek();
    TESSERA_TRY(Buffer b, declaration());
    if (b->scope == Scope::kParam)
      return fail_at(at, "an allocation names its scope: heap, stack or shared");
    TESSERA_TRY(Stmt inner, body());
    buffers_.pop_back();
    return Allocate::make(std::move(b), std::move(inner));
  }

  Result<Stmt> store() {
    const Token at = peek();
    TESSERA_TRY(Buffer b, buffer());
    TESSERA_TRY(std::vector<Expr> indices, index_list());
    const Typing place = access_typing(b, indices);
    if (place.error) return fail_at(at, fmt::format("store to {}: {}", at.text, place.error));
    TESSERA_DO(expect("="));
    TESSERA_TRY(Expr value, expression());
    if (value.type() != place.type) {
      return fail_at(at, fmt::format("store of {} to {} of {}", to_text(value.type()), at.text,
                                     to_text(place.type)));
    }
    return Store::make(std::move(b), std::move(indices), std::move(value));
  }

  Result<Buffer> buffer() {
    for (auto it = buffers_.rbegin(); it != buffers_.rend(); ++it) {
      if (it->first == peek().text) return next(), it->second;
    }
    return fail("expected the name of a buffer in scope");
  }

  Result<std::vector<Expr>> index_list() {
    TESSERA_DO(expect("["));
    return list("]");
  }

  // Expressions up to the closing symbol.
  Result<std::vector<Expr>> list(std::string_view close) {
    std::vector<Expr> items;
    while (!accept(close)) {
      TESSERA_TRY(Expr e, infix(1));
      items.push_back(std::move(e));
      if (!is(close)) TESSERA_DO(expect(","));
    }
    return items;
  }

  Result<Expr> expression() {
    expr_begin_ = position();
    return infix(1);
  }

  // Operators of at least this precedence, left-associative.
  Result<Expr> infix(int min_precedence) {
    if (++nesting_ > kMaxNesting || position() - expr_begin_ > kMaxExprTokens)
      return fail("expression too large");
    TESSERA_TRY(Expr left, primary());
    while (peek().kind == TokenKind::kSymbol) {
      const Token at = peek();
      const bool swapped = at.text == ">" || at.text == ">=";
      const auto op = infix_from_text(swapped ? (at.text == ">" ? "<" : "<=") : at.text);
      if (!op || precedence(*op) < min_precedence) break;
      next();
      TESSERA_TRY(Expr right, infix(precedence(*op) + 1));
      const Typing t = binary_typing(*op, left.type(), right.type());
      if (t.error) {
        return fail_at(at, fmt::format("{} {} {}: {}", to_text(left.type()), at.text,
                                       to_text(right.type()), t.error));
      }
      left = swapped ? Binary::make(*op, std::move(right), std::move(left))
                     : Binary::make(*op, std::move(left), std::move(right));
    }
    --nesting_;
    return left;
  }

  Result<Expr> primary() {
    if (accept("(")) {
      TESSERA_TRY(Expr e, infix(1));
      TESSERA_DO(expect(")"));
      return e;
    }
    if (is("-")) return next(), constant(true);
    if (peek().kind == TokenKind::kNumber) return constant(false);
    if (peek().kind != TokenKind::kName) return fail("expected an expression");
    for (auto it = vars_.rbegin(); it != vars_.rend(); ++it) {
      if (it->first == peek().text) return next(), it->second;
    }
    if (is_reserved(peek().text)) return word();
    const Token at = peek();
    TESSERA_TRY(Buffer b, buffer());
    TESSERA_TRY(std::vector<Expr> indices, index_list());
    if (const Typing t = access_typing(b, indices); t.error) {
      return fail_at(at, fmt::format("load of {}: {}", at.text, t.error));
    }
    return Load::make(std::move(b), std::move(indices));
  }

  Result<Expr> constant(bool negative) {
    if (peek().kind == TokenKind::kName) return special_float(negative);
    if (peek().kind != TokenKind::kNumber) return fail("expected a constant after '-'");
    const Token token = next();
    const bool fractional = token.text.find_first_of(".e") != std::string::npos;
    const auto named = dtype_from_text(token.suffix);
    if (!token.suffix.empty() && (!named || *named == DType::kBool))
      return fail_at(token, "unknown type suffix");
    const DType t = named.value_or(fractional ? DType::kF32 : DType::kI64);
    if (fractional && !is_float(t)) return fail_at(token, "integer constant with a fraction");
    return constant_of(token, t, negative);
  }

  // inf, nan, and f16.inf, f64.nan, ... for the other types.
  Result<Expr> special_float(bool negative) {
    const std::string& text = peek().text;
    const std::size_t dot = text.find('.');
    const auto t = dot == std::string::npos ? DType::kF32 : dtype_from_text(text.substr(0, dot));
    const std::string word = dot == std::string::npos ? text : text.substr(dot + 1);
    if (!t || !is_float(*t) || (word != "inf" && word != "nan"))
      return fail("expected an expression");
    next();
    const double value = word == "inf" ? std::numeric_limits<double>::infinity()
                                       : std::numeric_limits<double>::quiet_NaN();
    return FloatImm::make(*t, negative ? -value : value);
  }

  // An expression that starts with a reserved word.
  Result<Expr> word() {
    if (accept("true")) return IntImm::make(DType::kBool, 1);
    if (accept("false")) return IntImm::make(DType::kBool, 0);
    const Token at = peek();
    if (is("cast") || is("bitcast")) return conversion(next().text == "bitcast");
    const auto fn = intrinsic_from_text(at.text);
    const bool known = fn || is("min") || is("max") || is("select") || is("ramp") ||
                       is("broadcast") || is("shuffle");
    if (!known) return special_float(false);
    next();
    TESSERA_DO(expect("("));
    if (at.text == "ramp" || at.text == "broadcast" || at.text == "shuffle") return vector_form(at);
    TESSERA_TRY(std::vector<Expr> args, list(")"));
    if (fn) {
      const Typing t = call_typing(*fn, args);
      if (t.error) return fail_at(at, fmt::format("{}: {}", at.text, t.error));
      return Call::make(*fn, std::move(args));
    }
    return at.text == "select" ? make_select(at, std::move(args))
                               : make_min_max(at, std::move(args));
  }

  Result<Expr> make_select(const Token& at, std::vector<Expr> args) {
    if (args.size() != 3) return fail_at(at, "select: wrong number of arguments");
    const Typing t = select_typing(args[0].type(), args[1].type(), args[2].type());
    if (t.error) return fail_at(at, t.error);
    return Select::make(args[0], args[1], args[2]);
  }

  Result<Expr> make_min_max(const Token& at, std::vector<Expr> args) {
    const BinaryOp op = at.text == "min" ? BinaryOp::kMin : BinaryOp::kMax;
    if (args.size() != 2) return fail_at(at, fmt::format("{}: wrong number of arguments", at.text));
    const Typing t = binary_typing(op, args[0].type(), args[1].type());
    if (t.error) return fail_at(at, fmt::format("{}: {}", at.text, t.error));
    return Binary::make(op, args[0], args[1]);
  }

  Result<Expr> conversion(bool bits) {
    const Token at = peek();
    TESSERA_DO(expect("<"));
    TESSERA_TRY(const DType to, dtype());
    TESSERA_DO(expect(">"));
    TESSERA_DO(expect("("));
    TESSERA_TRY(Expr value, infix(1));
    TESSERA_DO(expect(")"));
    if (!bits) return Cast::make(to, std::move(value));
    if (const Typing t = bitcast_typing(to, value.type()); t.error) return fail_at(at, t.error);
    return Call::make_bitcast(to, std::move(value));
  }

  // ramp(base, stride, lanes), broadcast(value, lanes), shuffle(value, [lanes]); after the
  // parenthesis.
  Result<Expr> vector_form(const Token& at) {
    TESSERA_TRY(Expr value, infix(1));
    TESSERA_DO(expect(","));
    if (at.text == "shuffle") return shuffle(at, std::move(value));
    std::int64_t stride = 0;
    if (at.text == "ramp") {
      constexpr auto kLimits = std::numeric_limits<std::int64_t>();
      TESSERA_TRY(stride, integer(kLimits.min(), kLimits.max()));
      TESSERA_DO(expect(","));
    }
    TESSERA_TRY(const std::int64_t n, integer(2, kMaxLanes));
    TESSERA_DO(expect(")"));
    const int lanes = static_cast<int>(n);
    const Typing t = at.text == "ramp" ? ramp_typing(value.type(), lanes)
                                       : broadcast_typing(value.type(), lanes);
    if (t.error) return fail_at(at, t.error);
    return at.text == "ramp" ? Ramp::make(std::move(value), stride, lanes)
                             : Broadcast::make(std::move(value), lanes);
  }

  Result<Expr> shuffle(const Token& at, Expr value) {
    TESSERA_DO(expect("["));
    std::vector<int> picks;
    while (!accept("]")) {
      TESSERA_TRY(const std::int64_t pick, integer(0, kMaxLanes - 1));
      picks.push_back(static_cast<int>(pick));
      if (!is("]")) TESSERA_DO(expect(","));
    }
    TESSERA_DO(expect(")"));
    if (picks.size() > kMaxLanes) return fail_at(at, "too many lanes");
    if (const Typing t = shuffle_typing(value.type(), picks); t.error) return fail_at(at, t.error);
    return Shuffle::make(std::move(value), std::move(picks));
  }

  std::size_t expr_begin_ = 0;
  int nesting_ = 0;
  std::vector<std::pair<std::string, Expr>> vars_;
  std::vector<std::pair<std::string, Buffer>> buffers_;
};

}  // namespace

Result<Func> parse_func(std::string_view text) {
  TESSERA_TRY(std::vector<Token> tokens, tokenize(text));
  return Parser(std::move(tokens)).func();
}

Result<DeviceProgram> parse_device_program(std::string_view text) {
  TESSERA_TRY(std::vector<Token> tokens, tokenize(text));
  return Parser(std::move(tokens)).device();
}

}  // namespace tessera::ir
