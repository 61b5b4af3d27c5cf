#include "tessera/app/compile/run_loop.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {
namespace {

using Tensors = std::vector<HostTensor>;

// Of a loop that may end at any time: steps that are done node by node, if they are small, before
// the body is worth compiling.
constexpr std::int64_t kStepsBeforeCompiling = 128;

struct ScanInput {
  HostTensor tensor;
  std::size_t axis = 0;
  bool reverse = false;
};

// A Loop or a Scan (of opset 9 and later) as its attributes and inputs describe it.
struct Loop {
  const onnx::Graph* body = nullptr;
  bool counts = false;     // Loop: the body takes a counter and a condition, and gives one
  bool asks = false;       // Loop: the condition counts
  std::int64_t trips = 0;  // at most
  Tensors carried;         // before the first step
  std::vector<ScanInput> scanned;
  std::vector<std::int64_t> out_axes, out_reverse;  // by scan output
};

template <class T>
T attribute(const onnx::Node& node, const char* name, T absent) {
  const onnx::Attribute* found = node.find(name);
  const T* value = found != nullptr ? std::get_if<T>(&found->value) : nullptr;
  return value != nullptr ? *value : absent;
}

const onnx::Graph* body_of(const onnx::Node& node) {
  return attribute<std::shared_ptr<const onnx::Graph>>(node, "body", nullptr).get();
}

// Copies between a tensor and the slab at `index` of `axis` of a larger one.
void copy_slab(HostTensor& slab, HostTensor& whole, std::size_t axis, std::int64_t index,
               bool into_whole) {
  const Shape& shape = whole.shape();
  const auto cut = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const std::int64_t outer = elements(Shape(shape.begin(), cut));
  const auto run =
      static_cast<std::size_t>(elements(Shape(cut + 1, shape.end())) * size_bytes(whole.dtype()));
  for (std::int64_t o = 0; o < outer && run > 0; ++o) {
    std::byte* here = whole.as<std::byte>() + static_cast<std::size_t>(o * *cut + index) * run;
    std::byte* there = slab.as<std::byte>() + static_cast<std::size_t>(o) * run;
    std::memcpy(into_whole ? here : there, into_whole ? there : here, run);
  }
}

HostTensor slab_of(ScanInput& input, std::int64_t step) {
  Shape shape = input.tensor.shape();
  const std::int64_t size = shape[input.axis];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(input.axis));
  HostTensor slab(input.tensor.dtype(), shape);
  copy_slab(slab, input.tensor, input.axis, input.reverse ? size - 1 - step : step, false);
  return slab;
}

// All parts along a new axis; empty when they do not fit together.
std::optional<HostTensor> stacked(Tensors& parts, std::int64_t axis, bool reverse) {
  Shape shape = parts[0].shape();
  const auto rank = static_cast<std::int64_t>(shape.size()) + 1;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  shape.insert(shape.begin() + axis, static_cast<std::int64_t>(parts.size()));
  HostTensor whole(parts[0].dtype(), shape);
  if (reverse) std::reverse(parts.begin(), parts.end());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    copy_slab(parts[i], whole, static_cast<std::size_t>(axis), static_cast<std::int64_t>(i), true);
  }
  return whole;
}

// Reads a node; empty for one that is not well-formed (import says what is wrong with it).
class LoopReader {
 public:
  LoopReader(const onnx::Node& node, const LoopContext& context) : node_(node), context_(context) {}

  std::optional<Loop> read() {
    Loop loop;
    loop.body = body_of(node_);
    if (loop.body == nullptr || !node_.domain.empty()) return std::nullopt;
    const bool known = node_.op_type == "Loop" ? read_loop(loop) : read_scan(loop);
    if (!known) return std::nullopt;
    return loop;
  }

 private:
  std::optional<HostTensor> value(std::size_t input) const {
    if (input >= node_.inputs.size()) return std::nullopt;
    const std::string& name = node_.inputs[input];
    const auto found = context_.values.find(name);
    if (found != context_.values.end()) return found->second;
    for (const onnx::Initializer& i : context_.constants) {
      const auto* tensor = std::get_if<HostTensor>(&i.value);
      if (i.name == name && tensor != nullptr) return *tensor;
    }
    return std::nullopt;
  }
  bool given(std::size_t input) const {
    return input < node_.inputs.size() && !node_.inputs[input].empty();
  }

