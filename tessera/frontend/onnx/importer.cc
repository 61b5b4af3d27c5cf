#include "tessera/frontend/onnx/importer.h"

#include <algorithm>
#include <set>

#include "tessera/frontend/onnx/narrow_types.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

// Bodies and calls of functions inside each other; more is a model that calls itself.
constexpr int kMaxDepth = 64;

bool is_issue(ErrorCode code) {
  return code == ErrorCode::kUnsupported || code == ErrorCode::kDataDependent;
}

Binding to_binding(ValueId id) {
  return {id == kNoValue ? Binding::Kind::kOmitted : Binding::Kind::kValue, id, ""};
}

// The value of a Constant that has no DType; its type is empty for other nodes.
ForeignTensor foreign_constant(const Node& node) {
  if (node.op_type != "Constant" || !node.domain.empty()) return {};
  for (const Attribute& a : node.attributes) {
    if (const auto* foreign = std::get_if<ForeignTensor>(&a.value)) return *foreign;
    if (a.name == "value_string" || a.name == "value_strings") return {"string"};
  }
  return {};
}

// Inputs of an operator as ids.
Result<std::vector<ValueId>> to_ids(const Node& node, const OnnxOp& op,
                                    const std::vector<Binding>& inputs) {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool widened = op.widened != Widened::kRefused && inputs[i].id != kNoValue;
    if (inputs[i].kind == Binding::Kind::kForeign && !widened) {
      return make_error(ErrorCode::kUnsupported, "input '{}' is of type {}", node.inputs[i],
                        inputs[i].type);
    }
    if (Sequences::is_sequence(inputs[i].id) && !op.takes_sequences) {
      return make_error(ErrorCode::kUnsupported, "input '{}' is a sequence of tensors",
                        node.inputs[i]);
    }
    ids.push_back(inputs[i].id);
  }
  for (int i = 0; i < op.min_inputs; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at >= ids.size() || ids[at] == kNoValue) return invalid("input {} is missing", i);
  }
  if (op.max_inputs >= 0 && ids.size() > static_cast<std::size_t>(op.max_inputs)) {
    return invalid("{} inputs, at most {} expected", ids.size(), op.max_inputs);
  }
  return ids;
}

}  // namespace

const Binding* Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return &found->second;
  }
  return nullptr;
}

Importer::Importer(const Model& model, const ImportOptions& options)
    : model_(model), options_(options), builder_(model.graph.name, options.builder) {
  for (const Function& f : model.functions) {
    functions_.emplace(FunctionKey(f.domain, f.name, f.overload), &f);
  }
}

Result<const ImportOrder*> Importer::order_of(const Graph& graph) { return keep_order(graph); }

Result<const ImportOrder*> Importer::order_of(const Function& function) {
  return keep_order(function);
}

template <class Nodes>
Result<const ImportOrder*> Importer::keep_order(const Nodes& nodes) {
  const auto found = orders_.find(&nodes);
  if (found != orders_.end()) return &found->second;
  TESSERA_TRY(ImportOrder order, import_order(nodes));
  if (options_.warn) {
    for (const std::string& warning : order.warnings) options_.warn(warning);
  }
  return &orders_.emplace(&nodes, std::move(order)).first->second;
}

std::int64_t Importer::opset(const Node& node) const {
  const auto found = frame_.opsets->find(node.domain);
  return found == frame_.opsets->end() ? 1 : found->second;
}

std::string Importer::label(const Node& node) const {
  return fmt::format("{}{}{}-{}", node.domain, node.domain.empty() ? "" : ".", node.op_type,
                     opset(node));
}

void Importer::bind(const std::string& name, Binding binding) {
  if (!name.empty()) frame_.scope->names[name] = std::move(binding);
}

Binding Importer::foreign_binding(const ForeignTensor& tensor) {
  const ValueId id = tensor.widened ? builder_.constant(*tensor.widened) : kNoValue;
  return {Binding::Kind::kForeign, id, tensor.type};
}

void Importer::bind_initializers(const Graph& graph, Scope& scope) {
  for (const Initializer& i : graph.initializers) {
    if (const auto* foreign = std::get_if<ForeignTensor>(&i.value)) {
      scope.names[i.name] = foreign_binding(*foreign);
    } else {
      scope.names[i.name] = to_binding(builder_.constant(std::get<HostTensor>(i.value), i.name));
    }
  }
}

Result<void> Importer::bind_inputs(Scope& scope) {
  TESSERA_TRY(ResolvedInputs resolved, resolve_inputs(model_.graph, options_));
  sizes_ = std::move(resolved.sizes);
  for (const GraphInput& input : resolved.inputs) {
    if (!input.foreign.empty()) {
      scope.names[input.name] = {Binding::Kind::kForeign, kNoValue, input.foreign};
    } else {
      scope.names[input.name] = to_binding(input.value ? builder_.constant(*input.value, input.name)
                                                       : builder_.input(input.name, input.type));
    }
  }
  return {};
}

