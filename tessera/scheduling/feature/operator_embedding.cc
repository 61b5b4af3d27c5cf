#include "tessera/scheduling/feature/operator_embedding.h"

#include <algorithm>
#include <set>

#include "tessera/lang/ir/visitor.h"
#include "tessera/lang/te/reads.h"
#include "tessera/scheduling/feature/schema.h"

namespace tessera::feature {
namespace {

using ir::Expr;
using Vars = std::set<const ir::ExprNode*>;

struct OperatorFacts {
  bool contraction = false, convolution = false, depthwise = false, batched = false;
  bool transform = false, softmax = false, pooling = false;
  double stages = 0, flops = 0, bytes = 0;
};

struct OperatorColumn {
  const char* name;
  float (*read)(const OperatorFacts& f);
};

float flag(bool b) { return b ? 1 : 0; }

constexpr OperatorColumn kColumns[] = {
    {"contraction", [](const OperatorFacts& f) { return flag(f.contraction); }},
    {"convolution", [](const OperatorFacts& f) { return flag(f.convolution); }},
    {"depthwise", [](const OperatorFacts& f) { return flag(f.depthwise); }},
    {"batched", [](const OperatorFacts& f) { return flag(f.batched); }},
    {"transform", [](const OperatorFacts& f) { return flag(f.transform); }},
    {"softmax", [](const OperatorFacts& f) { return flag(f.softmax); }},
    {"pooling", [](const OperatorFacts& f) { return flag(f.pooling); }},
    {"stages", [](const OperatorFacts& f) { return slog(f.stages); }},
    {"flops", [](const OperatorFacts& f) { return slog(f.flops); }},
    {"bytes", [](const OperatorFacts& f) { return slog(f.bytes); }},
};

Vars vars_of(const Expr& e) {
  Vars vars;
  ir::for_each_expr(e, [&](const Expr& x) {
    if (x.as<ir::Var>() != nullptr) vars.insert(x.get());
  });
  return vars;
}

Vars vars_of(const std::vector<te::Axis>& axes) {
  Vars vars;
  for (const te::Axis& a : axes) vars.insert(a.var.get());
  return vars;
}

// The read below conversions and the padding of a select.
const ir::Load* read_of(const Expr& e) {
  if (const auto* cast = e.as<ir::Cast>()) return read_of(cast->value);
  if (const auto* select = e.as<ir::Select>()) {
    const ir::Load* taken = read_of(select->on_true);
    return taken != nullptr ? taken : read_of(select->on_false);
  }
  return e.as<ir::Load>();
}

struct Operands {
  const ir::Load *left = nullptr, *right = nullptr;
};

Operands operands_of(const Expr& e) {
  if (const auto* cast = e.as<ir::Cast>()) return operands_of(cast->value);
  if (const auto* select = e.as<ir::Select>()) return operands_of(select->on_true);
  const auto* product = e.as<ir::Binary>();
  if (product == nullptr || product->op != ir::BinaryOp::kMul) return {};
  return {read_of(product->a), read_of(product->b)};
}

// Reduce axes that move within an index along with an output axis: those of a window.
std::set<std::size_t> window_axes(const te::Op& op) {
  const std::size_t rank = op.axes.size();
  std::set<std::size_t> out;
  for (const te::Access& read : te::reads_of(op)) {
    for (const te::Index& index : read.indices) {
      std::set<std::size_t> used(index.irregular.begin(), index.irregular.end());
      for (const te::IndexTerm& term : index.terms) used.insert(term.axis);
      if (used.empty() || *used.begin() >= rank) continue;
      out.insert(used.lower_bound(rank), used.end());
    }
  }
  return out;
}

Vars vars_of(const ir::Load& load) {
  Vars vars;
  for (const Expr& index : load.indices) vars.merge(vars_of(index));
  return vars;
}

void add_reduction(const te::Op& op, OperatorFacts* facts) {
  const Operands operands =
      op.reducer == te::Reducer::kSum ? operands_of(op.values[0]) : Operands();
  const std::set<std::size_t> window = window_axes(op);
  if (operands.left == nullptr || operands.right == nullptr) {
    facts->pooling = facts->pooling || !window.empty();
    return;
  }
  facts->contraction = true;
  const bool whole = window.size() == op.reduce_axes.size();
  facts->convolution = facts->convolution || (!window.empty() && !whole);
  facts->depthwise = facts->depthwise || (!window.empty() && whole);
  Vars shared = vars_of(op.axes);
  const Vars left = vars_of(*operands.left), right = vars_of(*operands.right);
  std::erase_if(shared,
                [&](const ir::ExprNode* v) { return !left.contains(v) || !right.contains(v); });
  for (const te::Axis& a : op.axes) {
    facts->batched = facts->batched || (a.extent > 1 && shared.contains(a.var.get()));
  }
}

// Values that depend on which of a few numbers an axis has: the transforms of Winograd.
bool is_transform(const te::Op& op) {
  int cases = 0;
  for (const Expr& value : op.values) {
    ir::for_each_expr(value, [&](const Expr& e) {
      const auto* select = e.as<ir::Select>();
      const auto* test = select == nullptr ? nullptr : select->cond.as<ir::Binary>();
      if (test != nullptr && test->op == ir::BinaryOp::kEq && test->b.as<ir::IntImm>() != nullptr) {
        ++cases;
      }
    });
  }
  return cases >= 2;
}

double bytes_of(const ir::Buffer& b) {
  return static_cast<double>(b.size()) * size_bytes(b->dtype);
}

OperatorFacts facts_of(const te::Dag& dag) {
  OperatorFacts facts;
  int reductions = 0;
  bool exponential = false;
  for (const te::Op& op : dag.ops) {
    if (op.reducer != te::Reducer::kNone) {
      ++reductions;
      add_reduction(op, &facts);
    }
    facts.transform = facts.transform || is_transform(op);
    for (const Expr& value : op.values) {
      ir::for_each_expr(value, [&](const Expr& e) {
        const auto* call = e.as<ir::Call>();
        exponential = exponential || (call != nullptr && call->fn == ir::Intrinsic::kExp);
      });
    }
  }
  facts.softmax = exponential && reductions >= 2 && !facts.contraction;
  facts.stages = static_cast<double>(dag.ops.size());
  facts.flops = te::flop_count(dag);
  for (const te::Input& input : dag.inputs) facts.bytes += bytes_of(input.buffer);
  for (const ir::Buffer& out : dag.outputs) facts.bytes += bytes_of(out);
  return facts;
}

}  // namespace

const std::vector<std::string>& operator_embedding_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const OperatorColumn& c : kColumns) out.push_back(c.name);
    return out;
  }();
  return names;
}

void append_operator_embedding(const te::Dag& dag, std::vector<float>* out) {
  const OperatorFacts facts = facts_of(dag);
  for (const OperatorColumn& c : kColumns) out->push_back(c.read(facts));
}

}  // namespace tessera::feature
