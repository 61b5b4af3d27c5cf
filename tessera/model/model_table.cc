#include "tessera/model/cost_model.h"
#include "tessera/model/models/models.h"
#include "tessera/support/nearest_name.h"

namespace tessera::model {

const std::vector<ModelEntry>& model_table() {
  static const std::vector<ModelEntry> table = {
      {"xgb", "gradient-boosted trees, summed over the rows of a candidate", make_xgb},
      {"xgb_ensemble", "five of them on bootstrap samples: scores with a spread", make_ensemble},
      {"random", "scores that know nothing: the baseline", make_random},
  };
  return table;
}

Result<std::unique_ptr<CostModel>> make_model(const std::string& name,
                                              const ModelOptions& options) {
  if (options.objective != "rank" && options.objective != "regression") {
    return make_error(ErrorCode::kInvalidArgument, "no objective \"{}\": rank, regression",
                      options.objective);
  }
  std::vector<std::string> names;
  std::string list;
  for (const ModelEntry& entry : model_table()) {
    if (name == entry.name) return entry.make(options);
    names.push_back(entry.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  return make_error(ErrorCode::kInvalidArgument, "no cost model \"{}\" (did you mean \"{}\"?): {}",
                    name, nearest_name(name, names), list);
}

}  // namespace tessera::model
