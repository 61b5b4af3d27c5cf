#include "tessera/frontend/onnx/size_expr.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

namespace tessera::onnx {
namespace {

// Sizes that are tried where an equation cannot be turned around.
constexpr std::int64_t kLargestTried = 16384;
constexpr std::int64_t kMostNodes = 4096;  // of one expression

std::optional<std::int64_t> compute(SizeOp op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case SizeOp::kAdd:
      if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
      return out;
    case SizeOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) return std::nullopt;
      return out;
    case SizeOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
      return out;
    case SizeOp::kDivide:
      if (b <= 0 || a == INT64_MIN) return std::nullopt;
      return a >= 0 ? a / b : -((-a + b - 1) / b);
    default:
      return std::nullopt;
  }
}

Size make(SizeNode node) { return std::make_shared<const SizeNode>(std::move(node)); }

void collect(const Size& size, std::set<std::string>& out) {
  if (!size) return;
  if (size->op == SizeOp::kSymbol) out.insert(size->symbol);
  collect(size->a, out);
  collect(size->b, out);
}

// The value where every symbol, of which there is one, is `v`.
std::optional<std::int64_t> value_at(const SizeNode& node, std::int64_t v) {
  if (node.op == SizeOp::kNumber) return node.number;
  if (node.op == SizeOp::kSymbol) return v;
  const auto a = value_at(*node.a, v), b = value_at(*node.b, v);
  return a && b ? compute(node.op, *a, *b) : std::nullopt;
}

bool holds(const Equation& e, std::int64_t v) {
  const auto left = value_at(*e.left, v), right = value_at(*e.right, v);
  return left && right && *left == *right;
}

// Of one symbol: the size that `equations` leave, if it is the only one.
std::optional<std::int64_t> only_solution(const std::vector<Equation>& equations) {
  std::vector<std::int64_t> tried;
  for (const Equation& e : equations) {
    const auto left = number_in(e.left), right = number_in(e.right);
    if (left && e.right->op == SizeOp::kSymbol) tried = {*left};
    if (right && e.left->op == SizeOp::kSymbol) tried = {*right};
  }
  std::optional<std::int64_t> found;
  const std::int64_t first = tried.empty() ? 1 : tried[0];
  const std::int64_t last = tried.empty() ? kLargestTried : tried[0];
  for (std::int64_t v = first; v <= last; ++v) {
    if (!std::all_of(equations.begin(), equations.end(),
                     [&](const Equation& e) { return holds(e, v); })) {
      continue;
    }
    if (found) return std::nullopt;
    found = v;
  }
  return found;
}

// Whether the equation can tell anything about a size.
bool tells(const Equation& e) {
  if (!e.left || !e.right) return false;
  if (!e.broadcast) return true;
  return number_in(e.left) != 1 && number_in(e.right) != 1;
}

}  // namespace

Size size_of(std::int64_t number) { return make({.op = SizeOp::kNumber, .number = number}); }

Size size_of(const std::string& symbol) { return make({.op = SizeOp::kSymbol, .symbol = symbol}); }

Size combine(SizeOp op, const Size& a, const Size& b) {
  if (!a || !b) return nullptr;
  const auto x = number_in(a), y = number_in(b);
  if (x && y) {
    const auto value = compute(op, *x, *y);
    return value ? size_of(*value) : nullptr;
  }
  const bool scales = op == SizeOp::kMultiply || op == SizeOp::kDivide;
  if (y && *y == (scales ? 1 : 0)) return a;
  if (x && ((op == SizeOp::kAdd && *x == 0) || (op == SizeOp::kMultiply && *x == 1))) return b;
  const std::int64_t nodes = a->nodes + b->nodes + 1;
  if (nodes > kMostNodes) return nullptr;
  return make({.op = op, .a = a, .b = b, .nodes = nodes});
}

std::optional<std::int64_t> number_in(const Size& size) {
  if (!size || size->op != SizeOp::kNumber) return std::nullopt;
  return size->number;
}

Size substitute(const Size& size, const Symbols& known) {
  if (!size || size->op == SizeOp::kNumber) return size;
  if (size->op == SizeOp::kSymbol) {
    const auto found = known.find(size->symbol);
    return found == known.end() ? size : size_of(found->second);
  }
  const Size a = substitute(size->a, known), b = substitute(size->b, known);
  return a == size->a && b == size->b ? size : combine(size->op, a, b);
}

Size parse_size_text(const std::string& text) {
  Size sum;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    std::string term = text.substr(begin, end - begin);
    const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
    term.erase(term.begin(), std::find_if_not(term.begin(), term.end(), blank));
    term.erase(std::find_if_not(term.rbegin(), term.rend(), blank).base(), term.end());
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(term.data(), term.data() + term.size(), value);
    const bool is_number = error == std::errc() && rest == term.data() + term.size();
    if (term.empty()) return size_of(text);  // no sum of names: one odd name
    const Size part = is_number ? size_of(value) : size_of(term);
    sum = sum ? combine(SizeOp::kAdd, sum, part) : part;
    if (!sum) return size_of(text);
    begin = end + 1;
  }
  return sum;
}

std::vector<std::string> symbols_in(const Size& size) {
  std::set<std::string> names;
  collect(size, names);
  return {names.begin(), names.end()};
}

Symbols solve(const std::vector<Equation>& equations, Symbols known) {
  std::vector<Equation> open = equations;
  for (bool progress = true; progress;) {
    progress = false;
    std::map<std::string, std::vector<Equation>> by_symbol;
    std::vector<Equation> rest;
    for (const Equation& e : open) {
      const Equation now{substitute(e.left, known), substitute(e.right, known), e.broadcast};
      if (!tells(now)) continue;
      std::set<std::string> names;
      collect(now.left, names);
      collect(now.right, names);
      if (names.empty()) continue;
      rest.push_back(now);
      if (names.size() == 1) by_symbol[*names.begin()].push_back(now);
    }
    open = std::move(rest);
    for (const auto& [symbol, about] : by_symbol) {
      if (const auto size = only_solution(about); size && *size >= 0) {
        known[symbol] = *size;
        progress = true;
      }
    }
  }
  return known;
}

}  // namespace tessera::onnx