Result<void> Importer::walk() {
  bind_initializers(model_.graph, top_);
  TESSERA_DO(bind_inputs(top_));
  frame_ = {&top_, &model_.opsets, nullptr, 0};
  TESSERA_TRY(const ImportOrder* order, order_of(model_.graph));
  return import_nodes(*order, frame_);
}

Result<graph::Graph> Importer::run() {
  TESSERA_DO(walk());
  std::vector<ValueId> outputs;
  std::vector<std::string> names;
  for (const ValueInfo& output : model_.graph.outputs) {
    const Binding* found = top_.find(output.name);
    if (found == nullptr) return invalid("output '{}' is computed by no node", output.name);
    const bool sequence = Sequences::is_sequence(found->id);
    if (found->kind == Binding::Kind::kForeign || sequence) {
      const std::string reason = fmt::format("output '{}' is of type {}", output.name,
                                             sequence ? "sequence" : found->type);
      issues_.push_back({ErrorCode::kUnsupported, {output.name, "output", reason}, reason});
    }
    if (found->kind != Binding::Kind::kValue || sequence) continue;
    outputs.push_back(found->id);
    names.push_back(output.name);
  }
  return builder_.finish(std::move(outputs), std::move(names));
}

Result<void> Importer::import_nodes(const ImportOrder& order, const Frame& frame) {
  const Frame caller = std::exchange(frame_, frame);
  for (const Node* node : order.nodes) {
    const std::size_t issues_before = issues_.size();
    Result<void> done = check_budget();
    if (done.ok()) {
      ++nodes_imported_;
      done = frame_.attributes != nullptr ? import_node(resolve_references(*node))
                                          : import_node(*node);
    }
    if (!done.ok()) {
      const Result<void> refused = refuse(*node, done.error(), issues_before);
      if (!refused.ok()) {
        frame_ = caller;
        return refused.error();
      }
    }
    if (frame_.depth == 0 &&
        !std::all_of(node->outputs.begin(), node->outputs.end(),
                     [&](const std::string& name) { return name.empty() || is_known(name); })) {
      unknown_.push_back(node);
    }
  }
  frame_ = caller;
  return {};
}

Result<void> Importer::check_budget() const {
  const auto made = static_cast<std::int64_t>(builder_.graph().nodes.size());
  if (made < options_.max_nodes && nodes_imported_ < options_.max_nodes) return {};
  return invalid("the model grows beyond {} nodes", options_.max_nodes);
}

Result<void> Importer::refuse(const Node& node, const Error& error, std::size_t issues_before) {
  std::string output;
  for (const std::string& name : node.outputs) {
    if (output.empty()) output = name;
  }
  const Error located = error.with_context(
      fmt::format("node '{}' ({}, output '{}')", node.name, label(node), output));
  if (!is_issue(error.code)) return located;
  for (const std::string& name : node.outputs) bind(name, {Binding::Kind::kPoisoned, kNoValue, ""});
  // A body that was refused has recorded why; its owner adds nothing.
  const bool recorded = std::exchange(body_poisoned_, false) || issues_.size() != issues_before;
  if (!recorded) {
    issues_.push_back({error.code,
                       {node.name.empty() ? output : node.name, label(node), error.message},
                       located.message});
  }
  return {};
}

Result<std::vector<Binding>> Importer::find_inputs(const Node& node) const {
  std::vector<Binding> inputs;
  for (const std::string& name : node.inputs) {
    if (name.empty()) {
      inputs.push_back({Binding::Kind::kOmitted, kNoValue, ""});
      continue;
    }
    const Binding* found = frame_.scope->find(name);
    if (found == nullptr) return invalid("input '{}' is defined nowhere", name);
    inputs.push_back(*found);
  }
  return inputs;
}

Result<void> Importer::import_node(const Node& node) {
  const auto function = functions_.find(FunctionKey(node.domain, node.op_type, node.overload));
  const bool is_function = function != functions_.end();
  if (!is_function && find_onnx_op(node.domain, node.op_type, opset(node)) == nullptr) {
    return make_error(ErrorCode::kUnsupported, "this operator is not supported yet");
  }
  TESSERA_TRY(std::vector<Binding> inputs, find_inputs(node));
  for (const Binding& input : inputs) {
    if (input.kind != Binding::Kind::kPoisoned) continue;
    for (const std::string& name : node.outputs) {
      bind(name, {Binding::Kind::kPoisoned, kNoValue, ""});
    }
    return {};
  }
  if (is_function) return call_function(*function->second, node, inputs);
  if (const ForeignTensor foreign = foreign_constant(node); !foreign.type.empty()) {
    for (const std::string& name : node.outputs) bind(name, foreign_binding(foreign));
    return {};
  }
  return import_operator(node, std::move(inputs));
}

