#include <fmt/ranges.h>

#include "tessera/learn/model/cost_model.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/learn/model/models/models.h"
#include "tessera/learn/model/models/own.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/support/line_program.h"
#include "tessera/support/nearest_name.h"

namespace tessera::model {

const std::vector<ModelEntry>& model_table() {
  static const std::vector<ModelEntry> table = {
      {"gbt", "gradient-boosted trees, summed over the rows of a candidate", make_gbt},
      {"gbt_ensemble", "five of them on bootstrap samples: scores with a spread", make_ensemble},
      {"random", "scores that know nothing: the baseline", make_random},
  };
  return table;
}

Result<std::unique_ptr<CostModel>> make_model(const std::string& wanted,
                                              const ModelOptions& options) {
  const std::string name = model_name(wanted);
  if (options.objective != "rank" && options.objective != "regression") {
    return make_error(ErrorCode::kInvalidArgument, "no objective \"{}\": rank, regression",
                      options.objective);
  }
  std::vector<std::string> names;
  for (const ModelEntry& entry : model_table()) {
    if (name == entry.name) return entry.make(options);
    names.push_back(entry.name);
  }
  return make_error(ErrorCode::kInvalidArgument, "no cost model '{}'{} Models: {}", name,
                    suggest_name(name, names, "."), fmt::join(names, ", "));
}

std::string rows_of_schema(const std::string& schema) {
  for (const auto kind : {feature::FeatureKind::kStatement, feature::FeatureKind::kLoop,
                          feature::FeatureKind::kCurve, feature::FeatureKind::kLaunch}) {
    if (schema == feature::schema_digest(kind)) return feature::to_text(kind);
  }
  return "decisions";
}

namespace {

// What is not a file of ours.
struct OwnKind {
  std::string_view prefix;
  Result<std::unique_ptr<CostModel>> (*load)(const std::string& rest);
};
constexpr OwnKind kOwnKinds[] = {{kProgramPrefix, load_own_program},
                                 {kLibraryPrefix, load_own_library}};

}  // namespace

Result<std::unique_ptr<CostModel>> load_model(const std::string& path, int threads) {
  for (const OwnKind& kind : kOwnKinds) {
    if (path.starts_with(kind.prefix)) return kind.load(path.substr(kind.prefix.size()));
  }
  const Result<ModelFile> file = read_model_file(path);
  if (!file.ok()) {
    // Every other file is taken for a network, whose reader says what is wrong with it.
    if (file.error().code != ErrorCode::kInvalidArgument) return file.error();
    return load_neural(path, threads);
  }
  if (rows_of_schema(file->schema) == "decisions") {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: made for features of schema \"{}\", which this program does not compute",
                      path, file->schema);
  }
  TESSERA_TRY(std::unique_ptr<CostModel> model,
              make_model(file->kind, {file->objective, 1, file->schema, threads}));
  TESSERA_DO(model->load(path));
  return model;
}

}  // namespace tessera::model
