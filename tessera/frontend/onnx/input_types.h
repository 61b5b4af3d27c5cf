// What the inputs of an imported graph are: sizes for symbolic dimensions, values that were given.
#pragma once

#include <optional>

#include "tessera/frontend/onnx/open_dims.h"

namespace tessera::onnx {

struct GraphInput {
  std::string name;
  graph::TensorType type;           // when `foreign` is empty
  std::string foreign;              // a type without DType
  std::optional<HostTensor> value;  // given: a constant
};

struct ResolvedInputs {
  std::vector<GraphInput> inputs;
  DimSizes sizes;
};

// The real inputs of the graph, in order: those without an initializer, and those whose initializer
// is replaced by a given value. A symbol has one size among all inputs unless given shapes differ.
Result<ResolvedInputs> resolve_inputs(const Graph& graph, const ImportOptions& options);

}  // namespace tessera::onnx
