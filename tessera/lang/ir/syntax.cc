#include "tessera/lang/ir/syntax.h"

#include <algorithm>
#include <array>

#include "tessera/lang/ir/typing.h"

namespace tessera::ir {
namespace {

constexpr std::array kWords = {"func", "in",        "if",   "else",    "alloc",  "eval",
                               "true", "false",     "inf",  "nan",     "min",    "max",
                               "cast", "broadcast", "ramp", "shuffle", "select", "barrier"};

// Longer spellings first: the lexer takes the first that matches.
constexpr std::array kSymbols = {"->", "//", "%%", "<<", ">>", "==", "!=", "<=", ">=", "(",
                                 ")",  "[",  "]",  "{",  "}",  "<",  ">",  ",",  ":",  "=",
                                 "+",  "-",  "*",  "/",  "%",  "&",  "|",  "^"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> tokens;
    for (;;) {
      skip_space();
      Token token;
      token.line = line_;
      token.column = column();
      if (at_ == text_.size()) return tokens.push_back(token), tokens;
      TESSERA_DO(read(&token));
      tokens.push_back(std::move(token));
    }
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  int column() const { return static_cast<int>(at_ - line_start_) + 1; }

  void skip_space() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_ == text_.size()) return;
      if (text_[at_] == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      } else if (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r') {
        return;
      }
    }
  }

  Result<void> read(Token* token) {
    if (is_name_start(peek())) {
      token->kind = TokenKind::kName;
      token->text = take_while(is_name_char);
      return {};
    }
    if (is_digit(peek())) return read_number(token);
    if (peek() == '"') return read_string(token);
    for (const std::string_view symbol : kSymbols) {
      if (text_.substr(at_, symbol.size()) != symbol) continue;
      token->kind = TokenKind::kSymbol;
      token->text = symbol;
      at_ += symbol.size();
      return {};
    }
    return make_error(ErrorCode::kInvalidArgument, "line {}, column {}: unexpected character '{}'",
                      line_, column(), peek());
  }

  Result<void> read_number(Token* token) {
    token->kind = TokenKind::kNumber;
    token->text = take_while(is_digit);
    if (peek() == '.') {
      ++at_;
      token->text += '.' + take_while(is_digit);
    }
    const std::size_t sign = peek(1) == '-' || peek(1) == '+' ? 1 : 0;
    if (peek() == 'e' && is_digit(peek(1 + sign))) {
      token->text += text_.substr(at_, 1 + sign);
      at_ += 1 + sign;
      token->text += take_while(is_digit);
    }
    if (is_name_start(peek())) token->suffix = take_while(is_name_char);
    return {};
  }

  Result<void> read_string(Token* token) {
    token->kind = TokenKind::kString;
    for (++at_; peek() != '"'; ++at_) {
      if (peek() == '\\') ++at_;
      if (at_ >= text_.size()) {
        return make_error(ErrorCode::kInvalidArgument, "line {}, column {}: string does not end",
                          token->line, token->column);
      }
      if (peek() == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
      token->text += peek();
    }
    ++at_;
    return {};
  }

  template <class P>
  std::string take_while(P&& accepts) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && accepts(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view text) { return Lexer(text).run(); }

int precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return 0;
    case BinaryOp::kOr:
      return 1;
    case BinaryOp::kXor:
      return 2;
    case BinaryOp::kAnd:
      return 3;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
      return kComparisonPrecedence;
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return 5;
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
      return 6;
    default:
      return 7;
  }
}

std::optional<BinaryOp> infix_from_text(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(BinaryOp::kLe); ++i) {
    const auto op = static_cast<BinaryOp>(i);
    if (text == to_text(op) && precedence(op) > 0) return op;
  }
  return std::nullopt;
}

std::optional<Intrinsic> intrinsic_from_text(std::string_view name) {
  for (int i = 0; i < intrinsic_count(); ++i) {
    if (name == to_text(static_cast<Intrinsic>(i))) return static_cast<Intrinsic>(i);
  }
  return std::nullopt;
}

std::optional<LoopKind> loop_kind_from_text(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(LoopKind::kVThread); ++i) {
    if (name == to_text(static_cast<LoopKind>(i))) return static_cast<LoopKind>(i);
  }
  return std::nullopt;
}

std::optional<Scope> scope_from_text(std::string_view name) {
  for (const Scope scope : {Scope::kHeap, Scope::kStack, Scope::kShared}) {
    if (name == to_text(scope)) return scope;
  }
  return std::nullopt;
}

const char* to_text(Scope scope) {
  switch (scope) {
    case Scope::kParam:
      return "";
    case Scope::kHeap:
      return "heap";
    case Scope::kStack:
      return "stack";
    case Scope::kShared:
      return "shared";
  }
  return "";
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

bool is_reserved(std::string_view name) {
  if (std::find(kWords.begin(), kWords.end(), name) != kWords.end()) return true;
  const std::size_t dot = std::min(name.find('.'), name.size());
  const std::string_view rest = name.substr(dot);  // "f16.inf"
  if (dtype_from_text(name.substr(0, dot)) && (rest.empty() || rest == ".inf" || rest == ".nan"))
    return true;
  return intrinsic_from_text(name) || loop_kind_from_text(name) || scope_from_text(name);
}

}  // namespace tessera::ir
