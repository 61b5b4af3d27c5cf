#include "tessera/app/compile/batch.h"

#include <algorithm>
#include <set>

#include "tessera/app/compile/load_graph.h"
#include "tessera/support/model_name.h"

namespace tessera::app {

std::vector<std::string> open_inputs(const onnx::Graph& graph, const onnx::ImportOptions& import) {
  std::set<std::string> given;
  for (const onnx::Initializer& i : graph.initializers) given.insert(i.name);
  std::vector<std::string> names;
  for (const onnx::ValueInfo& input : graph.inputs) {
    const bool fixed = import.values.contains(input.name) || import.literals.contains(input.name);
    if (!fixed && !given.contains(input.name)) names.push_back(input.name);
  }
  return names;
}

Result<void> set_batch(std::int64_t batch, const onnx::Graph& graph,
                       std::map<std::string, std::int64_t>& symbols) {
  const std::vector<std::string> open = open_inputs(graph, {});
  bool found = false;
  for (const onnx::ValueInfo& v : graph.inputs) {
    if (v.dims.empty() || std::ranges::find(open, v.name) == open.end()) continue;
    const onnx::Dim& first = v.dims[0];
    if (!first.symbol.empty()) symbols[first.symbol] = batch;
    found = found || !first.symbol.empty() || first.size == batch;
  }
  if (found) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "--batch {}: no input begins with a symbolic dimension (`tessera info` shows "
                    "them); give every shape with --shape",
                    batch);
}

Result<void> set_batch(std::int64_t batch, std::string& model,
                       std::map<std::string, std::int64_t>& symbols) {
  if (is_built_in(model)) {
    model += fmt::format("{}batch={}", model.find('@') == std::string::npos ? "@" : ",", batch);
    return {};
  }
  TESSERA_TRY(const onnx::Model read, load_outline(model));
  return set_batch(batch, read.graph, symbols);
}

}  // namespace tessera::app
