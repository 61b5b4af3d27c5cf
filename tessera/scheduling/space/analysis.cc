#include "tessera/scheduling/space/analysis.h"

#include <algorithm>
#include <map>

#include "tessera/lang/arith/linear.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::space {
namespace {

double intrinsic_cost(ir::Intrinsic fn) {
  switch (fn) {
    case ir::Intrinsic::kExp:
    case ir::Intrinsic::kLog:
      return 10;
    case ir::Intrinsic::kTanh:
    case ir::Intrinsic::kErf:
      return 15;
    case ir::Intrinsic::kSqrt:
      return 4;
    case ir::Intrinsic::kAbs:
    case ir::Intrinsic::kFloor:
    case ir::Intrinsic::kCeil:
    case ir::Intrinsic::kRound:
    case ir::Intrinsic::kTrunc:
    case ir::Intrinsic::kFma:
    case ir::Intrinsic::kNot:
    case ir::Intrinsic::kIsNan:
    case ir::Intrinsic::kIsInf:
    case ir::Intrinsic::kBitcast:
      return 1;
    default:
      return 25;
  }
}

// Visits values, not the indices of loads.
class ValueVisitor final : public ir::Visitor {
 public:
  double cost = 0;
  int nodes = 0;

 private:
  using ir::Visitor::visit;
  void visit(const ir::Load&) override { ++nodes; }
  void visit(const ir::Binary& b) override {
    ++nodes;
    cost += b.op == ir::BinaryOp::kDiv || b.op == ir::BinaryOp::kMod ? 4 : 1;
    Visitor::visit(b);
  }
  void visit(const ir::Call& c) override {
    ++nodes;
    cost += intrinsic_cost(c.fn);
    Visitor::visit(c);
  }
  void visit(const ir::Select& s) override {
    ++nodes;
    const double before = cost;
    (*this)(s.cond);
    if (arithmetic_free(s.cond)) cost = before;  // conditions on indices are cut off the loops
    (*this)(s.on_true);
    (*this)(s.on_false);
  }
  static bool arithmetic_free(const ir::Expr& cond) {
    bool reads = false;
    ir::for_each_expr(cond, [&](const ir::Expr& e) { reads = reads || e.as<ir::Load>(); });
    return !reads;
  }
};

// Values of an axis that is selected by.
constexpr std::int64_t kMaxSelected = 12;

// The axis an expression stands for: the axis itself, or the axis modulo a constant.
struct Selector {
  std::size_t axis = 0;
  std::int64_t modulus = 0;  // 0: the axis itself
};

bool find_axis(const Stage& s, const ir::Expr& e, Selector* out) {
  ir::Expr value = e;
  out->modulus = 0;
  if (const auto mod = arith::match_const_op(e, ir::BinaryOp::kFloorMod)) {
    value = *mod->value;
    out->modulus = mod->divisor;
  }
  const arith::Linear sum = arith::to_linear(value);
  if (sum.terms.size() != 1 || sum.terms[0].coefficient != 1) return false;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (!s.op.axes[i].var.same_as(sum.terms[0].atom)) continue;
    out->axis = i;
    const std::int64_t count = out->modulus != 0 ? out->modulus : s.extent(i);
    return count <= kMaxSelected;
  }
  return false;
}

// Everything that selects or is taken modulo a small constant, if something selects.
std::map<std::size_t, std::int64_t> selectors_of(const Stage& s) {
  std::map<std::size_t, std::int64_t> out;
  bool selects = false;
  for (const ir::Expr& v : s.op.values) {
    ir::for_each_expr(v, [&](const ir::Expr& e) {
      const auto* b = e.as<ir::Binary>();
      if (!b) return;
      Selector found;
      if (b->op == ir::BinaryOp::kEq && ir::as_const_int(b->b) && find_axis(s, b->a, &found)) {
        out[found.axis] = found.modulus;
        selects = true;
      } else if (b->op == ir::BinaryOp::kFloorMod && find_axis(s, e, &found)) {
        out[found.axis] = found.modulus;
      }
    });
  }
  if (!selects) out.clear();
  return out;
}

int operands_along_last(const Stage& stage, const std::vector<te::Input>& inputs) {
  Product product;
  if (!match_product(stage.op, inputs, &product)) return -1;
  std::size_t last = stage.rank();
  for (std::size_t i = 0; i < stage.rank(); ++i) {
    if (stage.extent(i) > 1) last = i;
  }
  if (last == stage.rank()) return 1;
  int count = 0;
  for (const ir::Load* load : {product.left.load, product.right.load}) {
    const ir::Expr& var = stage.op.axes[last].var;
    count += std::any_of(load->indices.begin(), load->indices.end(),
                         [&](const ir::Expr& e) { return ir::uses_var(e, var); });
  }
  return count;
}

