// Arbitrary bytes through parse_model and import_model: an Error or a graph, never a crash.
#include <cstdint>
#include <string_view>

#include "tessera/frontend/onnx/import.h"

namespace {

// Small enough that no input is slow; what is left unfolded is still imported.
constexpr std::int64_t kMaxElements = 4096;

tessera::Result<std::vector<tessera::HostTensor>> evaluate_small(
    const tessera::graph::OpDef& op, const tessera::graph::Attrs& attrs,
    const std::vector<const tessera::HostTensor*>& inputs) {
  for (const tessera::HostTensor* t : inputs) {
    if (t != nullptr && t->size() > kMaxElements) {
      return tessera::make_error(tessera::ErrorCode::kUnsupported, "too large to fold here");
    }
  }
  return tessera::graph::evaluate_node(op, attrs, inputs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto model = tessera::onnx::parse_model(bytes, "");
  if (!model.ok()) return 0;
  tessera::onnx::ImportOptions options;
  options.assumed_size = 2;
  options.max_nodes = 500;
  options.builder.fold_limit = kMaxElements;
  options.builder.evaluate = evaluate_small;
  const auto graph = tessera::onnx::import_model(*model, options);
  if (graph.ok()) {
    if (const auto valid = tessera::graph::verify(*graph); !valid.ok()) __builtin_trap();
  }
  const auto written = tessera::onnx::serialize_model(*model);
  if (written.ok() && !tessera::onnx::parse_model(*written, "").ok()) __builtin_trap();
  return 0;
}
