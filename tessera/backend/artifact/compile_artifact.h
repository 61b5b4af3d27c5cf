// Ahead-of-time output: a graph as a library with a C header, weights and metadata.
#pragma once

#include <string>

#include "tessera/backend/artifact/metadata.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/frontend/graph/graph.h"

namespace tessera::artifact {

enum class Emit : std::uint8_t { kShared, kStatic, kObject };
enum class WeightsPlace : std::uint8_t { kAuto, kEmbedded, kFile };

// kAuto embeds weights below this many bytes.
inline constexpr std::int64_t kEmbedLimit = std::int64_t{64} << 20;
// Code reaches 2 GiB in both directions: with more weights between its sections no linker can join
// them. Some room is left for the code, and for the program that a static library is linked into.
inline constexpr std::int64_t kMostEmbedded = (std::int64_t{2} << 30) - (std::int64_t{128} << 20);

struct ArtifactOptions {
  std::string name;  // of files and symbols, made a C identifier; empty: the graph's
  Emit emit = Emit::kShared;
  WeightsPlace weights = WeightsPlace::kAuto;
  std::int64_t most_embedded = kMostEmbedded;  // bytes
  std::string cc;  // C compiler that links a shared library; empty: found by the target
  exec::ModelOptions model;
};

// The name an artifact of `model` gets: "mlp" for "zoo:mlp@batch=4", "net" for "models/net.onnx".
std::string default_name(const std::string& model);

// kInvalidArgument when options.weights embeds more than a library can hold. Costs nothing: to be
// asked before anything is chosen or built for the graph.
Result<void> check_weights_place(const graph::Graph& graph, const ArtifactOptions& options);

struct ArtifactReport {
  Metadata metadata;
  double build_ms = 0, code_ms = 0, link_ms = 0;
  std::int64_t shared_weights = 0;  // bytes that variants would hold again
};

// Writes libNAME.so (libNAME.a, NAME.o), NAME.h, NAME.json and, unless embedded, NAME.safetensors
// to `folder`, which appears whole or not at all; an older artifact there is replaced.
// kUnsupported: the model has operators without kernels (named); kUnavailable: no C compiler to
// link a shared library with, or no runtime for the architecture; kIo: the folder cannot be
// written; kInvalidArgument: check_weights_place.
// `tasks` are those of the graph. Who gives the graph away need not hold its constants twice.
Result<ArtifactReport> compile_artifact(graph::Graph graph, const task::TaskGraph& tasks,
                                        const target::Target& target, const std::string& folder,
                                        const ArtifactOptions& options = {});
// What one of several programs in a library is made from.
struct ArtifactVariant {
  std::string name;  // as the user calls its target
  graph::Graph graph;
  task::TaskGraph tasks;
  target::Target target;
  exec::ModelOptions model;
};
// One library for several processors of an architecture: of the same model, the variant with the
// most features that a machine has is chosen when it is opened. Constants that are packed alike lie
// in it once. options.model is not read. kInvalidArgument also: targets of different architectures,
// GPUs, or two that need the same features.
Result<ArtifactReport> compile_variants(std::vector<ArtifactVariant> variants,
                                        const std::string& folder, const ArtifactOptions& options);
// With the tasks of the default partition.
Result<ArtifactReport> compile_artifact(graph::Graph graph, const target::Target& target,
                                        const std::string& folder,
                                        const ArtifactOptions& options = {});

}  // namespace tessera::artifact
