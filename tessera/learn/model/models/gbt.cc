// Gradient-boosted trees: one model.
#include "tessera/learn/model/fit.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/learn/model/models/models.h"
#include "tessera/learn/model/models/trees.h"
#include "tessera/learn/nn/training_notes.h"

namespace tessera::model {
namespace {

class BoostedTrees final : public CostModel {
 public:
  BoostedTrees(ModelOptions options, Trees trees)
      : options_(std::move(options)), trees_(std::move(trees)) {}

  std::vector<float> predict(const feature::FeatureSet& features) const override {
    TESSERA_CHECK(ready() && features.columns == columns_, "gbt: {} columns, fitted to {}",
                  features.columns, columns_);
    return trees_.predict(features);
  }

  Result<void> fit(const TrainingSet& data, const FitOptions& options) override {
    TESSERA_DO(check_training_set(data));
    const std::vector<float> weights(data.labels.size(), 1.f);
    TreeOptions tree;
    tree.objective = options_.objective;
    tree.seed = options_.seed;
    if (options.rounds > 0) tree.max_rounds = tree.plain_rounds = options.rounds;
    if (options.depth > 0) tree.depth = options.depth;
    TESSERA_DO(trees_.fit(data, weights, tree, options));
    columns_ = data.features.columns;
    notes_.clear();
    kinds_.clear();
    return {};
  }

  bool ready() const override { return columns_ > 0; }
  std::int64_t examples_of(const std::string& kind) const override {
    const auto found = kinds_.find(kind);
    return found == kinds_.end() ? 0 : found->second;
  }
  int most_threads() const override { return nn::most_threads(notes_); }
  Needs needs() const override { return {rows_of_schema(options_.schema)}; }

  Result<void> save(const std::string& path) const override {
    if (!ready()) return make_error(ErrorCode::kInvalidArgument, "the model was never fitted");
    TESSERA_TRY(std::string bytes, trees_.to_bytes());
    return write_model_file(
        path, {"gbt", options_.objective, options_.schema, columns_, {std::move(bytes)}, notes_});
  }

  Result<void> load(const std::string& path) override {
    TESSERA_TRY(const ModelFile file, read_model_file(path, "gbt", options_.schema));
    if (file.parts.size() != 1 || file.columns == 0) {
      return make_error(ErrorCode::kIo, "{}: damaged model file: {} parts, {} columns", path,
                        file.parts.size(), file.columns);
    }
    TESSERA_DO(trees_.from_bytes(file.parts[0], options_.threads));
    columns_ = file.columns;
    options_.objective = file.objective;
    options_.schema = file.schema;
    notes_ = file.notes;
    kinds_ = nn::kinds_of(notes_);
    return {};
  }

 private:
  ModelOptions options_;
  Trees trees_;
  std::size_t columns_ = 0;
  nn::Notes notes_;  // of the file it was loaded from
  nn::KindCounts kinds_;
};

}  // namespace

Result<std::unique_ptr<CostModel>> make_gbt(const ModelOptions& options) {
  TESSERA_TRY(Trees trees, Trees::make());
  return std::unique_ptr<CostModel>(std::make_unique<BoostedTrees>(options, std::move(trees)));
}

}  // namespace tessera::model
