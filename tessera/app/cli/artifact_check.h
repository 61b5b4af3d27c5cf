// Compares an artifact with the model that it was made of.
#pragma once

#include <string>

#include "tessera/backend/exec/compile_model.h"

namespace tessera::cli {

struct ArtifactCheck {
  std::string not_compared;  // why; empty: it was
  bool same_bits = false;
  double max_error = 0;  // relative to what is allowed: above 1 is wrong

  bool wrong() const { return not_compared.empty() && max_error > 1; }
};
std::string to_text(const ArtifactCheck& check);

// Runs the artifact in `folder` and the model, compiled in this process for the same target, on the
// same random inputs.
ArtifactCheck check_artifact(const std::string& folder, const graph::Graph& graph,
                             const task::TaskGraph& tasks, const target::Target& target,
                             const exec::ModelOptions& options);

}  // namespace tessera::cli
