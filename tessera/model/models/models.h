// Constructors of the models, for the table.
#pragma once

#include "tessera/model/cost_model.h"

namespace tessera::model {

Result<std::unique_ptr<CostModel>> make_random(const ModelOptions& options);
Result<std::unique_ptr<CostModel>> make_xgb(const ModelOptions& options);
Result<std::unique_ptr<CostModel>> make_ensemble(const ModelOptions& options);

}  // namespace tessera::model
