// What a safetensors file has, with the bytes of its tensors where they lie.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/dtype.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string_view bytes;  // maybe not aligned to elements
};

struct SafetensorsIndex {
  std::vector<SafetensorsEntry> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Checks what parse_safetensors() checks; takes memory for the header alone.
Result<SafetensorsIndex> index_safetensors(std::string_view bytes);

}  // namespace tessera
