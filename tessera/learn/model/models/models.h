// Constructors of the models, for the table.
#pragma once

#include "tessera/learn/model/cost_model.h"

namespace tessera::model {

Result<std::unique_ptr<CostModel>> make_random(const ModelOptions& options);
Result<std::unique_ptr<CostModel>> make_gbt(const ModelOptions& options);
Result<std::unique_ptr<CostModel>> make_ensemble(const ModelOptions& options);
// Not in the table: it is trained elsewhere (tessera train) and only loaded here.
Result<std::unique_ptr<CostModel>> load_neural(const std::string& path, int threads);

// The rows that features of this schema are: "statement", "loop" or "curve"; "decisions" for a
// schema that is empty or unknown.
std::string rows_of_schema(const std::string& schema);

}  // namespace tessera::model
