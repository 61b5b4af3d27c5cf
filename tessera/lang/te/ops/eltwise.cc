// Chains of element-wise functions: fn=add+relu is relu(X + B0), one stage per function.
#include <array>
#include <string_view>

#include <fmt/ranges.h>

#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/ops.h"

namespace tessera::te {
namespace {

using ir::Expr;

struct Function {
  const char* name;
  bool binary;
  bool floats_only;
  Expr (*apply)(const Expr& a, const Expr& b);  // b is null for unary functions
};

Expr one(const Expr& like) { return ir::imm(like.dtype(), 1); }
Expr half(const Expr& like) { return ir::imm(like.dtype(), 0.5); }
Expr unary(ir::Intrinsic fn, const Expr& a) { return ir::call(fn, {a}); }

Expr sigmoid(const Expr& a) {
  return ir::div(one(a), one(a) + unary(ir::Intrinsic::kExp, ir::zero(a.type()) - a));
}

Expr gelu(const Expr& a) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  return half(a) * a * (one(a) + unary(ir::Intrinsic::kErf, a * ir::imm(a.dtype(), kSqrtHalf)));
}

constexpr std::array kFunctions = {
    Function{"add", true, false, [](const Expr& a, const Expr& b) { return a + b; }},
    Function{"sub", true, false, [](const Expr& a, const Expr& b) { return a - b; }},
    Function{"mul", true, false, [](const Expr& a, const Expr& b) { return a * b; }},
    Function{"div", true, true, [](const Expr& a, const Expr& b) { return ir::div(a, b); }},
    Function{"max", true, false, [](const Expr& a, const Expr& b) { return ir::max(a, b); }},
    Function{"min", true, false, [](const Expr& a, const Expr& b) { return ir::min(a, b); }},
    Function{"relu", false, false,
             [](const Expr& a, const Expr&) { return ir::max(a, ir::zero(a.type())); }},
    Function{"neg", false, false,
             [](const Expr& a, const Expr&) { return ir::zero(a.type()) - a; }},
    Function{"abs", false, false,
             [](const Expr& a, const Expr&) { return unary(ir::Intrinsic::kAbs, a); }},
    Function{"square", false, false, [](const Expr& a, const Expr&) { return a * a; }},
    Function{"exp", false, true,
             [](const Expr& a, const Expr&) { return unary(ir::Intrinsic::kExp, a); }},
    Function{"log", false, true,
             [](const Expr& a, const Expr&) { return unary(ir::Intrinsic::kLog, a); }},
    Function{"sqrt", false, true,
             [](const Expr& a, const Expr&) { return unary(ir::Intrinsic::kSqrt, a); }},
    Function{"tanh", false, true,
             [](const Expr& a, const Expr&) { return unary(ir::Intrinsic::kTanh, a); }},
    Function{"erf", false, true,
             [](const Expr& a, const Expr&) { return unary(ir::Intrinsic::kErf, a); }},
    Function{"sigmoid", false, true, [](const Expr& a, const Expr&) { return sigmoid(a); }},
    Function{"silu", false, true, [](const Expr& a, const Expr&) { return a * sigmoid(a); }},
    Function{"gelu", false, true, [](const Expr& a, const Expr&) { return gelu(a); }},
};

constexpr std::size_t kMaxChain = 16;

Result<const Function*> find_function(const OpSpec& spec, std::string_view name) {
  std::vector<const char*> valid;
  for (const Function& f : kFunctions) {
    valid.push_back(f.name);
    if (name != f.name) continue;
    if (f.floats_only && !is_float(spec.dtype)) {
      return make_error(ErrorCode::kInvalidArgument, "{}: fn={} needs a float dtype", spec.op,
                        name);
    }
    return &f;
  }
  return make_error(ErrorCode::kInvalidArgument, "{}: fn={} is not a chain of {}", spec.op, name,
                    fmt::join(valid, ", "));
}

Result<std::vector<const Function*>> read_chain(const OpSpec& spec) {
  std::vector<const Function*> chain;
  std::string_view rest = spec.words.at("fn");
  while (true) {
    const std::size_t plus = rest.find('+');
    TESSERA_TRY(const Function* f, find_function(spec, rest.substr(0, plus)));
    chain.push_back(f);
    if (plus == std::string_view::npos) break;
    rest.remove_prefix(plus + 1);
  }
  if (chain.size() > kMaxChain) {
    return make_error(ErrorCode::kInvalidArgument, "{}: fn has more than {} functions", spec.op,
                      kMaxChain);
  }
  return chain;
}

Result<Dag> make_eltwise(const OpSpec& spec) {
  if (spec.dtype == DType::kBool) {
    return make_error(ErrorCode::kInvalidArgument, "{}: dtype=bool is not supported", spec.op);
  }
  TESSERA_TRY(const std::vector<const Function*> chain, read_chain(spec));
  const NamedAxes axes = {{"i", spec.ints.at("N")}};
  const DType acc = compute_type(spec.dtype);
  DagBuilder b(spec.op);
  ir::Buffer value = b.input("X", spec.dtype, {axes[0].second});
  std::vector<ir::Buffer> operands;
  for (const Function* f : chain) {
    if (f->binary)
      operands.push_back(
          b.input(fmt::format("B{}", operands.size()), spec.dtype, {axes[0].second}));
  }
  std::size_t used = 0;
  for (std::size_t s = 0; s < chain.size(); ++s) {
    const bool last = s + 1 == chain.size();
    const ir::Buffer operand = chain[s]->binary ? operands[used++] : ir::Buffer();
    value = b.compute(last ? "Y" : fmt::format("e{}", s), axes, [&](const Indices& i) {
      const Expr second = operand ? to_type(acc, at(operand, i)) : Expr();
      return to_type(last ? spec.dtype : acc, chain[s]->apply(to_type(acc, at(value, i)), second));
    });
  }
  return b.build({value});
}

}  // namespace

OpEntry eltwise_op() {
  return {
      .name = "eltwise",
      .doc = "chain of element-wise functions, e.g. fn=add+relu",
      .params = {{"N", kRequired, "elements"}},
      .words = {{"fn", {}, "functions joined by +, each applied to the result of the one before"}},
      .make = make_eltwise};
}

}  // namespace tessera::te