  bool read_loop(Loop& loop) const {
    loop.counts = true;
    loop.asks = given(1);
    loop.trips = INT64_MAX;
    if (given(0)) {
      const auto trips = value(0);
      if (!trips || trips->size() != 1 || !is_int(trips->dtype())) return false;
      loop.trips = trips->get_int(0);
    }
    if (loop.asks) {
      const auto condition = value(1);
      if (!condition || condition->size() != 1 || condition->get_int(0) == 0) return false;
    }
    if (!read_carried(loop, 2, node_.inputs.size())) return false;
    const std::size_t carried = loop.carried.size(), outputs = loop.body->outputs.size();
    if (loop.body->inputs.size() != carried + 2 || outputs < carried + 1) return false;
    loop.out_axes.assign(outputs - carried - 1, 0);
    loop.out_reverse = loop.out_axes;
    return true;
  }

  bool read_carried(Loop& loop, std::size_t first, std::size_t end) const {
    for (std::size_t i = first; i < end; ++i) {
      const auto tensor = value(i);
      if (!tensor) return false;
      loop.carried.push_back(*tensor);
    }
    return true;
  }

  bool read_scan(Loop& loop) const {
    const auto opset = context_.model.opsets.find("");
    if (node_.op_type != "Scan" || opset == context_.model.opsets.end() || opset->second < 9)
      return false;
    const auto scans = attribute<std::int64_t>(node_, "num_scan_inputs", 0);
    const auto inputs = static_cast<std::int64_t>(node_.inputs.size());
    if (scans < 1 || scans > inputs) return false;
    const auto states = static_cast<std::size_t>(inputs - scans);
    if (!read_carried(loop, 0, states) || loop.body->inputs.size() != node_.inputs.size() ||
        loop.body->outputs.size() < states)
      return false;
    const std::vector<std::int64_t> zeros(static_cast<std::size_t>(scans), 0),
        none(loop.body->outputs.size() - states, 0);
    const auto axes = attribute(node_, "scan_input_axes", zeros);
    const auto reverse = attribute(node_, "scan_input_directions", zeros);
    loop.out_axes = attribute(node_, "scan_output_axes", none);
    loop.out_reverse = attribute(node_, "scan_output_directions", none);
    if (axes.size() != zeros.size() || reverse.size() != zeros.size() ||
        loop.out_axes.size() != none.size() || loop.out_reverse.size() != none.size())
      return false;
    for (std::size_t k = 0; k < zeros.size(); ++k) {
      if (!add_scanned(loop, states + k, axes[k], reverse[k] != 0)) return false;
    }
    return true;
  }

  bool add_scanned(Loop& loop, std::size_t input, std::int64_t axis, bool reverse) const {
    const auto tensor = value(input);
    if (!tensor) return false;
    const auto rank = static_cast<std::int64_t>(tensor->shape().size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return false;
    const std::int64_t length = tensor->shape()[static_cast<std::size_t>(axis)];
    if (!loop.scanned.empty() && length != loop.trips) return false;
    loop.trips = length;
    loop.scanned.push_back({*tensor, static_cast<std::size_t>(axis), reverse});
    return true;
  }

  const onnx::Node& node_;
  const LoopContext& context_;
};

// One body, for every step.
class Body {
 public:
  Body(Loop loop, const LoopContext& context) : loop_(std::move(loop)), context_(context) {}

  Result<std::optional<LoopRun>> run() {
    const std::int64_t limit = context_.options.import.max_loop_steps;
    if (loop_.trips > limit && !loop_.asks) return onnx::too_many_steps(limit);
    Result<graph::Graph> imported = import();
    if (!imported.ok()) {
      if (is_refusal(imported.error())) return std::optional<LoopRun>();
      return imported.error();
    }
    graph_ = std::move(*imported);
    if (!fits()) return std::optional<LoopRun>();
    TESSERA_DO(prepare());
    const std::size_t first = loop_.counts ? 1 : 0;
    std::vector<Tensors> parts(loop_.out_axes.size());
    bool running = true;
    for (std::int64_t step = 0; running && step < loop_.trips; ++step) {
      if (step == limit) return onnx::too_many_steps(limit);
      TESSERA_TRY(Tensors outputs, call(step));
      running = !loop_.asks || outputs[0].get_int(0) != 0;
      for (std::size_t i = 0; i < loop_.carried.size(); ++i)
        loop_.carried[i] = std::move(outputs[first + i]);
      for (std::size_t i = 0; i < parts.size(); ++i)
        parts[i].push_back(std::move(outputs[first + loop_.carried.size() + i]));
    }
    return collect(parts);
  }

