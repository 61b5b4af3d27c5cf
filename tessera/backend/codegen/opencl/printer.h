// One launch -> the text of an OpenCL C kernel.
#pragma once

#include <string>

#include "tessera/lang/ir/launch.h"
#include "tessera/support/result.h"

namespace tessera::codegen {

// Definitions that kernels use: divisions, minima and conversions with the meaning of the IR.
std::string opencl_prelude(bool has_f64);

// OpenCL C 1.2 and nothing else; f16 and bf16 are kept as f32 between operations, each rounded.
// Vectors are written lane by lane, but for copies of 2, 4, 8 or 16 neighbours. kUnsupported names
// what the language does not have.
Result<std::string> print_opencl(const ir::Launch& launch, const std::string& name);

bool uses_f64(const ir::Launch& launch);

}  // namespace tessera::codegen
