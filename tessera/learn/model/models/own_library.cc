// A cost model in a shared library, by tessera/cost_model_abi.h.
#include <limits>

#include <dlfcn.h>

#include "tessera/learn/model/include/tessera/cost_model_abi.h"
#include "tessera/learn/model/models/own.h"
#include "tessera/learn/model/row_schema.h"

namespace tessera::model {
namespace {

class LibraryModel final : public OwnModel {
 public:
  LibraryModel(std::string path, void* file, const tessera_cost_model& model)
      : OwnModel(model.rows), path_(std::move(path)), file_(file), model_(model) {
    names_ = row_names(model.rows).value();
    for (const std::string& name : names_) pointers_.push_back(name.c_str());
  }
  ~LibraryModel() override {
    if (model_.close != nullptr) model_.close(model_.state);
    ::dlclose(file_);
  }
  LibraryModel(const LibraryModel&) = delete;
  LibraryModel& operator=(const LibraryModel&) = delete;

 protected:
  Result<std::vector<float>> score(const feature::FeatureSet& features) const override {
    const tessera_candidates candidates = {features.candidates(), features.columns,
                                           pointers_.data(), features.row_count.data(),
                                           features.values.data()};
    // What it does not write is no score.
    std::vector<float> out(features.candidates(), std::numeric_limits<float>::quiet_NaN());
    if (const std::int32_t code = model_.score(model_.state, &candidates, out.data()); code != 0)
      return make_error(ErrorCode::kRunFailed, "{}: scoring failed with code {}", path_, code);
    TESSERA_DO(check_own_scores(path_, out, out.size()));
    return out;
  }

 private:
  std::string path_;
  void* file_;
  tessera_cost_model model_;
  std::vector<std::string> names_;
  std::vector<const char*> pointers_;  // into names_
};

}  // namespace

Result<std::unique_ptr<CostModel>> load_own_library(const std::string& path) {
  void* file = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return make_error(ErrorCode::kInvalidArgument, "{}", ::dlerror());
  const auto refuse = [&](const std::string& why) {
    ::dlclose(file);
    return make_error(ErrorCode::kInvalidArgument, "{}: {}", path, why);
  };
  const auto open = reinterpret_cast<decltype(&tessera_cost_model_open)>(
      ::dlsym(file, "tessera_cost_model_open"));
  if (open == nullptr) return refuse("it does not define tessera_cost_model_open");
  tessera_cost_model model = {TESSERA_COST_MODEL_VERSION, "statement", nullptr, nullptr, nullptr};
  if (const std::int32_t code = open(&model); code != 0)
    return refuse(fmt::format("tessera_cost_model_open returned {}", code));
  if (model.score == nullptr || model.rows == nullptr)
    return refuse("tessera_cost_model_open left `score` or `rows` null");
  if (const auto ok = check_own_rows(path, model.rows); !ok) {
    if (model.close != nullptr) model.close(model.state);
    ::dlclose(file);
    return ok.error();
  }
  return std::unique_ptr<CostModel>(std::make_unique<LibraryModel>(path, file, model));
}

}  // namespace tessera::model
