// The batch of a model, where one is asked for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/import.h"

namespace tessera::app {

// The inputs that neither the model nor a value of `import` gives.
std::vector<std::string> open_inputs(const onnx::Graph& graph, const onnx::ImportOptions& import);

// Gives the symbolic first dimensions of the inputs that size. kInvalidArgument: none begins with
// one, nor has that size already.
Result<void> set_batch(std::int64_t batch, const onnx::Graph& graph,
                       std::map<std::string, std::int64_t>& symbols);
// Of what a user names: the parameter of a built-in network, which becomes a part of its name, else
// as above.
Result<void> set_batch(std::int64_t batch, std::string& model,
                       std::map<std::string, std::int64_t>& symbols);

}  // namespace tessera::app
