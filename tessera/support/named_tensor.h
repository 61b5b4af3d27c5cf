// A tensor under a name: an entry of an .npz or .safetensors file.
#pragma once

#include <string>
#include <vector>

#include "tessera/support/host_tensor.h"

namespace tessera {

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

}  // namespace tessera
