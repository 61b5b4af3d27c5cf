// Sizes of the symbolic dimensions of a model's inputs.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/onnx/import.h"
#include "tessera/frontend/onnx/size_expr.h"

namespace tessera::onnx {

struct DimSizes {
  Symbols sizes;                              // of every name
  std::vector<std::string> implied, assumed;  // names among them that nobody gave

  // Of a dimension of an input; its symbol may be a sum of names. CHECKs that it has one.
  std::int64_t of(const ValueInfo& input, std::size_t axis) const;
};

// `given`: shapes of inputs by name, from whatever source; inputs that are not real (they have an
// initializer) are left out by the caller. kInvalidArgument: sizes are neither given nor implied;
// the message names the dimensions and the flags that set them.
Result<DimSizes> find_sizes(const Graph& graph, const std::vector<const ValueInfo*>& inputs,
                            const std::map<std::string, Shape>& given,
                            const ImportOptions& options);

std::string declared_text(const ValueInfo& info);  // "f32[N,3,h,w]"

}  // namespace tessera::onnx
