// NVIDIA's assembler and disassembler, where they are installed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::codegen {

// The path of ptxas, nvdisasm, ...: on PATH, in $CUDA_HOME/bin, /usr/local/cuda/bin, or in the
// Python environment of the peers (the wheels nvidia-cuda-nvcc and nvidia-cuda-nvdisasm).
// kUnavailable where none has it.
Result<std::string> find_cuda_tool(const std::string& name);

struct Assembled {
  std::vector<std::uint8_t> cubin;
  std::string facts;  // what ptxas -v says of registers and memory
};

// Assembles PTX for a machine ("sm_90a"). kBuildFailed with the words of ptxas.
Result<Assembled> assemble_ptx(const std::string& ptx, const std::string& cpu);

// PTX as machine code in text.
Result<std::string> show_sass(const std::string& ptx, const std::string& cpu);

}  // namespace tessera::codegen
