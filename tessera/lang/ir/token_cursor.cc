#include "tessera/lang/ir/token_cursor.h"

#include <algorithm>
#include <charconv>

namespace tessera::ir {

Error fail_at(const Token& token, const std::string& message) {
  return make_error(ErrorCode::kInvalidArgument, "line {}, column {}: {}", token.line, token.column,
                    message);
}

Result<Expr> constant_of(const Token& number, DType t, bool negative) {
  const char* begin = number.text.data();
  const char* end = begin + number.text.size();
  if (!is_float(t)) {
    std::uint64_t magnitude = 0;
    const bool parsed = std::from_chars(begin, end, magnitude).ec == std::errc();
    const auto value = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
    const bool sign_kept = t == DType::kU64 ? !negative : magnitude == 0 || (value < 0) == negative;
    if (!parsed || !sign_kept || wrap_int(t, value) != value) {
      return fail_at(number, fmt::format("constant does not fit {}", tessera::to_text(t)));
    }
    return IntImm::make(t, value);
  }
  // Narrow types are read as f32: they were printed from it, and a second rounding could differ.
  double value = 0;
  float narrow = 0;
  const auto parsed =
      t == DType::kF64 ? std::from_chars(begin, end, value) : std::from_chars(begin, end, narrow);
  if (parsed.ec != std::errc() || parsed.ptr != end)
    return fail_at(number, "constant out of range");
  if (t != DType::kF64) value = narrow;
  return FloatImm::make(t, negative ? -value : value);
}

const Token& TokenCursor::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Error TokenCursor::fail(const std::string& message) const {
  const bool end = peek().kind == TokenKind::kEnd;
  return fail_at(peek(),
                 fmt::format("{}, found {}", message, end ? "the end" : "'" + peek().text + "'"));
}

bool TokenCursor::is(std::string_view text) const {
  return peek().kind != TokenKind::kString && peek().text == text;
}

Result<void> TokenCursor::expect(std::string_view text) {
  if (accept(text)) return {};
  return fail(fmt::format("expected '{}'", text));
}

Result<std::string> TokenCursor::any_name() {
  if (peek().kind != TokenKind::kName) return fail("expected a name");
  return next().text;
}

Result<DType> TokenCursor::dtype() {
  const auto t = dtype_from_text(peek().text);
  if (peek().kind != TokenKind::kName || !t) return fail("expected an element type");
  next();
  return *t;
}

Result<std::int64_t> TokenCursor::integer(std::int64_t min, std::int64_t max) {
  const Token token = peek();
  const bool negative = accept("-");
  const Token& digits = peek();
  std::uint64_t magnitude = 0;
  const char* end = digits.text.data() + digits.text.size();
  if (digits.kind != TokenKind::kNumber || !digits.suffix.empty()) {
    return fail("expected an integer");
  }
  const auto parsed = std::from_chars(digits.text.data(), end, magnitude);
  if (parsed.ptr != end) return fail("expected an integer");
  const auto value = static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude);
  const bool fits = parsed.ec == std::errc() && (negative ? value <= 0 : value >= 0) &&
                    value >= min && value <= max;
  if (!fits) return fail_at(token, "integer out of range");
  next();
  return value;
}

}  // namespace tessera::ir
