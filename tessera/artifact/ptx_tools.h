// NVIDIA's assembler and disassembler, where they are installed.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::artifact {

// The path of ptxas, nvdisasm, ...: on PATH, in $CUDA_HOME/bin, /usr/local/cuda/bin, or in the
// Python environment of the peers (the wheels nvidia-cuda-nvcc and nvidia-cuda-nvdisasm).
// kUnavailable where none has it.
Result<std::string> find_cuda_tool(const std::string& name);

// Assembles PTX for a machine ("sm_90a"); the answer is what ptxas -v says of registers and memory.
// With `cubin`, the machine code goes to that file. kBuildFailed with the words of ptxas.
Result<std::string> assemble_ptx(const std::string& ptx, const std::string& cpu,
                                 const std::string& cubin = "");

// PTX as machine code in text.
Result<std::string> show_sass(const std::string& ptx, const std::string& cpu);

}  // namespace tessera::artifact
