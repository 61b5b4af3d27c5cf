#include "tessera/app/compile/section_step.h"

#include <algorithm>
#include <functional>

namespace tessera::app {
namespace {

class NodesStep final : public SectionStep {
 public:
  NodesStep(onnx::Model part, SectionContext& context)
      : part_(std::move(part)), context_(context) {}

  Result<std::optional<Tensors>> run(const Tensors& inputs) override {
    std::map<std::string, HostTensor> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      onnx::ValueInfo& info = part_.graph.inputs[i];
      info = info_of(info.name, inputs[i]);
      values[info.name] = inputs[i];
    }
    Result<Tensors> outputs =
        run_eager(part_, values, context_.evaluator, section_import(context_));
    if (!outputs && outputs.error().code == ErrorCode::kUnsupported && instead)
      return std::optional<Tensors>();
    if (!outputs) return outputs.error();
    return std::optional(std::move(*outputs));
  }

 private:
  onnx::Model part_;
  SectionContext& context_;
};

class RestStep final : public SectionStep {
 public:
  explicit RestStep(Section section) : section_(std::move(section)) {}

  Result<std::optional<Tensors>> run(const Tensors& inputs) override {
    TESSERA_TRY(Tensors outputs, section_.run(inputs));
    return std::optional(std::move(outputs));
  }

 private:
  Section section_;
};

// A body can be no section: sequences, shapes that only import knows.
bool is_refusal(const Error& error) {
  return error.code == ErrorCode::kDataDependent || error.code == ErrorCode::kUnsupported;
}

// The body of an If, Loop or Scan. Behind its own inputs come values of the scope around it.
struct Body {
  Section section;
  std::vector<std::size_t> reads;  // of the scope
};

Body make_body(const StepScope& scope, const onnx::Graph& graph) {
  std::set<std::string> own, read;
  for (const onnx::ValueInfo& input : graph.inputs) own.insert(input.name);
  for (const onnx::Initializer& i : graph.initializers) own.insert(i.name);
  for (const onnx::Node& node : graph.nodes) {
    own.insert(node.outputs.begin(), node.outputs.end());
    collect_names(node, read);
  }
  for (const onnx::ValueInfo& output : graph.outputs) read.insert(output.name);
  onnx::Model part;
  part.ir_version = scope.context.model.ir_version;
  part.opsets = scope.context.model.opsets;
  part.functions = scope.context.model.functions;
  part.graph = graph;
  for (const onnx::Initializer& i : scope.constants) {
    if (read.contains(i.name) && own.insert(i.name).second) part.graph.initializers.push_back(i);
  }
  std::vector<std::size_t> reads;
  for (const std::string& name : read) {
    const std::optional<std::size_t> slot = scope.slots.find(name);
    if (!slot || !own.insert(name).second) continue;
    part.graph.inputs.push_back({name, "undefined", false, {}});
    reads.push_back(*slot);
  }
  return {Section(std::move(part), scope.context,
                  {.counted = false, .at_once = scope.place.at_once, .decides = {}}),
          std::move(reads)};
}

class IfStep final : public SectionStep {
 public:
  IfStep(Body then, Body otherwise) : then_(std::move(then)), else_(std::move(otherwise)) {}

  // Inputs: the condition, what the first branch reads, what the second reads.
  Result<std::optional<Tensors>> run(const Tensors& inputs) override {
    if (inputs[0].size() != 1) return std::optional<Tensors>();
    const bool condition = inputs[0].get_int(0) != 0;
    Body& body = condition ? then_ : else_;
    const auto first =
        inputs.begin() + 1 + static_cast<std::ptrdiff_t>(condition ? 0 : then_.reads.size());
    Result<Tensors> outputs =
        body.section.run({first, first + static_cast<std::ptrdiff_t>(body.reads.size())});
    if (!outputs && is_refusal(outputs.error())) return std::optional<Tensors>();
    if (!outputs) return outputs.error();
    return std::optional(std::move(*outputs));
  }

 private:
  Body then_, else_;
};

class LoopStep final : public SectionStep {
 public:
  LoopStep(const onnx::Node& node, LoopNode loop, Body body, SectionContext& context)
      : node_(node), loop_(std::move(loop)), body_(std::move(body)), context_(context) {}

  // Inputs: those of the node, then what the body reads around it.
  Result<std::optional<Tensors>> run(const Tensors& inputs) override {
    Run run;
    if (!begin(inputs, &run)) return std::optional<Tensors>();
    const std::int64_t limit = context_.options.import.max_loop_steps;
    const Error endless = onnx::too_many_steps(limit).with_context(
        fmt::format("node '{}' ({})", node_.name, node_.op_type));
    if (run.trips > limit && !run.asks) return endless;
    if (!run.asks && run.trips >= context_.runs_before_compiling) body_.section.compile_at_once();
    for (std::int64_t step = 0; run.running && step < run.trips; ++step) {
      if (step == limit) return endless;
      Result<Tensors> outputs = body_.section.run(operands(inputs, run, step));
      if (!outputs && step == 0 && is_refusal(outputs.error())) return std::optional<Tensors>();
      if (!outputs)
        return outputs.error().with_context(
            fmt::format("node '{}' ({})", node_.name, node_.op_type));
      if (!take(std::move(*outputs), &run)) return std::optional<Tensors>();
    }
    return finish(std::move(run));
  }

