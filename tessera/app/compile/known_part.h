// What of a model can be tuned where some of its shapes follow from data.
#pragma once

#include <string>

#include "tessera/app/compile/compile_options.h"

namespace tessera::app {

struct KnownPart {
  std::string spec;    // of what can be tuned
  std::string reason;  // why that is not the whole model; empty: it is
  std::size_t nodes = 0, model_nodes = 0;
};

// The model itself, or a file at `path` with the nodes that do not wait for data: the first section
// of a StagedModel, whose kernels have the same tasks. kUnsupported: every node waits.
Result<KnownPart> known_part(const std::string& spec, const CompileOptions& options,
                             const std::string& path);

}  // namespace tessera::app
