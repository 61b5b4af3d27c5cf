#include "tessera/learn/infer/compiled_network.h"

#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/machine/runtime/device/cpu_device.h"

namespace tessera::infer {

Result<graph::Graph> bind_weights(nn::Network network,
                                  const std::map<std::string, HostTensor>& weights,
                                  const std::string& name) {
  graph::Graph& graph = network.graph;
  const std::size_t data = graph.inputs.size() - network.parameters.size();
  for (std::size_t i = 0; i < network.parameters.size(); ++i) {
    const nn::Parameter& parameter = network.parameters[i];
    const auto found = weights.find(parameter.name);
    if (found == weights.end() || found->second.shape() != parameter.shape) {
      return make_error(ErrorCode::kInvalidArgument, "{}: no weight {} of shape {}", name,
                        parameter.name, to_text(parameter.shape));
    }
    graph::Value& value = graph.value(graph.inputs[data + i]);
    value.is_constant = true;
    value.constant = found->second;
  }
  graph.inputs.resize(data);
  return std::move(graph);
}

Result<std::unique_ptr<CompiledNetwork>> CompiledNetwork::make(graph::Graph graph,
                                                               const Options& options) {
  graph::PassOptions passes;
  passes.verify = false;
  passes.rules.merge_contractions = true;
  TESSERA_DO(graph::optimize(graph, passes));
  exec::ModelOptions how;
  how.build_threads = options.device ? 0 : static_cast<int>(options.runners);
  how.device = options.device;
  how.cache = options.cache;
  TESSERA_TRY(
      exec::CompiledModel model,
      exec::compile_model(graph, options.device ? options.device->target() : target::host(), how));
  std::unique_ptr<CompiledNetwork> made(new CompiledNetwork(std::move(model), options.device));
  made->reserve(options.runners);
  return made;
}

void CompiledNetwork::reserve(std::size_t runners) {
  while (runners_.size() < runners) {
    runtime::Device* device = device_;
    if (!device) {
      cores_.push_back(std::make_unique<runtime::CpuDevice>(runtime::PoolOptions{.threads = 1}));
      device = cores_.back().get();
    }
    runners_.push_back(std::make_unique<exec::ModelRunner>(model_, *device));
  }
}

}  // namespace tessera::infer