 private:
  struct Run {
    std::int64_t trips = INT64_MAX;  // at most
    bool asks = false;               // the condition counts
    bool running = true;
    Tensors carried;
    std::vector<Tensors> parts;  // by stacked output
  };

  bool given(std::size_t input) const {
    return input < node_.inputs.size() && !node_.inputs[input].empty();
  }

  // False for what import explains or knows better: no step at all, inputs that do not fit.
  bool begin(const Tensors& inputs, Run* run) const {
    if (loop_.counts && given(0)) {
      if (inputs[0].size() != 1 || !is_int(inputs[0].dtype())) return false;
      run->trips = inputs[0].get_int(0);
    }
    run->asks = loop_.counts && given(1);
    if (run->asks && (inputs[1].size() != 1 || inputs[1].get_int(0) == 0)) return false;
    for (std::size_t i = 0; i < loop_.carried; ++i) {
      if (!given(loop_.first + i)) return false;
      run->carried.push_back(inputs[loop_.first + i]);
    }
    for (std::size_t k = 0; k < loop_.scanned.size(); ++k) {
      const Shape& shape = inputs[loop_.first + loop_.carried + k].shape();
      const auto rank = static_cast<std::int64_t>(shape.size());
      std::int64_t axis = loop_.scanned[k].axis;
      if (axis < 0) axis += rank;
      if (axis < 0 || axis >= rank) return false;
      const std::int64_t length = shape[static_cast<std::size_t>(axis)];
      if (k > 0 && length != run->trips) return false;
      run->trips = length;
    }
    run->parts.resize(loop_.stacked.size());
    return run->trips >= 1;
  }

  Tensors operands(const Tensors& inputs, const Run& run, std::int64_t step) const {
    Tensors out;
    out.reserve(loop_.operands() + body_.reads.size());
    if (loop_.counts) {
      out.push_back(body_scalar(*loop_.body, 0, DType::kI64, step));
      out.push_back(body_scalar(*loop_.body, 1, DType::kBool, 1));
    }
    out.insert(out.end(), run.carried.begin(), run.carried.end());
    for (std::size_t k = 0; k < loop_.scanned.size(); ++k)
      out.push_back(slab_of(inputs[loop_.first + loop_.carried + k], loop_.scanned[k], step));
    out.insert(out.end(), inputs.end() - static_cast<std::ptrdiff_t>(body_.reads.size()),
               inputs.end());
    return out;
  }

  // False: the condition is not one.
  bool take(Tensors outputs, Run* run) const {
    std::size_t next = 0;
    if (loop_.counts) {
      const HostTensor& condition = outputs[next++];
      if (run->asks && condition.size() != 1) return false;
      run->running = !run->asks || condition.get_int(0) != 0;
    }
    for (HostTensor& value : run->carried) value = std::move(outputs[next++]);
    for (Tensors& part : run->parts) part.push_back(std::move(outputs[next++]));
    return true;
  }

  Result<std::optional<Tensors>> finish(Run run) const {
    Tensors out = std::move(run.carried);
    for (std::size_t k = 0; k < run.parts.size(); ++k) {
      std::optional<HostTensor> whole = stacked(run.parts[k], loop_.stacked[k]);
      if (!whole) return std::optional<Tensors>();
      out.push_back(std::move(*whole));
    }
    return std::optional(std::move(out));
  }

  onnx::Node node_;
  LoopNode loop_;
  Body body_;
  SectionContext& context_;
};

const onnx::Graph* branch_of(const onnx::Node& node, const char* name) {
  const onnx::Attribute* found = node.find(name);
  const auto* graph =
      found ? std::get_if<std::shared_ptr<const onnx::Graph>>(&found->value) : nullptr;
  return graph ? graph->get() : nullptr;
}

}  // namespace

std::optional<std::size_t> Slots::find(const std::string& name) const {
  const auto found = at_.find(name);
  if (found == at_.end()) return std::nullopt;
  return found->second;
}

onnx::ValueInfo info_of(const std::string& name, const HostTensor& tensor) {
  onnx::ValueInfo info{name, std::string(to_text(tensor.dtype())), true, {}};
  for (const std::int64_t d : tensor.shape()) info.dims.push_back({d, ""});
  return info;
}

onnx::ImportOptions section_import(const SectionContext& context) {
  onnx::ImportOptions import;
  const onnx::ImportOptions& given = context.options.import;
  import.builder = given.builder;
  if (!import.builder.evaluate) import.builder.evaluate = std::ref(context.evaluator);
  import.max_nodes = given.max_nodes;
  import.max_loop_steps = given.max_loop_steps;
  import.override_declared = true;
  return import;
}