namespace {

// Stored weights go to operators that take them, unless those read several values that are all
// known: then so is what they compute.
Result<std::vector<ValueId>> unpack_inputs(graph::GraphBuilder& b, const OnnxOp& op,
                                           const std::vector<ValueId>& ids) {
  const auto constant = [&](ValueId id) { return id >= 0 && b.constant_of(id) != nullptr; };
  if (op.takes_stored && ids.size() < 2) return ids;
  std::vector<ValueId> out;
  for (const ValueId id : ids) {
    TESSERA_TRY(const ValueId wide, b.unpacked(id));
    if (op.takes_stored && wide >= 0 && !constant(wide)) return ids;
    out.push_back(wide);
  }
  return out;
}

}  // namespace

Result<void> Importer::import_operator(const Node& node, std::vector<Binding> inputs) {
  const OnnxOp& op = *find_onnx_op(node.domain, node.op_type, opset(node));
  while (!inputs.empty() && inputs.back().kind == Binding::Kind::kOmitted) inputs.pop_back();
  TESSERA_TRY(std::vector<ValueId> ids, to_ids(node, op, inputs));
  std::vector<int> widened;
  Binding result;  // the kind and type of what the operator returns
  for (const Binding& input : inputs) {
    const NarrowType* narrow = find_narrow_type(input.type);
    widened.push_back(input.kind == Binding::Kind::kForeign && narrow ? narrow->bits : 0);
    if (widened.back() != 0 && op.widened == Widened::kMoved) result = input;
  }
  builder_.set_origin(node.name.empty() ? node.op_type : node.op_type + " " + node.name);
  TESSERA_TRY(ids, unpack_inputs(builder_, op, ids));
  const auto first_new = static_cast<ValueId>(builder_.graph().values.size());
  Context context{builder_, node,       opset(node),       std::move(ids),
                  *this,    sequences_, std::move(widened)};
  TESSERA_TRY(const std::vector<ValueId> outputs, op.import(context));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!context.wants(i)) continue;
    // Only where optional values pass through is an absent one a result.
    if (i >= outputs.size() || (outputs[i] == kNoValue && !op.takes_sequences)) {
      return make_error(ErrorCode::kUnsupported, "output {} ('{}') is not available", i,
                        node.outputs[i]);
    }
    result.id = outputs[i];
    bind(node.outputs[i], result.type.empty() ? to_binding(outputs[i]) : result);
    // Bodies and functions run several times: their names would repeat.
    if (frame_.depth == 0 && outputs[i] >= first_new) {
      builder_.name_value(outputs[i], node.outputs[i]);
    }
  }
  return {};
}

Node Importer::resolve_references(const Node& node) const {
  Node copy = node;
  copy.attributes.clear();
  for (const Attribute& a : node.attributes) {
    if (a.ref.empty()) {
      copy.attributes.push_back(a);
      continue;
    }
    const auto found = frame_.attributes->find(a.ref);
    if (found != frame_.attributes->end())
      copy.attributes.push_back({a.name, found->second.value, ""});
  }
  return copy;
}

Result<void> Importer::call_function(const Function& function, const Node& node,
                                     const std::vector<Binding>& inputs) {
  if (std::find(calls_.begin(), calls_.end(), &function) != calls_.end()) {
    return invalid("the function calls itself: calls would be nested too deep");
  }
  if (frame_.depth >= kMaxDepth) return invalid("calls and bodies are nested too deep");
  if (inputs.size() > function.inputs.size()) {
    return invalid("{} inputs for a function of {}", inputs.size(), function.inputs.size());
  }
  std::map<std::string, Attribute> attributes;
  for (const Attribute& a : node.attributes) attributes.emplace(a.name, a);
  for (const Attribute& a : function.default_attributes) attributes.emplace(a.name, a);
  Scope scope;
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    scope.names[function.inputs[i]] =
        i < inputs.size() ? inputs[i] : Binding{Binding::Kind::kOmitted, kNoValue, ""};
  }
  TESSERA_TRY(const ImportOrder* order, order_of(function));
  calls_.push_back(&function);
  const Result<void> body =
      import_nodes(*order, {&scope, &function.opsets, &attributes, frame_.depth + 1});
  calls_.pop_back();
  TESSERA_DO(body);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const Binding* found = i < function.outputs.size() ? scope.find(function.outputs[i]) : nullptr;
    if (found == nullptr) return invalid("the function does not compute output {}", i);
    bind(node.outputs[i], *found);
  }
  return {};
}

