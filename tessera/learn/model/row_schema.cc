#include "tessera/learn/model/row_schema.h"

#include "tessera/learn/dataset/candidate_rows.h"

namespace tessera::model {

Result<RowSchema> row_schema(const std::string& rows) {
  const auto size = [](const std::vector<std::string>& names) {
    return static_cast<std::int64_t>(names.size());
  };
  for (const feature::Rows kind :
       {feature::Rows::kStatement, feature::Rows::kLoop, feature::Rows::kStep}) {
    if (rows != feature::to_text(kind)) continue;
    return RowSchema{dataset::row_schema(kind), size(dataset::row_names(kind)),
                     dataset::context_schema(kind), size(dataset::context_names(kind))};
  }
  for (const auto kind : {feature::FeatureKind::kCurve, feature::FeatureKind::kLaunch}) {
    if (rows != feature::to_text(kind)) continue;
    return RowSchema{feature::schema_digest(kind), size(feature::feature_names(kind)), "", 0};
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "no features \"{}\": statement, loop, step, curve, launch, decisions", rows);
}

}  // namespace tessera::model
