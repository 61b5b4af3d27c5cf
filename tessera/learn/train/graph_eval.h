// Runs the graph of a network on torch tensors, operator by operator, so that gradients follow.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "tessera/frontend/graph/graph.h"
#include "tessera/support/result.h"

namespace tessera::train {

class GraphEval {
 public:
  // `options`: type of the floats and device of the inputs. kUnsupported names an operator, or a
  // use of it, that networks do not have (nn/README.md lists those they have).
  static Result<GraphEval> make(graph::Graph graph, const at::TensorOptions& options);

  // `inputs` in the order of the graph's; returns its outputs. A matrix that is only the first
  // operand of contractions "nm,m...->n..." may be sparse. Torch reports failures (memory) as
  // exceptions.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

 private:
  using Function = at::Tensor (*)(const graph::Attrs& attrs, const std::vector<at::Tensor>& inputs);

  graph::Graph graph_;
  std::vector<Function> functions_;                 // one per node
  std::vector<at::Tensor> constants_;               // by value; undefined where there is none
  std::vector<std::vector<graph::ValueId>> spent_;  // per node: values that nothing reads later
};

// Values copied; f32 only on the way back.
at::Tensor to_torch(const HostTensor& tensor, const at::TensorOptions& options);
HostTensor to_host(const at::Tensor& tensor);
at::Tensor on_device(const std::vector<float>& data, const Shape& shape, const at::Device& device);
at::Tensor on_device(const std::vector<std::int64_t>& data, const at::Device& device);

}  // namespace tessera::train
