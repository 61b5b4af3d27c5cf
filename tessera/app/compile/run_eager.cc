#include "tessera/app/compile/run_eager.h"

#include <cstring>
#include <functional>

#include "tessera/machine/runtime/device/cpu_device.h"

namespace tessera::app {
namespace {

constexpr std::size_t kMostKept = 1024;  // definitions with their code

double work(const te::Dag& dag) {
  double points = 0;
  for (const te::Op& op : dag.ops) {
    double n = 1;
    for (const te::Axis& axis : op.axes) n *= static_cast<double>(axis.extent);
    for (const te::Axis& axis : op.reduce_axes) n *= static_cast<double>(axis.extent);
    points += n;
  }
  return points;
}

HostTensor reshaped(const HostTensor& t, const graph::TensorType& type) {
  if (t.shape() == type.shape) return t;
  HostTensor out(type.dtype, type.shape);
  std::memcpy(out.data(), t.data(), out.bytes());
  return out;
}

}  // namespace

Result<std::vector<HostTensor>> NodeEvaluator::operator()(
    const graph::OpDef& op, const graph::Attrs& attrs,
    const std::vector<const HostTensor*>& inputs) {
  if (!op.define || op.evaluate) return graph::evaluate_node(op, attrs, inputs);
  std::vector<graph::TensorType> types;
  types.reserve(inputs.size());
  graph::NodeView known{attrs, {}, inputs}, node{attrs, {}, {}};
  te::DagBuilder b(op.name);
  std::vector<ir::Buffer> buffers;
  std::vector<const HostTensor*> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor* t = inputs[i];
    if (t) types.push_back({t->dtype(), t->shape()});
    known.types.push_back(t ? &types.back() : nullptr);
    // Values stay out of the definition, so that the next node of this type finds the same code.
    node.constants.push_back(nullptr);
    buffers.push_back(t ? b.input(fmt::format("in{}", i), t->dtype(), t->shape()) : ir::Buffer());
    if (t) given.push_back(t);
  }
  node.types = known.types;
  // Sizes and checks may need the values: indices of a table are read unchecked by the code.
  TESSERA_TRY(const std::vector<graph::TensorType> results, op.infer(known));
  for (const graph::TensorType& type : results) {
    TESSERA_TRY(const std::int64_t count, checked_elements(type.shape, type.dtype));
    if (count == 0) return graph::evaluate_node(op, attrs, inputs);
  }
  TESSERA_TRY(const std::vector<ir::Buffer> outputs, op.define(b, op.name, node, buffers));
  const te::Dag dag = b.build(outputs);
  if (work(dag) < compile_from_) return graph::evaluate_node(op, attrs, inputs);

  if (compiled_.size() == kMostKept) compiled_.clear();
  std::shared_ptr<kernel::CompiledOp>& slot = compiled_[te::to_text(dag)];
  if (!slot) {
    TESSERA_TRY(kernel::CompiledOp compiled,
                kernel::compile_op(dag, std::nullopt, target_, {.cache = cache_}));
    slot = std::make_shared<kernel::CompiledOp>(std::move(compiled));
  }
  kernel::OpRunner runner(*slot, device_);
  for (std::size_t i = 0; i < given.size(); ++i) TESSERA_DO(runner.set_input(i, *given[i]));
  TESSERA_DO(runner.run());
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < results.size(); ++i) {
    TESSERA_TRY(HostTensor output, runner.output(i));
    tensors.push_back(reshaped(std::move(output), results[i]));
  }
  return tensors;
}

graph::BuilderOptions eager_builder(NodeEvaluator& evaluator) {
  return {.evaluate = std::ref(evaluator), .fold_limit = std::int64_t{1} << 46};
}

Result<std::vector<HostTensor>> run_eager(const onnx::Model& model,
                                          const std::map<std::string, HostTensor>& inputs,
                                          NodeEvaluator& evaluator, onnx::ImportOptions options) {
  options.values = inputs;
  options.builder = eager_builder(evaluator);
  options.literals.clear();  // those that count are among the inputs
  TESSERA_TRY(const graph::Graph graph, onnx::import_model(model, options));
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const HostTensor* t = graph.constant(graph.outputs[i]);
    if (!t) {
      return make_error(ErrorCode::kInvalidArgument, "output {} needs an input that is not given",
                        graph.output_names[i]);
    }
    outputs.push_back(*t);
  }
  return outputs;
}

Result<std::vector<HostTensor>> evaluate_nodes(const graph::Graph& graph, NodeEvaluator& evaluator,
                                               const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> tensors(graph.values.size());
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
  std::vector<HostTensor> outputs;
  for (const graph::ValueId id : graph.outputs) outputs.push_back(at(id));
  return outputs;
}

}  // namespace tessera::app
