#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {
namespace {

constexpr double kMostF16 = 65504;

// What the type cannot hold becomes the largest that it can: masks are large numbers, and an
// infinity times zero is none.
HostTensor narrowed(const HostTensor& tensor, DType to) {
  const double most = to == DType::kF16 ? kMostF16 : std::numeric_limits<double>::infinity();
  HostTensor out(to, tensor.shape());
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const double v = tensor.get_float(i);
    out.set_float(i, std::isinf(v) ? v : std::clamp(v, -most, most));
  }
  return out;
}

class NarrowFloats {
 public:
  NarrowFloats(Graph& graph, DType to) : graph_(graph), to_(to) {
    for (const Value& v : graph.values) was_wide_.push_back(v.type.dtype == DType::kF32);
  }

  Result<bool> run() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    bool changed = false;
    for (Node& node : old) {
      if (stays_wide(node) || !narrow(node)) {
        for (ValueId& id : node.inputs) {
          if (is_wide(id)) id = as(id, DType::kF32);
        }
      } else {
        changed = true;
      }
      graph_.nodes.push_back(std::move(node));
    }
    for (ValueId& id : graph_.outputs) {
      if (is_wide(id)) id = as(id, DType::kF32);
    }
    return changed;
  }

 private:
  bool is_wide(ValueId id) const {
    return id != kNoValue && static_cast<std::size_t>(id) < was_wide_.size() &&
           was_wide_[static_cast<std::size_t>(id)];
  }

  // Functions of the host, and what has no f32 to narrow.
  bool stays_wide(const Node& node) const {
    const std::string_view op = node.op->name;
    if (node.op->fusion == Fusion::kHost || op == "bitcast") return true;
    // Numbers that were integers, or become some, may be large.
    if (op == "cast")
      return !is_float(node.attrs.dtype("to")) || !is_float(graph_.type(node.inputs[0]).dtype);
    return std::none_of(node.inputs.begin(), node.inputs.end(),
                        [&](ValueId id) { return is_wide(id); });
  }

  // The node on narrow inputs, if its operator takes them and gives what it gave before but for
  // the type.
  bool narrow(Node& node) {
    Node tried = node;
    if (tried.attrs.has("to") && tried.attrs.dtype("to") == DType::kF32)
      tried.attrs.set("to", std::string(tessera::to_text(to_)));
    for (ValueId& id : tried.inputs) {
      if (is_wide(id)) id = as(id, to_);
    }
    const auto types = tried.op->infer(view(graph_, tried));
    bool same = types.ok() && types->size() == tried.outputs.size();
    for (std::size_t o = 0; same && o < types->size(); ++o) {
      if (tried.outputs[o] == kNoValue) continue;
      const TensorType& was = graph_.type(tried.outputs[o]);
      const DType now = was.dtype == DType::kF32 ? to_ : was.dtype;
      same = (*types)[o] == TensorType{now, was.shape};
    }
    if (!same) return false;
    for (const ValueId id : tried.outputs) {
      if (is_wide(id)) graph_.value(id).type.dtype = to_;
    }
    node = std::move(tried);
    return true;
  }

  // The value in the type: itself, or made once.
  ValueId as(ValueId id, DType type) {
    if (graph_.type(id).dtype == type) return id;
    const auto [known, fresh] = made_.try_emplace({id, type}, kNoValue);
    if (!fresh) return known->second;
    const std::string name = fmt::format("{}.{}", graph_.value(id).name, tessera::to_text(type));
    if (const HostTensor* constant = graph_.constant(id)) {
      known->second = graph_.add_constant(name, narrowed(*constant, type));
    } else {
      Node cast{.op = find_op("cast"), .attrs = {}, .inputs = {id}, .outputs = {}, .origin = {}};
      cast.attrs.set("to", std::string(tessera::to_text(type)));
      cast.outputs = {graph_.add_value(name, {type, graph_.shape(id)})};
      known->second = cast.outputs[0];
      graph_.nodes.push_back(std::move(cast));
    }
    return known->second;
  }

  Graph& graph_;
  DType to_;
  std::vector<bool> was_wide_;  // by value, of those that were there
  std::map<std::pair<ValueId, DType>, ValueId> made_;
};

}  // namespace

Result<bool> narrow_floats(Graph& graph, const PassOptions& options) {
  if (options.floats == DType::kF32) return false;
  return NarrowFloats(graph, options.floats).run();
}

}  // namespace tessera::graph
