// The C source of an artifact for GPUs.
#pragma once

#include <string>

#include "tessera/artifact/device_program.h"
#include "tessera/artifact/metadata.h"

namespace tessera::artifact {

// Symbol of the embedded code.
std::string code_symbol(const std::string& name);

std::string device_source_text(const Metadata& metadata, const exec::CompiledModel& model,
                               const DeviceProgram& program, const Weights& weights);

}  // namespace tessera::artifact