Result<std::vector<ValueId>> Importer::import_body(const Graph& body,
                                                   const std::vector<ValueId>& args) {
  if (frame_.depth >= kMaxDepth) return invalid("calls and bodies are nested too deep");
  if (args.size() != body.inputs.size()) {
    return invalid("the body has {} inputs, {} are given", body.inputs.size(), args.size());
  }
  Scope scope;
  scope.outer = frame_.scope;
  bind_initializers(body, scope);
  for (std::size_t i = 0; i < args.size(); ++i) {
    scope.names[body.inputs[i].name] = to_binding(args[i]);
  }
  TESSERA_TRY(const ImportOrder* order, order_of(body));
  Frame inner = frame_;
  inner.scope = &scope;
  ++inner.depth;
  TESSERA_DO(import_nodes(*order, inner));
  std::vector<ValueId> outputs;
  for (const ValueInfo& output : body.outputs) {
    const Binding* found = scope.find(output.name);
    if (found == nullptr) return invalid("output '{}' of the body is defined nowhere", output.name);
    if (found->kind == Binding::Kind::kPoisoned) body_poisoned_ = true;
    if (found->kind != Binding::Kind::kValue) {
      return make_error(ErrorCode::kUnsupported, "output '{}' of the body is not a tensor",
                        output.name);
    }
    outputs.push_back(found->id);
  }
  return outputs;
}

bool Importer::is_known(const std::string& name) const {
  const Binding* found = top_.find(name);
  return found != nullptr && found->kind == Binding::Kind::kValue &&
         !Sequences::is_sequence(found->id);
}

namespace {

// Every name that a node reads, also from inside its bodies. Names that bodies define for
// themselves may be among them.
void collect_names(const Node& node, std::set<std::string>& names) {
  for (const std::string& name : node.inputs) {
    if (!name.empty()) names.insert(name);
  }
  for (const Attribute& a : node.attributes) {
    const auto* body = std::get_if<std::shared_ptr<const Graph>>(&a.value);
    if (body == nullptr) continue;
    for (const Node& inner : (*body)->nodes) collect_names(inner, names);
    for (const ValueInfo& output : (*body)->outputs) names.insert(output.name);
  }
}

}  // namespace

Result<SplitModel> Importer::run_split() {
  TESSERA_DO(walk());
  SplitModel out;
  // Backwards: nodes that only known ones read (a sequence, for example) have done their work.
  std::set<std::string> wanted, later_names, read;
  for (const ValueInfo& output : model_.graph.outputs) {
    if (!is_known(output.name)) wanted.insert(output.name);
  }
  std::vector<const Node*> waiting;
  for (auto node = unknown_.rbegin(); node != unknown_.rend(); ++node) {
    const std::vector<std::string>& made = (*node)->outputs;
    if (std::none_of(made.begin(), made.end(), [&](const auto& n) { return wanted.contains(n); })) {
      continue;
    }
    collect_names(**node, wanted);
    later_names.insert(made.begin(), made.end());
    waiting.insert(waiting.begin(), *node);
  }
  for (const Node* node : waiting) {
    std::set<std::string> names;
    collect_names(*node, names);
    const bool ready = std::none_of(names.begin(), names.end(), [&](const std::string& name) {
      return later_names.contains(name) && !is_known(name);
    });
    (ready ? out.ready : out.later).push_back(*node);
    read.insert(names.begin(), names.end());
  }
  std::vector<ValueId> outputs;
  std::vector<std::string> names;
  const graph::Graph& graph = builder_.graph();
  const auto add_output = [&](const std::string& name) {
    if (!is_known(name) || std::find(names.begin(), names.end(), name) != names.end()) return;
    outputs.push_back(top_.find(name)->id);
    names.push_back(name);
  };
  for (const ValueInfo& output : model_.graph.outputs) add_output(output.name);
  for (const std::string& name : read) {
    if (!is_known(name)) continue;
    const ValueId id = top_.find(name)->id;
    // By name: a node that does nothing (Identity, a Cast to the same type) gives the value of an
    // input a second name, under which it is an output of the known part.
    const bool input = std::any_of(model_.graph.inputs.begin(), model_.graph.inputs.end(),
                                   [&](const ValueInfo& info) { return info.name == name; });
    if (const HostTensor* constant = graph.constant(id)) {
      out.constants.push_back({name, *constant});
    } else if (!input) {
      add_output(name);
    }
  }
  for (const Initializer& i : model_.graph.initializers) {
    if (read.contains(i.name) && std::holds_alternative<ForeignTensor>(i.value)) {
      out.constants.push_back(i);
    }
  }
  out.known = builder_.finish(std::move(outputs), std::move(names));
  return out;
}

}  // namespace tessera::onnx
