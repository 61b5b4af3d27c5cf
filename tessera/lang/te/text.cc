// The readable definition of a Dag; parse.cc reads it back.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/lang/te/dag.h"
#include "tessera/lang/te/syntax.h"

namespace tessera::te {

int strength(ir::BinaryOp op) {
  using enum ir::BinaryOp;
  switch (op) {
    case kMul:
    case kDiv:
    case kMod:
    case kFloorDiv:
    case kFloorMod:
      return 6;
    case kAdd:
    case kSub:
      return 5;
    case kShl:
    case kShr:
      return 4;
    case kEq:
    case kNe:
    case kLt:
    case kLe:
      return 3;
    case kAnd:
    case kOr:
    case kXor:
      return 2;
    case kMin:
    case kMax:
      return 0;
  }
  return 0;
}

namespace {

using ir::Expr;

// Written behind what is there already: expressions are deep, and each level would copy the one
// below it.
void print(const Expr& e, int outer, std::string& out);

void print_list(const std::vector<Expr>& list, std::string& out) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ", ";
    print(list[i], 0, out);
  }
}

void print_call(std::string_view name, const std::vector<Expr>& args, std::string& out) {
  out += name;
  out += '(';
  print_list(args, out);
  out += ')';
}

void print_binary(const ir::Binary& node, int outer, std::string& out) {
  const int own = strength(node.op);
  if (own == 0) return print_call(ir::to_text(node.op), {node.a, node.b}, out);
  // Logical chains associate freely; everything else needs its right operand bound tighter.
  const bool chain = own == 2 && node.b.as<ir::Binary>() && node.b.as<ir::Binary>()->op == node.op;
  if (own < outer) out += '(';
  print(node.a, own, out);
  out += ' ';
  out += ir::to_text(node.op);
  out += ' ';
  print(node.b, chain ? own : own + 1, out);
  if (own < outer) out += ')';
}

std::string print_imm(const Expr& e) {
  if (const auto* f = e.as<ir::FloatImm>()) {
    // Shortest form that reads back to the same value of the type.
    const std::string digits = e.dtype() == DType::kF64
                                   ? fmt::format("{}", f->value)
                                   : fmt::format("{}", static_cast<float>(f->value));
    return digits.find_first_not_of("-0123456789") == std::string::npos ? digits + ".0" : digits;
  }
  const auto* i = e.as<ir::IntImm>();
  if (e.dtype() == DType::kBool) return i->value != 0 ? "true" : "false";
  if (e.dtype() == DType::kU64) return fmt::format_int(static_cast<std::uint64_t>(i->value)).str();
  return fmt::format_int(i->value).str();
}

// Operators below `outer` in strength get parentheses.
void print(const Expr& e, int outer, std::string& out) {
  switch (e.kind()) {
    case ir::ExprKind::kIntImm:
    case ir::ExprKind::kFloatImm:
      out += print_imm(e);
      return;
    case ir::ExprKind::kVar:
      out += e.as<ir::Var>()->name;
      return;
    case ir::ExprKind::kBinary:
      return print_binary(*e.as<ir::Binary>(), outer, out);
    case ir::ExprKind::kSelect: {
      const auto* node = e.as<ir::Select>();
      return print_call("select", {node->cond, node->on_true, node->on_false}, out);
    }
    case ir::ExprKind::kCast:
      return print_call(to_text(e.dtype()), {e.as<ir::Cast>()->value}, out);
    case ir::ExprKind::kLoad: {
      const auto* node = e.as<ir::Load>();
      out += node->buffer->name;
      out += '[';
      print_list(node->indices, out);
      out += ']';
      return;
    }
    case ir::ExprKind::kCall: {
      const auto* node = e.as<ir::Call>();
      std::string name = ir::to_text(node->fn);
      // Nothing else tells what it is read as.
      if (node->fn == ir::Intrinsic::kBitcast) name += fmt::format("_{}", to_text(e.dtype()));
      return print_call(name, node->args, out);
    }
    default:
      out += "vector";  // verify() refuses vectors
  }
}

std::string describe(const ir::Buffer& b) {
  return fmt::format("{}: {}[{}]", b->name, to_text(b->dtype), fmt::join(b->shape, ", "));
}

std::string names(const std::vector<Axis>& axes) {
  std::vector<std::string> parts;
  for (const Axis& axis : axes) parts.push_back(axis.var.as<ir::Var>()->name);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string definition(const Op& op) {
  std::vector<std::string> left;
  for (const ir::Buffer& out : op.outputs)
    left.push_back(fmt::format("{}[{}]", out->name, names(op.axes)));
  std::string reducer;
  if (op.reducer != Reducer::kNone) {
    std::vector<std::string> ranges;
    for (const Axis& axis : op.reduce_axes) {
      ranges.push_back(fmt::format("{} in {}", axis.var.as<ir::Var>()->name, axis.extent));
    }
    reducer = fmt::format("{}({}) ", to_text(op.reducer), fmt::join(ranges, ", "));
  }
  std::string text = fmt::format("{} = {}", fmt::join(left, ", "), reducer);
  print_list(op.values, text);
  return text;
}

}  // namespace

std::string to_text(const Dag& dag) {
  std::string text = fmt::format("dag {}\n", dag.name);
  for (const Input& input : dag.inputs) {
    text += fmt::format("  {} {}\n", input.constant ? "constant" : "input", describe(input.buffer));
  }
  for (const Op& op : dag.ops) {
    std::vector<std::string> outs;
    for (const ir::Buffer& out : op.outputs) outs.push_back(describe(out));
    text += fmt::format("  stage {}\n    {}\n", fmt::join(outs, ", "), definition(op));
  }
  std::vector<std::string> outputs;
  for (const ir::Buffer& out : dag.outputs) outputs.push_back(out->name);
  return text + fmt::format("  output {}\n", fmt::join(outputs, ", "));
}

}  // namespace tessera::te
