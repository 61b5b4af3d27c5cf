#include "minimise.h"

#include <algorithm>

#include "tests/onnx/model_builder.h"

namespace tessera::fuzz {
namespace {

// Drops nodes, constants and inputs that no output needs.
void drop_unused(Case& c) {
  onnx::Graph& g = c.model.graph;
  std::set<std::string> needed;
  for (const onnx::ValueInfo& v : g.outputs) needed.insert(v.name);
  for (auto it = g.nodes.end(); it != g.nodes.begin();) {
    --it;
    const bool used = std::any_of(it->outputs.begin(), it->outputs.end(),
                                  [&](const std::string& n) { return needed.count(n) != 0; });
    if (used) {
      needed.merge(names_read(*it));
    } else {
      it = g.nodes.erase(it);
    }
  }
  std::erase_if(g.initializers, [&](const auto& v) { return needed.count(v.name) == 0; });
  std::erase_if(g.inputs, [&](const auto& v) { return needed.count(v.name) == 0; });
  std::erase_if(c.inputs, [&](const auto& item) { return needed.count(item.first) == 0; });
}

HostTensor cut(const HostTensor& t, std::size_t axis, std::int64_t size) {
  Shape shape = t.shape();
  std::int64_t inner = 1;
  for (std::size_t k = axis + 1; k < shape.size(); ++k) inner *= shape[k];
  const std::int64_t old = shape[axis];
  shape[axis] = size;
  HostTensor out(t.dtype(), shape);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const std::int64_t outer = i / (inner * size), rest = i % (inner * size);
    const std::int64_t from = outer * inner * old + rest;
    if (is_float(t.dtype())) {
      out.set_float(i, t.get_float(from));
    } else {
      out.set_int(i, t.get_int(from));
    }
  }
  return out;
}

// Every dimension of size `from`, and every number in a short vector of integers, becomes `to`.
HostTensor resized(HostTensor t, std::int64_t from, std::int64_t to) {
  for (std::size_t k = 0; k < t.shape().size(); ++k) {
    if (t.shape()[k] == from) t = cut(t, k, to);
  }
  if (t.dtype() == DType::kI64 && t.shape().size() == 1 && t.size() <= 8) {
    t = t.clone();
    for (std::int64_t i = 0; i < t.size(); ++i) {
      if (t.get_int(i) == from) t.set_int(i, to);
    }
  }
  return t;
}

class Minimiser {
 public:
  Minimiser(Case c, const Fails& fails) : best_(std::move(c)), fails_(fails) { forget_symbols(); }

  Case run() {
    for (bool smaller = true; smaller;) {
      smaller = false;
      smaller |= one_output();
      smaller |= inputs_for_nodes();
      smaller |= smaller_sizes();
    }
    return best_;
  }

 private:
  bool keep(Case next) {
    drop_unused(next);
    if (next.model.graph.nodes.empty() || !fails_(next)) return false;
    best_ = std::move(next);
    return true;
  }

  void forget_symbols() {
    Case next = best_;
    for (onnx::ValueInfo& v : next.model.graph.inputs) {
      const Shape& shape = next.inputs.at(v.name).shape();
      for (std::size_t k = 0; k < v.dims.size(); ++k) v.dims[k] = {shape[k], ""};
    }
    next.symbols.clear();
    keep(std::move(next));
  }

  // The first value that fails by itself: as early in the graph as possible.
  bool one_output() {
    const onnx::Graph& g = best_.model.graph;
    const Result<Trace> trace = trace_case(best_);
    for (const onnx::Node& node : g.nodes) {
      for (const std::string& name : node.outputs) {
        if (trace.ok() && !trace->has(name)) continue;  // sequences are no outputs
        if (g.outputs.size() == 1 && g.outputs[0].name == name) return false;
        Case next = best_;
        next.model.graph.outputs = {onnx::testing::output(name)};
        if (keep(std::move(next))) return true;
      }
    }
    return false;
  }

  // From the last node on: what is above a node goes with it.
  bool inputs_for_nodes() {
    bool smaller = false;
    for (std::size_t i = best_.model.graph.nodes.size(); i-- > 0;) {
      if (i >= best_.model.graph.nodes.size()) continue;
      const Result<Trace> trace = trace_case(best_);
      if (!trace.ok()) return smaller;
      Case next = best_;
      const onnx::Node node = next.model.graph.nodes[i];
      bool known = true;
      for (const std::string& name : node.outputs) {
        known = known && trace->has(name);
        if (!known) break;
        const HostTensor& t = trace->at(name).value;
        next.model.graph.inputs.push_back(onnx::testing::value_info(name, t.dtype(), t.shape()));
        next.inputs[name] = t;
      }
      next.model.graph.nodes.erase(next.model.graph.nodes.begin() + static_cast<std::ptrdiff_t>(i));
      if (known && keep(std::move(next))) smaller = true;
    }
    return smaller;
  }

  bool smaller_sizes() {
    std::set<std::int64_t> sizes;
    for (const auto& [name, value] : best_.inputs) {
      sizes.insert(value.shape().begin(), value.shape().end());
    }
    for (const onnx::Initializer& v : best_.model.graph.initializers) {
      const Shape& s = std::get<HostTensor>(v.value).shape();
      sizes.insert(s.begin(), s.end());
    }
    bool smaller = false;
    for (const std::int64_t from : sizes) {
      for (const std::int64_t to : {std::int64_t{1}, std::int64_t{2}, from / 2, from - 1}) {
        if (to >= 1 && to < from && keep(with_size(from, to))) {
          smaller = true;
          break;
        }
      }
    }
    return smaller;
  }

  Case with_size(std::int64_t from, std::int64_t to) const {
    Case next = best_;
    for (onnx::Initializer& v : next.model.graph.initializers) {
      v.value = resized(std::get<HostTensor>(v.value), from, to);
    }
    for (auto& [name, value] : next.inputs) value = resized(value, from, to);
    for (onnx::ValueInfo& v : next.model.graph.inputs) {
      const HostTensor& t = next.inputs.at(v.name);
      v = onnx::testing::value_info(v.name, t.dtype(), t.shape());
    }
    for (onnx::ValueInfo& v : next.model.graph.outputs) v = onnx::testing::output(v.name);
    return next;
  }

  Case best_;
  const Fails& fails_;
};

}  // namespace

Case minimise(Case c, const Fails& fails) { return Minimiser(std::move(c), fails).run(); }

}  // namespace tessera::fuzz