 private:
  static bool is_refusal(const Error& error) {
    return error.code == ErrorCode::kDataDependent || error.code == ErrorCode::kUnsupported;
  }

  // The body's inputs at a step, in its order.
  Tensors inputs_at(std::int64_t step) {
    Tensors inputs;
    if (loop_.counts) {
      inputs.push_back(scalar(0, DType::kI64, step));
      inputs.push_back(scalar(1, DType::kBool, 1));
    }
    inputs.insert(inputs.end(), loop_.carried.begin(), loop_.carried.end());
    for (ScanInput& input : loop_.scanned) inputs.push_back(slab_of(input, step));
    return inputs;
  }

  // A counter or condition as the body declares it: rank 0, or one element of rank 1.
  HostTensor scalar(std::size_t input, DType dtype, std::int64_t value) const {
    const onnx::ValueInfo& declared = loop_.body->inputs[input];
    HostTensor t(dtype, declared.has_shape && declared.dims.size() == 1 ? Shape{1} : Shape{});
    t.set_int(0, value);
    return t;
  }

  // The body as a model of its own: what it reads from outside is constant in all steps.
  Result<graph::Graph> import() {
    onnx::Model part;
    part.ir_version = context_.model.ir_version;
    part.opsets = context_.model.opsets;
    part.functions = context_.model.functions;
    part.graph = *loop_.body;
    std::set<std::string> own, read;
    for (const onnx::Initializer& i : part.graph.initializers) own.insert(i.name);
    for (const onnx::Node& inner : part.graph.nodes) {
      own.insert(inner.outputs.begin(), inner.outputs.end());
      collect_names(inner, read);
    }
    for (const onnx::ValueInfo& output : part.graph.outputs) read.insert(output.name);
    const Tensors inputs = inputs_at(0);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      onnx::ValueInfo& info = part.graph.inputs[i];
      own.insert(info.name);
      info.type = to_text(inputs[i].dtype());
      info.has_shape = true;
      info.dims.clear();
      for (const std::int64_t d : inputs[i].shape()) info.dims.push_back({d, ""});
    }
    for (const auto& [name, tensor] : context_.values) {
      if (read.contains(name) && own.insert(name).second)
        part.graph.initializers.push_back({name, tensor});
    }
    for (const onnx::Initializer& i : context_.constants) {
      if (read.contains(i.name) && own.insert(i.name).second) part.graph.initializers.push_back(i);
    }
    onnx::ImportOptions import;
    import.builder = context_.options.import.builder;
    if (!import.builder.evaluate) import.builder.evaluate = std::ref(context_.evaluator);
    import.max_nodes = context_.options.import.max_nodes;
    import.max_loop_steps = context_.options.import.max_loop_steps;
    import.unrolled_nodes = kUnrolledNodes;
    return onnx::import_model(part, import);
  }

  // Whether every step is like the first.
  bool fits() const {
    const std::size_t first = loop_.counts ? 1 : 0;
    if (loop_.trips < 1 || graph_.outputs.size() != loop_.body->outputs.size() ||
        graph_.inputs.size() != loop_.body->inputs.size())
      return false;
    if (loop_.asks && elements(graph_.shape(graph_.outputs[0])) != 1) return false;
    for (std::size_t i = 0; i < loop_.carried.size(); ++i) {
      const HostTensor& t = loop_.carried[i];
      if (!(graph_.type(graph_.outputs[first + i]) == graph::TensorType{t.dtype(), t.shape()}))
        return false;
    }
    return true;
  }

  // Whether the condition that the body computes can end the loop before all trips are done.
  bool may_end() const {
    if (!loop_.asks) return false;
    const graph::ValueId condition = graph_.outputs[0];
    const HostTensor* constant = graph_.constant(condition);
    return condition != graph_.inputs[1] && !(constant != nullptr && constant->get_int(0) != 0);
  }

