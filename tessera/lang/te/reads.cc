#include "tessera/lang/te/reads.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/lang/arith/linear.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::te {
namespace {

// Visits values, not the indices of loads.
class LoadVisitor final : public ir::Visitor {
 public:
  std::vector<std::pair<const ir::Load*, bool>> loads;  // with: below a select

 private:
  using ir::Visitor::visit;
  void visit(const ir::Load& load) override { loads.emplace_back(&load, selects_ > 0); }
  void visit(const ir::Select& s) override {
    (*this)(s.cond);
    ++selects_;
    (*this)(s.on_true);
    (*this)(s.on_false);
    --selects_;
  }
  int selects_ = 0;
};

// Wraps instead of overflowing: an absurd coefficient gives an absurd stride, nothing worse.
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::map<const ir::ExprNode*, std::size_t> axis_numbers(const Op& op) {
  std::map<const ir::ExprNode*, std::size_t> out;
  for (const Axis& a : op.axes) out.emplace(a.var.get(), out.size());
  for (const Axis& a : op.reduce_axes) out.emplace(a.var.get(), out.size());
  return out;
}

Access read_of(const ir::Load& load, bool conditional, const Op& op,
               const std::map<const ir::ExprNode*, std::size_t>& axes) {
  const std::size_t count = op.axes.size() + op.reduce_axes.size();
  Access out{.buffer = load.buffer,
             .indices = {},
             .strides = std::vector<std::int64_t>(count, 0),
             .irregular = std::vector<bool>(count, false),
             .conditional = conditional};
  std::vector<std::int64_t> dim_stride(load.indices.size(), 1);
  for (std::size_t d = load.indices.size(); d-- > 1;)
    dim_stride[d - 1] = times(dim_stride[d], load.buffer->shape[d]);
  for (std::size_t d = 0; d < load.indices.size(); ++d) {
    Index index;
    for (const arith::Term& term : arith::to_linear(load.indices[d]).terms) {
      if (const auto it = axes.find(term.atom.get()); it != axes.end()) {
        index.terms.push_back({it->second, term.coefficient});
        out.strides[it->second] =
            plus(out.strides[it->second], times(term.coefficient, dim_stride[d]));
        continue;
      }
      ir::for_each_expr(term.atom, [&](const ir::Expr& e) {
        const auto it = axes.find(e.get());
        if (it == axes.end()) return;
        index.irregular.push_back(it->second);
        out.irregular[it->second] = true;
      });
    }
    out.indices.push_back(std::move(index));
  }
  return out;
}

}  // namespace

int Index::single_axis() const {
  if (!irregular.empty() || terms.size() != 1 || terms[0].coefficient != 1) return -1;
  return static_cast<int>(terms[0].axis);
}

bool Access::regular() const {
  return std::none_of(irregular.begin(), irregular.end(), [](bool b) { return b; });
}

std::vector<Access> reads_of(const Op& op) {
  const auto axes = axis_numbers(op);
  LoadVisitor visitor;
  for (const ir::Expr& v : op.values) visitor(v);
  std::vector<Access> out;
  for (const auto& [load, conditional] : visitor.loads) {
    out.push_back(read_of(*load, conditional, op, axes));
    for (const ir::Expr& index : load->indices) {
      ir::for_each_expr(index, [&, below = conditional](const ir::Expr& e) {
        if (const auto* inner = e.as<ir::Load>()) out.push_back(read_of(*inner, below, op, axes));
      });
    }
  }
  return out;
}

}  // namespace tessera::te
