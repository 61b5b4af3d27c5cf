// Models in a newer version of the operators.
#pragma once

#include "tessera/frontend/onnx/model.h"

namespace tessera::app {

inline constexpr std::int64_t kLeastOpset = 13;   // that can be raised
inline constexpr std::int64_t kNewestOpset = 21;  // that is known here

// Makes `version`, of at most kNewestOpset, the opset of the model; nodes that say the same in
// another form there are rewritten. kUnsupported: the model is older than kLeastOpset, has
// functions of its own, or a node, named, means something else there. Then nothing was changed.
Result<void> raise_opset(onnx::Model& model, std::int64_t version);

}  // namespace tessera::app
