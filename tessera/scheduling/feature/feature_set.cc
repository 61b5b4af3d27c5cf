#include "tessera/scheduling/feature/feature_set.h"

#include "tessera/support/check.h"

namespace tessera::feature {

void FeatureSet::add(std::span<const float> candidate) {
  TESSERA_CHECK(columns > 0 && !candidate.empty() && candidate.size() % columns == 0,
                "{} values are not rows of {}", candidate.size(), columns);
  values.insert(values.end(), candidate.begin(), candidate.end());
  row_count.push_back(static_cast<std::int32_t>(candidate.size() / columns));
}

void FeatureSet::append(const FeatureSet& other) {
  if (other.candidates() == 0) return;
  if (candidates() == 0) {
    *this = other;
    return;
  }
  TESSERA_CHECK(columns == other.columns && context_columns == other.context_columns &&
                    parents.empty() == other.parents.empty(),
                "features of {} and {} columns", columns, other.columns);
  values.insert(values.end(), other.values.begin(), other.values.end());
  row_count.insert(row_count.end(), other.row_count.begin(), other.row_count.end());
  context.insert(context.end(), other.context.begin(), other.context.end());
  parents.insert(parents.end(), other.parents.begin(), other.parents.end());
}

void FeatureSet::clear() {
  values.clear();
  row_count.clear();
  context.clear();
  parents.clear();
}

}  // namespace tessera::feature
