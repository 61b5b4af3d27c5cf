// Pieces of C text that every artifact's header and source consist of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/artifact/metadata.h"
#include "tessera/artifact/runtime/program.h"
#include "tessera/artifact/weights.h"
#include "tessera/exec/compile_model.h"

namespace tessera::artifact {

std::string c_string(std::string_view text);     // a literal
std::string commented(const std::string& text);  // for comments: nothing that could end them

// Names of the runtime's files that artifacts of the kind consist of, in the order of the source;
// the two that stand in the header are not among them.
std::vector<std::string_view> runtime_files(target::Kind kind);
// Their text; of the header: abi.h and types.h.
std::string runtime_text(const std::vector<std::string_view>& files);

tsr_place place_of(const exec::Storage& storage, const exec::CompiledModel& model,
                   const Weights& weights);
std::string place_text(const tsr_place& place);  // as a row
// Everything in front of the tables of the program: runtime, tensors, tsr_info.
std::string source_begin(const Metadata& metadata, const Weights& weights);
std::vector<tsr_copy> copies_of(const exec::CompiledModel& model, const Weights& weights);
// The table tsr_copies, and the row of tsr_common that names it.
std::string copies_table(const exec::CompiledModel& model, const Weights& weights);
std::string common_row(const Metadata& metadata, const exec::CompiledModel& model,
                       const Weights& weights);
// DLPack's numbers: DLDataTypeCode and DLDeviceType.
int dl_code(DType t);
int device_type(target::Kind kind);
// The exported functions, behind the table tsr_the_program.
std::string entry_points(const std::string& name);

}  // namespace tessera::artifact
