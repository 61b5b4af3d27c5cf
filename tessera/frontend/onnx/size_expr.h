// Sizes as expressions of a model's symbolic dimensions, and equations that determine them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tessera::onnx {

using Symbols = std::map<std::string, std::int64_t>;

struct SizeNode;
using Size = std::shared_ptr<const SizeNode>;  // null: nothing is known

enum class SizeOp : std::uint8_t { kNumber, kSymbol, kAdd, kSubtract, kMultiply, kDivide };

struct SizeNode {
  SizeOp op = SizeOp::kNumber;
  std::int64_t number = 0;
  std::string symbol;
  Size a, b;
  std::int64_t nodes = 1;  // of the tree
};

Size size_of(std::int64_t number);
Size size_of(const std::string& symbol);
// Null when an operand is null, when numbers overflow or divide by zero, and where the expression
// would grow beyond any use; quotients round down.
Size combine(SizeOp op, const Size& a, const Size& b);
std::optional<std::int64_t> number_in(const Size& size);  // when it is a plain number
// The same with numbers for the symbols in `known`.
Size substitute(const Size& size, const Symbols& known);
// "batch", "past_length + 1", "a + b": names and numbers with + between them.
Size parse_size_text(const std::string& text);
// The names in such a text.
std::vector<std::string> symbols_in(const Size& size);

struct Equation {
  Size left, right;
  // The sides are broadcast against each other: where one is 1 the other may be anything.
  bool broadcast = false;
};

// `known` and whatever follows from it: a symbol is determined when exactly one size fits all
// equations in which nothing else is unknown. Equations that contradict each other determine
// nothing.
Symbols solve(const std::vector<Equation>& equations, Symbols known);

}  // namespace tessera::onnx
