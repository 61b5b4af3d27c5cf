// A model as an artifact, compared with the model itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/app/compile/decide_model.h"
#include "tessera/app/compile/layer_types.h"
#include "tessera/backend/artifact/compile_artifact.h"

namespace tessera::app {

struct ArtifactCheck {
  std::string not_compared;  // why; empty: it was
  bool same_bits = false;
  double max_error = 0;  // relative to what is allowed: above 1 is wrong

  bool wrong() const { return not_compared.empty() && max_error > 1; }
};
std::string to_text(const ArtifactCheck& check);

struct WrittenArtifact {
  artifact::ArtifactReport report;
  std::size_t tasks = 0;
  std::optional<ZeroTrialResult> judged;  // as DecidedModel has it
  std::optional<ArtifactCheck> check;
  double narrow_share = 0;    // of its products (float_products.h)
  std::string faster_floats;  // likewise
  std::vector<LayerType> layers;
};

// Decides about the model and writes it to `folder`. `check`: runs the artifact and the model,
// compiled in this process for the same target, on the same random inputs. Errors of the model name
// it.
Result<WrittenArtifact> write_artifact(ModelSource& source, const CompileOptions& compile,
                                       const std::string& folder, artifact::ArtifactOptions options,
                                       bool check);

// One library with a program for each of several processors (artifact::compile_variants), compared
// with the model where this machine can run one. What is said of decisions is that of the first.
struct NamedTarget {
  std::string name;
  CompileOptions compile;
};
Result<WrittenArtifact> write_variants(ModelSource& source, const std::vector<NamedTarget>& targets,
                                       const std::string& folder, artifact::ArtifactOptions options,
                                       bool check);

}  // namespace tessera::app
