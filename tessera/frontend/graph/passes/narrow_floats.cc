#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/passes/choose_storage.h"
#include "tessera/support/float_format.h"
#include "tessera/support/tolerance.h"

namespace tessera::graph {
namespace {

// What the type cannot hold becomes the largest that it can: masks are large numbers, and an
// infinity times zero is none.
HostTensor converted(const HostTensor& tensor, DType to) {
  const double most = float_format(to).largest();
  HostTensor out(to, tensor.shape());
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const double v = tensor.get_float(i);
    out.set_float(i, std::isinf(v) ? v : std::clamp(v, -most, most));
  }
  return out;
}

// Products over windows that no instruction multiplies narrow floats for, whose images would be
// widened again for every element of the window.
bool sums_windows(const Graph& graph, const Node& node) {
  if (node.op->is(fact::kConvolves)) return node.attrs.integer("group", 1) > 1;
  return std::string_view(node.op->name) == "pool" && node.attrs.word("kind") != "max" &&
         is_float(graph.type(node.inputs[0]).dtype);
}

// Values of one float type become another's where the nodes that make and read them are chosen.
class ConvertFloats {
 public:
  using Choice = std::function<bool(const Node&)>;
  // Constants among `stored` are converted where they are read.
  ConvertFloats(Graph& graph, DType from, DType to, Choice choice, std::set<ValueId> stored = {})
      : graph_(graph),
        from_(from),
        to_(to),
        chosen_(std::move(choice)),
        stored_(std::move(stored)) {
    for (const Value& v : graph.values) was_.push_back(v.type.dtype == from);
  }

  Result<bool> run() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    bool changed = false;
    for (Node& node : old) {
      if (stays(node) || !convert(node)) {
        for (ValueId& id : node.inputs) {
          if (is_from(id)) id = as(id, from_);
        }
      } else {
        changed = true;
      }
      graph_.nodes.push_back(std::move(node));
    }
    for (ValueId& id : graph_.outputs) {
      if (is_from(id)) id = as(id, from_);
    }
    return changed;
  }

 private:
  bool is_from(ValueId id) const {
    return id != kNoValue && static_cast<std::size_t>(id) < was_.size() &&
           was_[static_cast<std::size_t>(id)];
  }

  // Functions of the host, and what has nothing to convert.
  bool stays(const Node& node) const {
    const std::string_view op = node.op->name;
    if (node.op->fusion == Fusion::kHost || op == "bitcast" || !chosen_(node)) return true;
    const bool narrows = unit_roundoff(to_) > unit_roundoff(from_);
    // Of a table, only what is looked up is widened.
    if (!narrows && node.op->is(fact::kIndexes) && graph_.constant(node.inputs[0])) return true;
    // Numbers that were integers, or become some, may be large.
    if (op == "cast" && narrows)
      return !is_float(node.attrs.dtype("to")) || !is_float(graph_.type(node.inputs[0]).dtype);
    // A model that rounds to the narrow type by a Cast of its own means it; import rounds what it
    // computed in f32.
    if (op == "cast" && !is_from(node.inputs[0])) return node.origin.starts_with("Cast");
    const auto has = [&](const std::vector<ValueId>& ids) {
      return std::any_of(ids.begin(), ids.end(), [&](ValueId id) { return is_from(id); });
    };
    return !has(node.inputs) && (narrows || !has(node.outputs));
  }

  // The node on converted inputs, if its operator takes them and gives what it gave before but for
  // the type.
  bool convert(Node& node) {
    Node tried = node;
    if (tried.attrs.has("to") && tried.attrs.dtype("to") == from_)
      tried.attrs.set("to", std::string(tessera::to_text(to_)));
    // Scales stay as narrow as they are stored.
    for (ValueId& id : tried.inputs) {
      if (is_from(id) && !tried.op->is(fact::kUnpacks)) id = as(id, to_);
    }
    const auto types = tried.op->infer(view(graph_, tried));
    bool same = types.ok() && types->size() == tried.outputs.size();
    for (std::size_t o = 0; same && o < types->size(); ++o) {
      if (tried.outputs[o] == kNoValue) continue;
      const TensorType& was = graph_.type(tried.outputs[o]);
      const DType now = was.dtype == from_ ? to_ : was.dtype;
      same = (*types)[o] == TensorType{now, was.shape};
    }
    if (!same) return false;
    for (const ValueId id : tried.outputs) {
      if (is_from(id)) graph_.value(id).type.dtype = to_;
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
    const HostTensor* constant = graph_.constant(id);
    if (constant && !stored_.contains(id)) {
      known->second = graph_.add_constant(name, converted(*constant, type));
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
  DType from_, to_;
  Choice chosen_;
  std::set<ValueId> stored_;
  std::vector<bool> was_;  // of type `from_`, by value, of those that were there
  std::map<std::pair<ValueId, DType>, ValueId> made_;
};

// Weights of products for which it was decided that they stay in the type.
Result<std::set<ValueId>> stored_weights(const Graph& graph, DType type,
                                         const PassOptions& options) {
  constexpr double kConversion = 2;  // operations for each element
  const Uses uses = find_uses(graph);
  std::set<ValueId> out;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!graph.values[v].is_constant || graph.values[v].type.dtype != type) continue;
    const auto products = products_of_weights(graph, uses, id);
    if (!products) continue;
    TESSERA_TRY(const bool narrow, stays_narrow(*products, size_bytes(type), kConversion, options));
    if (narrow) out.insert(id);
  }
  return out;
}

}  // namespace

Result<bool> narrow_floats(Graph& graph, const PassOptions& options) {
  if (options.floats == DType::kF32) return false;
  const auto chosen = [&](const Node& node) {
    return options.narrow_windows || !sums_windows(graph, node);
  };
  return ConvertFloats(graph, DType::kF32, options.floats, chosen).run();
}

Result<bool> widen_floats(Graph& graph, const PassOptions& options) {
  bool changed = false;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const bool all = options.widened.contains(type);
    if (!all && options.narrow_windows) continue;
    const auto chosen = [&](const Node& node) { return all || sums_windows(graph, node); };
    TESSERA_TRY(std::set<ValueId> stored,
                all ? stored_weights(graph, type, options) : std::set<ValueId>());
    TESSERA_TRY(const bool now,
                ConvertFloats(graph, type, DType::kF32, chosen, std::move(stored)).run());
    changed = changed || now;
  }
  return changed;
}

}  // namespace tessera::graph
