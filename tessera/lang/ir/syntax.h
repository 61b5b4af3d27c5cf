// The surface of the text form, shared by printer and parser: tokens, operator precedence, reserved
// words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/lang/ir/stmt.h"
#include "tessera/support/result.h"

namespace tessera::ir {

enum class TokenKind { kEnd, kName, kNumber, kString, kSymbol };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;    // of a number: without its type suffix; of a string: unescaped
  std::string suffix;  // type suffix of a number, e.g. "u8"
  int line = 1;
  int column = 1;
};

// Ends with a kEnd token. `#` starts a comment that runs to the end of the line.
Result<std::vector<Token>> tokenize(std::string_view text);

// Binding strength of an infix operator, higher binds tighter; 0 for min and max, which are
// functions.
int precedence(BinaryOp op);
constexpr int kComparisonPrecedence = 4;  // the only level where equals do not chain

// The infix operator with this spelling.
std::optional<BinaryOp> infix_from_text(std::string_view text);
std::optional<Intrinsic> intrinsic_from_text(std::string_view name);
std::optional<LoopKind> loop_kind_from_text(std::string_view name);
std::optional<Scope> scope_from_text(std::string_view name);  // never kParam, which has no word
const char* to_text(Scope scope);                             // "" for kParam

bool is_name_start(char c);
bool is_name_char(char c);
// Words that cannot name a variable or a buffer.
bool is_reserved(std::string_view name);

}  // namespace tessera::ir
