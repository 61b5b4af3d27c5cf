// Stands in for trees_xgboost.cc where XGBoost is not installed.
#include "tessera/learn/model/models/trees.h"

namespace tessera::model {

struct Trees::Impl {};

Result<Trees> Trees::make() {
  return make_error(ErrorCode::kUnavailable,
                    "this build has no XGBoost: install libxgboost-dev and build again");
}

Trees::Trees(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trees::Trees(Trees&&) noexcept = default;
Trees& Trees::operator=(Trees&&) noexcept = default;
Trees::~Trees() = default;

Result<void> Trees::fit(const TrainingSet&, std::span<const float>, const TreeOptions&,
                        const FitOptions&) {
  return make().error();
}
std::vector<float> Trees::predict(const feature::FeatureSet&) const { return {}; }
Result<std::string> Trees::to_bytes() const { return make().error(); }
Result<void> Trees::from_bytes(const std::string&, int) { return make().error(); }

}  // namespace tessera::model
