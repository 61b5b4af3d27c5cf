// The constants of a model as one safetensors file, laid out so that kernels can read it in place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/backend/exec/compile_model.h"
#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/support/result.h"

namespace tessera::artifact {

struct Weights {
  std::vector<std::uint64_t> offsets;  // of each constant, from the start of the file
  std::int64_t bytes = 0;              // of the file; 0: the model has no constants and no file
  std::uint64_t digest = 0;            // of all bytes
};

// Writes model.constants to `path`; every tensor starts at a multiple of 64 bytes, or, of GPUs,
// where a part of a device's memory may start. Names are those of the graph, layouts of packed ones
// are in the metadata of the file.
Result<Weights> write_weights(const exec::CompiledModel& model, const std::string& path);

// Of each of several models whose constants lie in one file, those with the same bytes once.
Result<std::vector<Weights>> write_shared_weights(
    const std::vector<const exec::CompiledModel*>& models, const std::string& path);

// The same constants in memory, without names; no digest.
Weights pack_weights(const exec::CompiledModel& model, runtime::AlignedBuffer* buffer);

}  // namespace tessera::artifact
