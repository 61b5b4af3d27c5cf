// The code of all kernels of a GPU's artifact in one piece.
#pragma once

#include <string>
#include <vector>

#include "tessera/machine/runtime/device/binary.h"
#include "tessera/support/result.h"

namespace tessera::artifact {

struct DeviceCode {
  struct Module {
    // Text ends with a zero that is not counted. No binary: 0 bytes.
    std::size_t text = 0, text_bytes = 0, binary = 0, binary_bytes = 0;
  };
  std::vector<Module> modules;     // as the binaries
  std::string bytes;               // what they are parts of
  std::vector<std::string> kinds;  // "ptx" and, where ptxas was found, "cubin"; "opencl-c"
};

// Assembles PTX on `threads` threads where a ptxas is installed. kBuildFailed with its words.
Result<DeviceCode> make_device_code(const std::vector<runtime::Binary>& binaries, int threads);

}  // namespace tessera::artifact