  Result<void> prepare() {
    known_long_ = loop_.trips >= kStepsBeforeCompiling && !may_end();
    TESSERA_TRY(task::PlannedGraph planned, plan_graph(std::move(graph_), context_.options));
    graph_ = std::move(planned.graph);
    tasks_ = std::move(planned.tasks);
    for (const task::Task& t : tasks_.tasks) work_ += t.flops * t.weight;
    return {};
  }

  Result<Tensors> call(std::int64_t step) {
    const Tensors inputs = inputs_at(step);
    const bool few = !known_long_ && step < kStepsBeforeCompiling &&
                     work_ * static_cast<double>(step + 1) < kWorthCompiling;
    if (graph_.nodes.empty() || (few && !runner_)) {
      // What the evaluator cannot do by itself (it knows no constants) is left to the compiler.
      Result<Tensors> outputs = evaluate_nodes(graph_, context_.evaluator, inputs);
      if (outputs.ok() || graph_.nodes.empty()) return outputs;
    }
    if (!runner_) {
      const CompileOptions& options = context_.options;
      TESSERA_TRY(compiled_,
                  exec::compile_model(graph_, tasks_, options.target, build_options(options)));
      runner_.emplace(compiled_, context_.device);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner_->set_input(i, inputs[i]));
    TESSERA_DO(runner_->run());
    Tensors outputs;
    for (std::size_t i = 0; i < compiled_.output_types.size(); ++i)
      outputs.push_back(runner_->output(i));
    return outputs;
  }

  Result<std::optional<LoopRun>> collect(std::vector<Tensors>& parts) {
    LoopRun out{std::move(loop_.carried), static_cast<std::int64_t>(compiled_.kernels.size())};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      auto whole = stacked(parts[i], loop_.out_axes[i], loop_.out_reverse[i] != 0);
      if (!whole) return std::optional<LoopRun>();
      out.outputs.push_back(std::move(*whole));
    }
    return std::optional(std::move(out));
  }

  Loop loop_;
  const LoopContext& context_;
  graph::Graph graph_;
  task::TaskGraph tasks_;
  double work_ = 0;  // of one step
  bool known_long_ = false;
  exec::CompiledModel compiled_;
  std::optional<exec::ModelRunner> runner_;
};

}  // namespace

void collect_names(const onnx::Node& node, std::set<std::string>& names) {
  names.insert(node.inputs.begin(), node.inputs.end());
  for (const onnx::Attribute& a : node.attributes) {
    const auto* body = std::get_if<std::shared_ptr<const onnx::Graph>>(&a.value);
    if (body == nullptr) continue;
    for (const onnx::Node& inner : (*body)->nodes) collect_names(inner, names);
    for (const onnx::ValueInfo& output : (*body)->outputs) names.insert(output.name);
  }
}

Result<Tensors> evaluate_nodes(const graph::Graph& graph, NodeEvaluator& evaluator,
                               const Tensors& inputs) {
  Tensors tensors(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].is_constant) tensors[i] = graph.values[i].constant;
  }
  const auto at = [&](graph::ValueId id) -> HostTensor& {
    return tensors[static_cast<std::size_t>(id)];
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) at(graph.inputs[i]) = inputs[i];
  for (const graph::Node& node : graph.nodes) {
    std::vector<const HostTensor*> args;
    for (const graph::ValueId id : node.inputs) {
      args.push_back(id == graph::kNoValue ? nullptr : &at(id));
    }
    auto results = evaluator(*node.op, node.attrs, args);
    if (!results) return results.error().with_context(node.origin);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      at(node.outputs[i]) = std::move((*results)[i]);
    }
  }
  Tensors outputs;
  for (const graph::ValueId id : graph.outputs) outputs.push_back(at(id));
  return outputs;
}

Result<std::optional<LoopRun>> run_loop(const onnx::Node& node, const LoopContext& context) {
  std::optional<Loop> loop = LoopReader(node, context).read();
  if (!loop) return std::optional<LoopRun>();
  Result<std::optional<LoopRun>> ran = Body(std::move(*loop), context).run();
  if (!ran) return ran.error().with_context(fmt::format("node '{}' ({})", node.name, node.op_type));
  return ran;
}

}  // namespace tessera::app
