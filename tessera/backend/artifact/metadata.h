// What an artifact is, readable without running it: NAME.json and the section .tessera of its
// files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::artifact {

struct TensorDescription {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  std::int64_t bytes() const { return elements(shape) * size_bytes(dtype); }
};

struct StepDescription {
  std::string name;    // operators of the kernel: "conv+add+max"
  std::string origin;  // the model's node
  double flops = 0;
};

// One program of several in a library: the first whose features a processor has is chosen.
struct VariantDescription {
  std::string name;    // as the user named its target
  std::string target;  // as Metadata has it
  std::string plan_digest;
  std::vector<std::string> features;
  std::int64_t arena_bytes = 0, shared_bytes = 0, worker_bytes = 0;
};

struct Metadata {
  int abi = 0;  // TSR_ARTIFACT_ABI
  std::string name;
  std::string tessera_version;
  std::string library;  // file beside the metadata: "libmlp.so", "libmlp.a", "mlp.o"
  std::string target;
  std::string triple;                        // of the library
  target::Kind device = target::Kind::kCpu;  // where it computes
  std::vector<std::string> code;             // "object", "ptx", "cubin", "opencl-c"
  std::vector<std::string> features;         // what the processor must have
  std::string model_digest, plan_digest, weights_digest;
  std::string weights_file;  // empty: embedded
  std::int64_t weights_bytes = 0;
  std::int64_t arena_bytes = 0, shared_bytes = 0, worker_bytes = 0;
  std::vector<TensorDescription> inputs, outputs;
  std::vector<StepDescription> steps;
  // Empty: one program, which the rest describes. Else the features are those of the last variant,
  // target and steps those of the first, sizes the largest.
  std::vector<VariantDescription> variants;
};

std::string to_json(const Metadata& metadata);
Result<Metadata> metadata_from_json(std::string_view text);

// `path` is the folder of an artifact, its JSON file, or one of its libraries.
Result<Metadata> read_metadata(const std::string& path);

// A folder with one artifact in it, or a file that names itself one. Cheap; reads no weights.
bool is_artifact(const std::string& path);

}  // namespace tessera::artifact
