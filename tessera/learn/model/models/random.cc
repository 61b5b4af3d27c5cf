// Scores that know nothing: what a model must beat.
#include "tessera/learn/model/model_file.h"
#include "tessera/learn/model/models/models.h"
#include "tessera/support/hash.h"

namespace tessera::model {
namespace {

class RandomModel final : public CostModel {
 public:
  explicit RandomModel(ModelOptions options) : options_(std::move(options)) {}

  // The same candidate always gets the same score.
  std::vector<float> predict(const feature::FeatureSet& features) const override {
    std::vector<float> scores;
    const char* at = reinterpret_cast<const char*>(features.values.data());
    for (const std::int32_t rows : features.row_count) {
      const std::size_t bytes = static_cast<std::size_t>(rows) * features.columns * sizeof(float);
      const std::uint64_t hash = hash_bytes({at, bytes}, options_.seed);
      scores.push_back(static_cast<float>(hash >> 40) * 0x1p-24f);
      at += bytes;
    }
    return scores;
  }
  Result<void> fit(const TrainingSet&, const FitOptions&) override { return {}; }
  bool ready() const override { return true; }
  Needs needs() const override { return {rows_of_schema(options_.schema)}; }
  Result<void> save(const std::string& path) const override {
    return write_model_file(
        path, {"random", options_.objective, options_.schema, 0, {to_hex(options_.seed)}});
  }
  Result<void> load(const std::string& path) override {
    TESSERA_TRY(const ModelFile file, read_model_file(path, "random", options_.schema));
    if (file.parts.size() != 1 || file.parts[0].size() != 16) {
      return make_error(ErrorCode::kIo, "{}: damaged model file: no seed", path);
    }
    options_.seed = std::strtoull(file.parts[0].c_str(), nullptr, 16);
    options_.schema = file.schema;
    return {};
  }

 private:
  ModelOptions options_;
};

}  // namespace

Result<std::unique_ptr<CostModel>> make_random(const ModelOptions& options) {
  return std::unique_ptr<CostModel>(std::make_unique<RandomModel>(options));
}

}  // namespace tessera::model