Stage stage_of(const te::Dag& dag, const te::Op& op) {
  Stage s{.op = op};
  s.reads = te::reads_of(op);
  ValueVisitor visitor;
  for (const ir::Expr& v : op.values) visitor(v);
  s.cost = visitor.cost;
  s.nodes = visitor.nodes;
  for (const ir::Buffer& b : op.outputs) s.output = s.output || dag.is_output(b);
  s.operands_along_last = operands_along_last(s, dag.inputs);
  s.selectors = selectors_of(s);
  return s;
}

// Casts and selects between the sum and its product.
ir::Expr strip(ir::Expr e) {
  for (;;) {
    if (const auto* c = e.as<ir::Cast>()) {
      e = c->value;
    } else if (const auto* s = e.as<ir::Select>()) {
      e = s->on_true;
    } else {
      return e;
    }
  }
}

bool is_constant(const std::vector<te::Input>& inputs, const ir::Buffer& buffer) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const te::Input& in) { return in.constant && in.buffer == buffer; });
}

// Whether `a` rather than `b` holds the elements, and the other their scales or zero points.
bool holds_elements(const ir::Load& a, const ir::Load& b) {
  const bool a_int = is_int(a.buffer->dtype), b_int = is_int(b.buffer->dtype);
  if (a_int != b_int) return a_int;
  return a.buffer.size() * size_bytes(a.buffer->dtype) >
         b.buffer.size() * size_bytes(b.buffer->dtype);
}

Factor match_factor(const ir::Expr& value, const std::vector<te::Input>& inputs) {
  const ir::Expr factor = strip(value);
  // The nodes live in the values of the op.
  if (const auto* load = factor.as<ir::Load>()) return {load};
  Factor out{.load = nullptr, .reads = 0};
  bool constants = true;
  ir::for_each_expr(factor, [&](const ir::Expr& e) {
    const auto* load = e.as<ir::Load>();
    if (!load) return;
    constants = constants && is_constant(inputs, load->buffer);
    if (!out.load || holds_elements(*load, *out.load)) {
      out.load = load;
      out.at = out.reads;
    }
    ++out.reads;
  });
  if (!constants) out.load = nullptr;
  return out;
}

}  // namespace

const std::string& Stage::axis_name(std::size_t i) const { return axis(i).var.as<ir::Var>()->name; }

double Stage::elements() const {
  double out = 1;
  for (const te::Axis& a : op.axes) out *= static_cast<double>(a.extent);
  return out;
}

double Stage::iterations() const {
  double out = elements();
  for (const te::Axis& a : op.reduce_axes) out *= static_cast<double>(a.extent);
  return out;
}

int Analysis::producer(const ir::Buffer& buffer) const {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::vector<ir::Buffer>& outs = stages[i].op.outputs;
    if (std::find(outs.begin(), outs.end(), buffer) != outs.end()) return static_cast<int>(i);
  }
  return -1;
}

bool Analysis::constant(const ir::Buffer& buffer) const { return is_constant(inputs, buffer); }

bool walks_one_line(const Stage& s) {
  if (s.rank() == 0) return true;
  for (const Access& read : s.reads) {
    if (!read.regular() || read.conditional) return false;
    std::int64_t expected = read.strides[s.rank() - 1];
    for (std::size_t i = s.rank(); i-- > 0;) {
      if (s.extent(i) == 1) continue;
      if (read.strides[i] != expected) return false;
      expected *= s.extent(i);
    }
  }
  return true;
}

Analysis analyse(const te::Dag& dag, const std::vector<te::Op>& ops) {
  Analysis out{.inputs = dag.inputs, .stages = {}};
  for (const te::Op& op : ops) out.stages.push_back(stage_of(dag, op));
  for (std::size_t i = 0; i < out.stages.size(); ++i) {
    for (const Access& read : out.stages[i].reads) {
      const int p = out.producer(read.buffer);
      if (p < 0) continue;
      std::vector<std::size_t>& users = out.stages[static_cast<std::size_t>(p)].users;
      if (users.empty() || users.back() != i) users.push_back(i);
    }
  }
  return out;
}

bool match_product(const te::Op& op, const std::vector<te::Input>& inputs, Product* out) {
  if (op.reducer != te::Reducer::kSum || op.values.size() != 1) return false;
  const ir::Expr value = strip(op.values[0]);
  const auto* product = value.as<ir::Binary>();
  if (!product || product->op != ir::BinaryOp::kMul) return false;
  out->left = match_factor(product->a, inputs);
  out->right = match_factor(product->b, inputs);
  return out->left.load && out->right.load;
}

}  // namespace tessera::space