onnx::Model StepScope::part_of(std::vector<onnx::Node> nodes,
                               const std::set<std::string>& outputs) const {
  onnx::Model part;
  part.ir_version = context.model.ir_version;
  part.opsets = context.model.opsets;
  part.functions = context.model.functions;
  part.graph.name = context.model.graph.name;
  std::set<std::string> read, constant;
  for (const onnx::Node& node : nodes) collect_names(node, read);
  // Another step for the same nodes may have given their outputs slots.
  for (const onnx::Node& node : nodes) {
    for (const std::string& name : node.outputs) read.erase(name);
  }
  for (const onnx::Initializer& i : constants) {
    if (read.contains(i.name)) part.graph.initializers.push_back(i);
    constant.insert(i.name);
  }
  for (const std::string& name : read) {
    if (slots.find(name) && !constant.contains(name))
      part.graph.inputs.push_back({name, "undefined", false, {}});
  }
  for (const onnx::Node& node : nodes) {
    for (const std::string& name : node.outputs) {
      if (!name.empty() && outputs.contains(name))
        part.graph.outputs.push_back({name, "undefined", false, {}});
    }
  }
  part.graph.nodes = std::move(nodes);
  return part;
}

void give_slots(const StepScope& scope, const std::vector<std::string>& names, SectionStep* step) {
  for (const std::string& name : names) {
    const std::optional<std::size_t> slot = scope.slots.find(name);
    step->writes.push_back(name.empty() ? kOmitted : slot ? *slot : scope.slots.add(name));
  }
}

namespace {

// Reads and writes of a step that runs a part.
std::unique_ptr<SectionStep> connected(const StepScope& scope, const onnx::Graph& graph,
                                       std::unique_ptr<SectionStep> step) {
  for (const onnx::ValueInfo& input : graph.inputs)
    step->reads.push_back(*scope.slots.find(input.name));
  std::vector<std::string> names;
  for (const onnx::ValueInfo& output : graph.outputs) names.push_back(output.name);
  give_slots(scope, names, step.get());
  return step;
}

}  // namespace

std::unique_ptr<SectionStep> make_nodes_step(const StepScope& scope, std::vector<onnx::Node> nodes,
                                             const std::set<std::string>& outputs) {
  const auto count = static_cast<std::int64_t>(nodes.size());
  const onnx::Model part = scope.part_of(std::move(nodes), outputs);
  auto step = connected(scope, part.graph, std::make_unique<NodesStep>(part, scope.context));
  step->nodes = count;
  return step;
}

std::unique_ptr<SectionStep> make_rest_step(const StepScope& scope, std::vector<onnx::Node> nodes,
                                            const std::set<std::string>& outputs,
                                            std::set<std::string> decides) {
  const onnx::Model part = scope.part_of(std::move(nodes), outputs);
  const SectionPlace place{scope.place.depth + 1, scope.place.counted, scope.place.at_once,
                           std::move(decides)};
  return connected(scope, part.graph,
                   std::make_unique<RestStep>(Section(part, scope.context, place)));
}

std::unique_ptr<SectionStep> make_control_step(const StepScope& scope, const onnx::Node& node) {
  std::unique_ptr<SectionStep> step;
  std::vector<std::string> inputs = node.inputs;
  std::vector<std::size_t> around;
  if (node.op_type == "If") {
    const onnx::Graph* then = branch_of(node, "then_branch");
    const onnx::Graph* otherwise = branch_of(node, "else_branch");
    if (!then || !otherwise || inputs.size() != 1 || inputs[0].empty() ||
        then->outputs.size() != node.outputs.size() ||
        otherwise->outputs.size() != node.outputs.size()) {
      return nullptr;
    }
    Body first = make_body(scope, *then), second = make_body(scope, *otherwise);
    around = first.reads;
    around.insert(around.end(), second.reads.begin(), second.reads.end());
    step = std::make_unique<IfStep>(std::move(first), std::move(second));
  } else {
    const auto opset = scope.context.model.opsets.find("");
    if (opset == scope.context.model.opsets.end()) return nullptr;
    std::optional<LoopNode> loop = read_loop_node(node, opset->second);
    if (!loop || node.outputs.size() > loop->carried + loop->stacked.size()) return nullptr;
    Body body = make_body(scope, *loop->body);
    around = body.reads;
    step = std::make_unique<LoopStep>(node, std::move(*loop), std::move(body), scope.context);
  }
  step->nodes = 1;
  for (const std::string& name : inputs) {
    const std::optional<std::size_t> slot = scope.slots.find(name);
    if (!slot && !name.empty()) return nullptr;
    step->reads.push_back(name.empty() ? kOmitted : *slot);
  }
  step->reads.insert(step->reads.end(), around.begin(), around.end());
  give_slots(scope, node.outputs, step.get());
  return step;
}

}  // namespace tessera::app
