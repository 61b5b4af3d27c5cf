#include "tessera/scheduling/feature/schema.h"

#include "tessera/support/hash.h"

namespace tessera::feature {

const char* to_text(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kStatement:
      return "statement";
    case FeatureKind::kLoop:
      return "loop";
    case FeatureKind::kCurve:
      return "curve";
    case FeatureKind::kLaunch:
      return "launch";
  }
  return "statement";
}

const std::vector<std::string>& feature_names(FeatureKind kind) {
  static const std::vector<std::string> statement = [] {
    std::vector<std::string> names;
    for (const StatementColumn& c : statement_columns()) names.push_back(c.name);
    return names;
  }();
  static const std::vector<std::string> launch = [] {
    std::vector<std::string> names = statement;
    for (const LaunchColumn& c : launch_columns()) names.push_back(c.name);
    return names;
  }();
  switch (kind) {
    case FeatureKind::kLaunch:
      return launch;
    case FeatureKind::kStatement:
      return statement;
    case FeatureKind::kLoop:
      return loop_names();
    case FeatureKind::kCurve:
      return curve_names();
  }
  return statement;
}

std::string schema_digest(FeatureKind kind) {
  std::string text = fmt::format("{} {}", to_text(kind), kSchemaVersion);
  for (const std::string& name : feature_names(kind)) text += " " + name;
  return to_hex(hash_bytes(text));
}

}  // namespace tessera::feature
