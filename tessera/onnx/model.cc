#include "tessera/onnx/model.h"

namespace tessera::onnx {

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes) {
    if (a.name == attribute) return &a;
  }
  return nullptr;
}

}  // namespace tessera::onnx
