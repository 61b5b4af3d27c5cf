#include "tessera/lang/te/split_axes.h"

#include <map>
#include <optional>
#include <set>

#include "tessera/lang/arith/simplify.h"
#include "tessera/lang/ir/visitor.h"

namespace tessera::te {
namespace {

// A buffer whose dimension `dim` became two, the inner one of `inner` elements.
struct Split {
  ir::Buffer buffer;
  std::size_t dim = 0;
  std::int64_t inner = 1;
};
using Splits = std::map<ir::Buffer, Split>;

// Reads split buffers by both indices, and simplifies the indices of every load.
class RewriteLoads final : public ir::Mutator {
 public:
  RewriteLoads(const Splits& splits, const arith::Ranges& ranges)
      : splits_(splits), ranges_(ranges) {}

 private:
  using ir::Mutator::rewrite;
  ir::Expr rewrite(const ir::Expr&, const ir::Load& load) override {
    std::vector<ir::Expr> indices;
    for (const ir::Expr& index : load.indices) indices.push_back((*this)(index));
    ir::Buffer buffer = load.buffer;
    if (const auto it = splits_.find(buffer); it != splits_.end()) {
      const Split& split = it->second;
      const ir::Expr inner = ir::int_imm(split.inner), merged = indices[split.dim];
      indices[split.dim] = ir::floor_mod(merged, inner);
      indices.insert(indices.begin() + static_cast<std::ptrdiff_t>(split.dim),
                     ir::floor_div(merged, inner));
      buffer = split.buffer;
    }
    for (ir::Expr& index : indices) index = arith::simplify(index, ranges_);
    return ir::Load::make(buffer, std::move(indices));
  }

  const Splits& splits_;
  const arith::Ranges& ranges_;
};

// C when `index` is axis // C.
std::optional<std::int64_t> divisor(const ir::Expr& index, const ir::Expr& axis) {
  const auto* node = index.as<ir::Binary>();
  if (!node || node->op != ir::BinaryOp::kFloorDiv || !node->a.same_as(axis)) return std::nullopt;
  return ir::as_const_int(node->b);
}

struct SplitAxis {
  std::size_t axis = 0;
  std::int64_t inner = 1;
};

// How `load` asks for an axis of `op` to be split.
std::optional<SplitAxis> wanted_split(const ir::Load& load, const Op& op, const Splits& splits,
                                      const std::set<ir::Buffer>& sums) {
  const auto split = splits.find(load.buffer);
  const bool sum = sums.count(load.buffer) != 0;
  for (std::size_t a = 0; a < op.axes.size(); ++a) {
    const ir::Expr& var = op.axes[a].var;
    if (split != splits.end() && load.indices[split->second.dim].same_as(var)) {
      return SplitAxis{a, split->second.inner};
    }
    if (!sum) continue;
    for (std::size_t d = 0; d + 1 < load.indices.size(); ++d) {
      const auto inner = divisor(load.indices[d], var);
      if (!inner || *inner < 2 || op.axes[a].extent % *inner != 0) continue;
      const ir::Expr rest = ir::floor_mod(var, ir::int_imm(*inner));
      if (ir::equal(load.indices[d + 1], rest)) return SplitAxis{a, *inner};
    }
  }
  return std::nullopt;
}

std::optional<SplitAxis> find_split(const Op& op, const Splits& splits,
                                    const std::set<ir::Buffer>& sums) {
  std::optional<SplitAxis> found;
  if (op.reducer != Reducer::kNone) return found;
  for (const ir::Expr& value : op.values) {
    ir::for_each_expr(value, [&](const ir::Expr& e) {
      const auto* load = e.as<ir::Load>();
      if (load && !found) found = wanted_split(*load, op, splits, sums);
    });
  }
  return found;
}

// A name for the outer part of an axis: g, as in the stages of convolutions.
std::string outer_name(const Op& op, const std::string& merged) {
  for (const Axis& axis : op.axes) {
    if (axis.var.as<ir::Var>()->name == "g") return merged + ".g";
  }
  return "g";
}

// Replaces an axis by two.
void split_axis(Op& op, const SplitAxis& split, Splits& splits) {
  const Axis merged = op.axes[split.axis];
  const std::string name = merged.var.as<ir::Var>()->name;
  const Axis outer{ir::Var::make(outer_name(op, name)), merged.extent / split.inner};
  const Axis inner{ir::Var::make(name), split.inner};
  const auto place = op.axes.begin() + static_cast<std::ptrdiff_t>(split.axis);
  *place = inner;
  op.axes.insert(place, outer);
  for (ir::Expr& value : op.values) {
    value = ir::substitute(value, merged.var, outer.var * split.inner + inner.var);
  }
  for (ir::Buffer& out : op.outputs) {
    std::vector<std::int64_t> shape;
    for (const Axis& axis : op.axes) shape.push_back(axis.extent);
    const ir::Buffer grown = ir::Buffer::make(out->name, out->dtype, std::move(shape), out->scope);
    splits[out] = {grown, split.axis, split.inner};
    out = grown;
  }
}

}  // namespace

Dag split_merged_axes(Dag dag) {
  Splits splits;  // by the buffer as it was
  std::set<ir::Buffer> sums;
  for (Op& op : dag.ops) {
    const auto split = find_split(op, splits, sums);
    if (op.reducer != Reducer::kNone) sums.insert(op.outputs.begin(), op.outputs.end());
    if (!split && splits.empty()) continue;
    const Splits before = splits;
    if (split) split_axis(op, *split, splits);
    arith::Ranges ranges;  // without axes of extent 1: their indices stay what they are
    for (const auto* axes : {&op.axes, &op.reduce_axes}) {
      for (const Axis& axis : *axes) {
        if (axis.extent > 1) ranges[axis.var.get()] = {0, axis.extent - 1};
      }
    }
    RewriteLoads rewrite(before, ranges);
    for (ir::Expr& value : op.values) value = rewrite(value);
  }
  for (ir::Buffer& out : dag.outputs) {
    if (const auto it = splits.find(out); it != splits.end()) out = it->second.buffer;
  }
  return dag;
}

}  // namespace tessera::te
