#include <cmath>
#include <limits>
#include <string_view>

#include "tessera/frontend/graph/passes/simplify.h"
#include "tessera/support/float_format.h"
#include "tessera/support/planted.h"

namespace tessera::graph {

std::optional<double> splat_of(const HostTensor* constant) {
  if (!constant || constant->size() == 0) return std::nullopt;
  const bool floats = is_float(constant->dtype());
  const auto get = [&](std::int64_t i) {
    return floats ? constant->get_float(i) : static_cast<double>(constant->get_int(i));
  };
  const double first = get(0);
  if (std::isnan(first) || (!floats && std::abs(first) > 0x1p53)) return std::nullopt;
  for (std::int64_t i = 1; i < constant->size(); ++i) {
    if (get(i) != first) return std::nullopt;
  }
  return first;
}

namespace {

// How many bits of an integer a type holds exactly.
int exact_bits(DType t) {
  if (t == DType::kBool) return 1;
  if (is_float(t)) return float_format(t).integer_bits();
  return 8 * size_bytes(t) - (is_signed_int(t) ? 1 : 0);
}

// Every value of `from` converts to `to` and back unchanged.
bool holds(DType to, DType from) {
  if (to == from || from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  if (is_float(from)) return is_float(to) && float_format(to).holds(float_format(from));
  if (is_signed_int(from) && is_unsigned_int(to)) return false;
  return exact_bits(to) >= exact_bits(from);
}

bool same_type(const Editor& e, const Node& node, ValueId x) {
  return e.graph().type(x) == e.graph().type(node.outputs[0]);
}

// x for x + 0, x - 0, x * 1, x / 1 and the mirrored forms of + and *.
ValueId neutral_operand(const Editor& e, const Node& node) {
  const std::string_view op = node.op->name;
  const bool sum = op == "add" || op == "sub";
  if (!sum && op != "mul" && op != "div") return kNoValue;
  for (std::size_t side = 0; side < 2; ++side) {
    const ValueId x = node.inputs[side];
    if (side == 1 && op != "add" && op != "mul") continue;
    if (same_type(e, node, x) && splat_of(e.constant_of(node.inputs[1 - side])) == (sum ? 0. : 1.))
      return x;
  }
  return kNoValue;
}

Result<ValueId> simplify_pow(Editor& e, const Node& node) {
  const ValueId x = node.inputs[0];
  const std::optional<double> power = splat_of(e.constant_of(node.inputs[1]));
  if (!power || !same_type(e, node, x)) return kNoValue;
  if (*power == 1) return x;
  if (*power == 2) return e.add("mul", {x, x});
  if (*power == 3) {
    TESSERA_TRY(const ValueId square, e.add("mul", {x, x}));
    return e.add("mul", {square, x});
  }
  if (!is_float(e.dtype(x))) return kNoValue;
  if (*power == -1) return e.add("recip", {x});
  if (*power == 0.5) return e.add("sqrt", {x});  // differs at -inf only
  if (*power == -0.5) {
    TESSERA_TRY(const ValueId root, e.add("sqrt", {x}));
    return e.add("recip", {root});
  }
  return kNoValue;
}

// 1 / c when multiplying by it may stand for dividing by c: exactly for powers of two, otherwise
// with one rounding more. A reciprocal that is not a normal number never does.
std::optional<HostTensor> reciprocal(const HostTensor& c, bool may_round) {
  HostTensor out(c.dtype(), c.shape());
  for (std::int64_t i = 0; i < c.size(); ++i) {
    const double v = c.get_float(i);
    int exponent = 0;
    const bool exact = std::abs(std::frexp(v, &exponent)) == 0.5;
    if (!std::isfinite(v) || v == 0 || (!exact && !may_round)) return std::nullopt;
    out.set_float(i, 1 / v);
    const double r = std::abs(out.get_float(i));
    if (!std::isfinite(r) || r < float_format(c.dtype()).smallest_normal()) return std::nullopt;
  }
  return out;
}

Result<ValueId> simplify_div(Editor& e, const Node& node, const PassOptions& options) {
  const ValueId x = node.inputs[0], y = node.inputs[1];
  if (!is_float(e.dtype(x))) return kNoValue;
  if (splat_of(e.constant_of(x)) == 1. && same_type(e, node, y)) return e.add("recip", {y});
  const HostTensor* c = e.constant_of(y);
  if (!c || e.constant_of(x)) return kNoValue;
  std::optional<HostTensor> factor = reciprocal(*c, options.allow_reassociation);
  if (!factor) return kNoValue;
  return e.add("mul", {x, e.constant(std::move(*factor))});
}

// Arithmetic of f32 on one value and numbers, with each operation rounded.
class Chain {
 public:
  // What stands between `value` and the integer that it is made from; kNoValue: something else.
  ValueId begin(const Editor& e, ValueId value) {
    constexpr std::size_t kLongest = 8;
    for (;;) {
      const Node* node = e.producer(value);
      if (!node || steps_.size() == kLongest || e.dtype(value) != DType::kF32) return kNoValue;
      const std::string_view op = node->op->name;
      if (op == "cast") return node->inputs[0];
      if (op == "round") {
        steps_.push_back({'r', 0, false});
        value = node->inputs[0];
        continue;
      }
      const char sign = op == "add" ? '+' : op == "sub" ? '-' : op == "mul" ? '*' : '/';
      if (sign == '/' && op != "div") return kNoValue;
      const bool mirrored = e.constant_of(node->inputs[0]) != nullptr;
      const std::optional<double> number = splat_of(e.constant_of(node->inputs[mirrored ? 0 : 1]));
      if (!number) return kNoValue;
      steps_.push_back({sign, static_cast<float>(*number), mirrored});
      value = node->inputs[mirrored ? 1 : 0];
    }
  }

  float operator()(float v) const {
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) v = apply(*step, v);
    return v;
  }

 private:
  struct Step {
    char sign;
    float number;
    bool mirrored;  // the number stands on the left
  };
  static float apply(const Step& s, float v) {
    const float a = s.mirrored ? s.number : v, b = s.mirrored ? v : s.number;
    switch (s.sign) {
      case 'r':
        return std::nearbyint(v);
      case '+':
        return a + b;
      case '-':
        return a - b;
      case '*':
        return a * b;
      default:
        return a / b;
    }
  }
  std::vector<Step> steps_;  // the last one first
};

// Bytes that are scaled to numbers and back to bytes of the same scale, as a quantised model does
// on both sides of a concatenation: each of them becomes itself.
ValueId same_bytes(const Editor& e, const Node& node) {
  const DType type = node.attrs.dtype("to");
  if (!is_int(type) || size_bytes(type) != 1) return kNoValue;
  Chain chain;
  const ValueId x = chain.begin(e, node.inputs[0]);
  if (x == kNoValue || !same_type(e, node, x)) return kNoValue;
  const int low = is_signed_int(type) ? -128 : 0;
  for (int q = low; q < low + 256; ++q) {
    if (chain(static_cast<float>(q)) != static_cast<float>(q)) return kNoValue;
  }
  return x;
}

Result<ValueId> simplify_cast(Editor& e, const Node& node) {
  const ValueId x = node.inputs[0];
  if (same_type(e, node, x)) return x;
  if (const ValueId bytes = same_bytes(e, node); bytes != kNoValue) return bytes;
  const Node* inner = e.producer(x, "cast");
  if (!inner) return kNoValue;
  const ValueId source = inner->inputs[0];
  const DType from = e.dtype(source), to = node.attrs.dtype("to");
  if (!holds(e.dtype(x), from) && !planted(7)) return kNoValue;
  if (from == to) return source;
  return e.add("cast", {source}, node.attrs);
}

Result<ValueId> simplify_where(const Editor& e, const Node& node) {
  if (node.inputs[1] == node.inputs[2] && same_type(e, node, node.inputs[1])) {
    return node.inputs[1];
  }
  const std::optional<double> condition = splat_of(e.constant_of(node.inputs[0]));
  if (!condition) return kNoValue;
  const ValueId chosen = node.inputs[*condition != 0 ? 1 : 2];
  return same_type(e, node, chosen) ? chosen : kNoValue;
}

}  // namespace

Result<ValueId> simplify_arithmetic(Editor& e, const Node& node, const PassOptions& options) {
  const std::string_view op = node.op->name;
  if (const ValueId x = neutral_operand(e, node); x != kNoValue) return x;
  if (op == "pow") return simplify_pow(e, node);
  if (op == "div") return simplify_div(e, node, options);
  if (op == "cast") return simplify_cast(e, node);
  if (op == "where") return simplify_where(e, node);
  if (op == "neg" || op == "not") {
    const Node* inner = e.producer(node.inputs[0], op);
    return inner ? inner->inputs[0] : kNoValue;
  }
  return kNoValue;
}

}  // namespace tessera::graph
