#include "tessera/learn/model/row_schema.h"

#include "tessera/learn/dataset/candidate_rows.h"

namespace tessera::model {

Result<RowSchema> row_schema(const std::string& rows) {
  TESSERA_TRY(const std::vector<std::string> names, row_names(rows));
  const auto size = [](const std::vector<std::string>& list) {
    return static_cast<std::int64_t>(list.size());
  };
  const Result<feature::Rows> kind = feature::rows_from_text(rows);
  if (kind.ok()) {
    return RowSchema{dataset::row_schema(*kind), size(names), dataset::context_schema(*kind),
                     size(dataset::context_names(*kind))};
  }
  const auto other = rows == feature::to_text(feature::FeatureKind::kCurve)
                         ? feature::FeatureKind::kCurve
                         : feature::FeatureKind::kLaunch;
  return RowSchema{feature::schema_digest(other), size(names), "", 0};
}

Result<std::vector<std::string>> row_names(const std::string& rows) {
  if (const Result<feature::Rows> kind = feature::rows_from_text(rows); kind.ok())
    return dataset::row_names(*kind);
  for (const auto kind : {feature::FeatureKind::kCurve, feature::FeatureKind::kLaunch}) {
    if (rows == feature::to_text(kind)) return feature::feature_names(kind);
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "no features \"{}\": statement, loop, step, curve, launch, decisions", rows);
}

}  // namespace tessera::model
