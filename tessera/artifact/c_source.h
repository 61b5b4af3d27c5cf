// The C text of an artifact: its header, and the source that holds tables, metadata and runtime.
#pragma once

#include <string>
#include <vector>

#include "tessera/artifact/metadata.h"
#include "tessera/artifact/weights.h"
#include "tessera/exec/compile_model.h"

namespace tessera::artifact {

// Symbol of the kernel of `task`: "NAME_kernel3".
std::string kernel_symbol(const std::string& name, std::size_t task);
// Symbol of the embedded weights.
std::string weights_symbol(const std::string& name);

// `text` as a C identifier: other characters become '_'; never empty, no leading digit.
std::string identifier(const std::string& text);

std::string header_text(const Metadata& metadata);
// Of processors. Needs: every step of the model is a kernel.
std::string source_text(const Metadata& metadata, const exec::CompiledModel& model,
                        const Weights& weights);
// Assembler text that embeds a file of the working folder, read-only and aligned.
std::string blob_assembly(const std::string& symbol, const std::string& file);

}  // namespace tessera::artifact
