// What parsers of token lists share: looking ahead, accepting, and saying where something is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/lang/ir/syntax.h"
#include "tessera/support/result.h"

namespace tessera::ir {

// "line 3, column 7: MESSAGE".
Error fail_at(const Token& token, const std::string& message);

// The number of the token as a constant of the type, which decides how it is read; its suffix does
// not matter.
Result<Expr> constant_of(const Token& number, DType t, bool negative);

class TokenCursor {
 public:
  // Ends with a kEnd token, as tokenize() gives it.
  explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const;  // beyond the end: the kEnd token
  const Token& next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  std::size_t position() const { return at_; }  // tokens taken so far

  bool is(std::string_view text) const;
  bool accept(std::string_view text) { return is(text) && (next(), true); }
  Result<void> expect(std::string_view text);
  Result<std::string> any_name();
  Result<DType> dtype();
  // With a sign where there is one.
  Result<std::int64_t> integer(std::int64_t min, std::int64_t max);

  // At the next token: "MESSAGE, found 'x'".
  Error fail(const std::string& message) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace tessera::ir
