#include "tessera/frontend/onnx/import_order.h"

#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx {
namespace {

void add_captured_names(const Graph& body, std::vector<std::string>& names);

// What a node reads: its inputs, and the names that its bodies take from outside.
std::vector<std::string> names_read(const Node& node) {
  std::vector<std::string> names;
  for (const std::string& name : node.inputs) {
    if (!name.empty()) names.push_back(name);
  }
  for (const Attribute& a : node.attributes) {
    if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&a.value)) {
      add_captured_names(**body, names);
    }
  }
  return names;
}

void add_captured_names(const Graph& body, std::vector<std::string>& names) {
  std::unordered_set<std::string> own;
  for (const ValueInfo& v : body.inputs) own.insert(v.name);
  for (const Initializer& i : body.initializers) own.insert(i.name);
  for (const Node& n : body.nodes) own.insert(n.outputs.begin(), n.outputs.end());
  const auto add = [&](const std::string& name) {
    if (own.count(name) == 0) names.push_back(name);
  };
  for (const Node& n : body.nodes) {
    for (const std::string& name : names_read(n)) add(name);
  }
  for (const ValueInfo& v : body.outputs) add(v.name);
}

class NodeSorter {
 public:
  explicit NodeSorter(const std::vector<Node>& nodes) : nodes_(nodes), producers_(nodes.size()) {}

  // Names of inputs and of initializers; an input may have an initializer as its default.
  Result<void> define_inputs(const std::vector<std::string>& names);
  void define_initializers(const std::vector<std::string>& names);
  Result<void> define_nodes();
  Result<ImportOrder> order(const std::vector<std::string>& outputs);

 private:
  enum class State : std::uint8_t { kDead, kLive, kOpen, kDone };

  bool is_constant(std::size_t definition) const;
  void warn_twice(const std::string& name);
  void warn_unsorted();
  void mark_live(const std::vector<std::string>& outputs);
  Result<void> emit(std::size_t root, ImportOrder& out);

  const std::vector<Node>& nodes_;
  // By a node; beyond them by an input or an initializer.
  std::size_t input() const { return nodes_.size(); }
  std::size_t initializer() const { return nodes_.size() + 1; }

  std::unordered_map<std::string, std::size_t> defined_by_;
  std::vector<std::vector<std::size_t>> producers_;  // of what a node reads
  std::vector<State> state_;
  std::vector<std::string> warnings_;
};

Result<void> NodeSorter::define_inputs(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!defined_by_.emplace(name, input()).second) {
      return make_error(ErrorCode::kInvalidArgument, "value '{}' is defined twice", name);
    }
  }
  return {};
}

void NodeSorter::define_initializers(const std::vector<std::string>& names) {
  std::unordered_set<std::string> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) warn_twice(name);
    defined_by_.emplace(name, initializer());  // the value of an input is the caller's
  }
}

bool NodeSorter::is_constant(std::size_t definition) const {
  if (definition >= nodes_.size()) return definition == initializer();
  return nodes_[definition].op_type == "Constant" && nodes_[definition].domain.empty();
}

void NodeSorter::warn_twice(const std::string& name) {
  warnings_.push_back(fmt::format("constant '{}' is defined twice: the last one counts", name));
}

Result<void> NodeSorter::define_nodes() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::string& name : nodes_[i].outputs) {
      if (name.empty()) continue;
      const auto [at, fresh] = defined_by_.emplace(name, i);
      if (fresh) continue;
      if (!is_constant(i) || !is_constant(at->second)) {
        return make_error(ErrorCode::kInvalidArgument, "{}: value '{}' is defined twice",
                          describe(nodes_[i]), name);
      }
      warn_twice(name);
      at->second = i;
    }
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::string& name : names_read(nodes_[i])) {
      const auto found = defined_by_.find(name);
      if (found != defined_by_.end() && found->second < nodes_.size()) {
        producers_[i].push_back(found->second);
      }
    }
  }
  return {};
}

// One line for a graph, naming the first node that is too early.
void NodeSorter::warn_unsorted() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const std::size_t p : producers_[i]) {
      if (p <= i || state_[i] == State::kDead) continue;
      warnings_.push_back(fmt::format("{} stands before {}, which it needs: nodes were sorted",
                                      describe(nodes_[i]), describe(nodes_[p])));
      return;
    }
  }
}

void NodeSorter::mark_live(const std::vector<std::string>& outputs) {
  state_.assign(nodes_.size(), State::kDead);
  std::vector<std::size_t> work;
  const auto mark = [&](std::size_t i) {
    if (state_[i] != State::kDead) return;
    state_[i] = State::kLive;
    work.push_back(i);
  };
  for (const std::string& name : outputs) {
    const auto found = defined_by_.find(name);
    if (found != defined_by_.end() && found->second < nodes_.size()) mark(found->second);
  }
  while (!work.empty()) {
    const std::size_t i = work.back();
    work.pop_back();
    for (const std::size_t p : producers_[i]) mark(p);
  }
}

// Depth-first from `root`, without recursion: a chain may be as long as the file.
Result<void> NodeSorter::emit(std::size_t root, ImportOrder& out) {
  std::vector<std::pair<std::size_t, std::size_t>> path;  // node, next producer to look at
  const auto open = [&](std::size_t i) {
    state_[i] = State::kOpen;
    path.emplace_back(i, 0);
  };
  if (state_[root] == State::kLive) open(root);
  while (!path.empty()) {
    auto& [i, next] = path.back();
    if (next == producers_[i].size()) {
      state_[i] = State::kDone;
      out.nodes.push_back(&nodes_[i]);
      path.pop_back();
      continue;
    }
    const std::size_t p = producers_[i][next++];
    if (state_[p] == State::kOpen) {
      return make_error(ErrorCode::kInvalidArgument, "{}: the graph has a cycle through this node",
                        describe(nodes_[p]));
    }
    if (state_[p] == State::kLive) open(p);
  }
  return {};
}

Result<ImportOrder> NodeSorter::order(const std::vector<std::string>& outputs) {
  mark_live(outputs);
  ImportOrder out;
  for (std::size_t i = 0; i < nodes_.size(); ++i) TESSERA_DO(emit(i, out));
  warn_unsorted();
  out.warnings = std::move(warnings_);
  return out;
}

}  // namespace

std::string describe(const Node& node) {
  std::string output;
  for (const std::string& name : node.outputs) {
    if (output.empty()) output = name;
  }
  return fmt::format("node '{}' ({}, output '{}')", node.name, node.op_type, output);
}

Result<ImportOrder> import_order(const Graph& graph) {
  std::vector<std::string> inputs, initializers, outputs;
  for (const ValueInfo& v : graph.inputs) inputs.push_back(v.name);
  for (const Initializer& i : graph.initializers) initializers.push_back(i.name);
  for (const ValueInfo& v : graph.outputs) outputs.push_back(v.name);
  NodeSorter sorter(graph.nodes);
  TESSERA_DO(sorter.define_inputs(inputs));
  sorter.define_initializers(initializers);
  TESSERA_DO(sorter.define_nodes());
  return sorter.order(outputs);
}

Result<ImportOrder> import_order(const Function& function) {
  NodeSorter sorter(function.nodes);
  TESSERA_DO(sorter.define_inputs(function.inputs));
  TESSERA_DO(sorter.define_nodes());
  return sorter.order(function.outputs);
}

}  // namespace tessera::onnx
