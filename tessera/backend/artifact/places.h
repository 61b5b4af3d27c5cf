// Where the C runtime finds a model's values, and DLPack's numbers.
#pragma once

#include <vector>

#include "tessera/backend/artifact/runtime/program.h"
#include "tessera/backend/artifact/weights.h"
#include "tessera/backend/exec/compile_model.h"

namespace tessera::artifact {

tsr_place place_of(const exec::Storage& storage, const exec::CompiledModel& model,
                   const Weights& weights);
std::vector<tsr_copy> copies_of(const exec::CompiledModel& model, const Weights& weights);
// DLPack's DLDataTypeCode.
int dl_code(DType t);

}  // namespace tessera::artifact
