// What models made up by tests need not say.
#pragma once

#include <string>

#include "tessera/learn/model/cost_model.h"

namespace tessera::model::testing {

// Reads the vectors of decisions; neither learns nor is stored.
class StubModel : public CostModel {
 public:
  Needs needs() const override { return {"decisions"}; }
  Result<void> fit(const TrainingSet&, const FitOptions&) override { return {}; }
  bool ready() const override { return true; }
  Result<void> save(const std::string&) const override { return {}; }
  Result<void> load(const std::string&) override { return {}; }
};

}  // namespace tessera::model::testing
