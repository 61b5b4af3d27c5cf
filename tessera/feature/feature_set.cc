#include "tessera/feature/feature_set.h"

#include "tessera/support/check.h"

namespace tessera::feature {

void FeatureSet::add(std::span<const float> candidate) {
  TESSERA_CHECK(columns > 0 && !candidate.empty() && candidate.size() % columns == 0,
                "{} values are not rows of {}", candidate.size(), columns);
  values.insert(values.end(), candidate.begin(), candidate.end());
  row_count.push_back(static_cast<std::int32_t>(candidate.size() / columns));
}

void FeatureSet::clear() {
  values.clear();
  row_count.clear();
}

}  // namespace tessera::feature
