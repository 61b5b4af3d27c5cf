#include "tessera/frontend/onnx/model.h"

#include <algorithm>
#include <map>

#include "tessera/frontend/onnx/model_files.h"

namespace tessera::onnx {

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes) {
    if (a.name == attribute) return &a;
  }
  return nullptr;
}

bool is_constant(const Node& node) { return node.op_type == "Constant" && node.domain.empty(); }

std::optional<Model> with_open_weights(const Model& outline) {
  std::map<std::string, ValueInfo> open;
  // True of a weight, which is an input from now on.
  const auto opened = [&](const std::string& name, const HostTensor* tensor) {
    if (tensor == nullptr || tensor->bytes() <= kOutlineBytes) return false;
    ValueInfo info{name, to_text(tensor->dtype()), true, {}};
    for (const std::int64_t d : tensor->shape()) info.dims.push_back({d, ""});
    open[name] = std::move(info);
    return true;
  };
  Model out = outline;
  std::erase_if(out.graph.initializers, [&](const Initializer& i) {
    return opened(i.name, std::get_if<HostTensor>(&i.value));
  });
  std::erase_if(out.graph.nodes, [&](const Node& n) {
    const Attribute* value = is_constant(n) && n.outputs.size() == 1 ? n.find("value") : nullptr;
    return value && opened(n.outputs[0], std::get_if<HostTensor>(&value->value));
  });
  if (open.empty()) return std::nullopt;
  std::erase_if(out.graph.inputs, [&](const ValueInfo& v) { return open.contains(v.name); });
  for (auto& [name, info] : open) out.graph.inputs.push_back(std::move(info));
  return out;
}

}  // namespace tessera::onnx
