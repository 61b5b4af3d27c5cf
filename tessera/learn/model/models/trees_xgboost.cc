#include <algorithm>
#include <cmath>
#include <limits>

#include <xgboost/c_api.h>

#include "tessera/learn/model/fit.h"
#include "tessera/learn/model/models/forest.h"
#include "tessera/learn/model/models/trees.h"
#include "tessera/support/clock.h"
#include "tessera/support/parallel.h"
#include "tessera/support/rng.h"

namespace tessera::model {
namespace {

// From this many candidates on, some are held out to tell when to stop.
constexpr std::size_t kEnoughToHoldOut = 160;
constexpr double kHeldOutShare = 0.12;
// Fewer rows than this for each thread are not worth starting one.
constexpr std::size_t kRowsOfThread = 2048;

#define TESSERA_XGB(call)                                                       \
  if ((call) != 0) {                                                            \
    return make_error(ErrorCode::kRunFailed, "XGBoost: {}", XGBGetLastError()); \
  }

struct Matrix {
  DMatrixHandle handle = nullptr;
  Matrix() = default;
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() {
    if (handle != nullptr) XGDMatrixFree(handle);
  }
};

struct Booster {
  BoosterHandle handle = nullptr;
  Booster() = default;
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;
  ~Booster() { reset(nullptr); }
  void reset(BoosterHandle other) {
    if (handle != nullptr) XGBoosterFree(handle);
    handle = other;
  }
};

Result<void> configure(BoosterHandle booster, const TreeOptions& tree, int threads) {
  const std::pair<const char*, std::string> params[] = {
      {"tree_method", "hist"},
      {"objective", "reg:squarederror"},  // only for its identity link; gradients come from Loss
      {"base_score", "0"},
      {"max_depth", std::to_string(tree.depth)},
      {"eta", std::to_string(tree.eta)},
      {"max_bin", "64"},
      {"min_child_weight", "0.1"},
      {"lambda", "1"},
      {"seed", std::to_string(tree.seed & 0x7fffffff)},
      {"nthread", std::to_string(threads)},
      {"verbosity", "0"},
  };
  for (const auto& [name, value] : params) {
    TESSERA_XGB(XGBoosterSetParam(booster, name, value.c_str()));
  }
  return {};
}

void sum_rows(const float* rows, std::span<const std::int32_t> row_count,
              std::vector<float>* scores) {
  for (std::size_t i = 0; i < row_count.size(); ++i) {
    float sum = 0;
    for (std::int32_t k = 0; k < row_count[i]; ++k) sum += *rows++;
    (*scores)[i] = sum;
  }
}

std::vector<float> hold_out(std::span<const float> weights, std::uint64_t seed) {
  std::vector<float> kept(weights.begin(), weights.end());
  const auto left_out = std::count(kept.begin(), kept.end(), 0.f);
  // What a bootstrap sample did not draw is held out already.
  if (weights.size() < kEnoughToHoldOut ||
      static_cast<double>(left_out) > kHeldOutShare * static_cast<double>(kept.size())) {
    return kept;
  }
  Rng rng(seed ^ 0x5e1dau);
  for (float& w : kept) {
    if (rng.chance(kHeldOutShare)) w = 0;
  }
  return kept;
}

// One fit: the matrix, the booster and the derivatives that go between them.
class Fit {
 public:
  Fit(const TrainingSet& data, std::span<const float> weights, const TreeOptions& tree,
      const FitOptions& options)
      : data_(data),
        tree_(tree),
        options_(options),
        weights_(hold_out(weights, tree.seed)),
        holds_out_(weights.size() >= kEnoughToHoldOut),
        loss_(make_loss(tree.objective, data, tree.seed)) {}

  Result<void> run(Booster* out) {
    const feature::FeatureSet& f = data_.features;
    TESSERA_XGB(XGDMatrixCreateFromMat_omp(f.values.data(), f.rows(), f.columns, std::nanf(""),
                                           &matrix_.handle, options_.threads));
    TESSERA_XGB(XGBoosterCreate(&matrix_.handle, 1, &booster_.handle));
    TESSERA_DO(configure(booster_.handle, tree_, options_.threads));
    TESSERA_TRY(const int rounds, boost());
    BoosterHandle best = nullptr;
    TESSERA_XGB(XGBoosterSlice(booster_.handle, 0, rounds, 1, &best));
    out->reset(best);
    return configure(best, tree_, options_.threads);
  }

 private:
  // How many rounds to keep.
  Result<int> boost() {
    const Clock::time_point start = Clock::now();
    const std::size_t n = data_.features.candidates();
    std::vector<float> scores = data_.base;
    scores.resize(n, 0);
    Derivatives d{std::vector<float>(n), std::vector<float>(n)};
    double best_loss = std::numeric_limits<double>::infinity();
    int best_round = 1, round = 0;
    const int limit = holds_out_ ? tree_.max_rounds : tree_.plain_rounds;
    while (round < limit) {
      loss_->derivatives(scores, weights_, &d);
      TESSERA_DO(add_tree(d));
      ++round;
      TESSERA_DO(predict_training(&scores));
      const double loss = holds_out_ ? loss_->held_out(scores, weights_) : -round;
      if (loss < best_loss) best_loss = loss, best_round = round;
      if (round - best_round >= tree_.patience) break;
      if (options_.time_limit_s > 0 && seconds_since(start) > options_.time_limit_s) break;
    }
    return best_round;
  }

  Result<void> add_tree(const Derivatives& d) {
    first_.clear();
    second_.clear();
    for (std::size_t i = 0; i < d.first.size(); ++i) {
      const std::int32_t rows = data_.features.row_count[i];
      // All rows of a candidate move its sum at once: the curvature along that step grows with
      // their number.
      first_.insert(first_.end(), static_cast<std::size_t>(rows), d.first[i]);
      second_.insert(second_.end(), static_cast<std::size_t>(rows),
                     d.second[i] * static_cast<float>(rows));
    }
    TESSERA_XGB(XGBoosterBoostOneIter(booster_.handle, matrix_.handle, first_.data(),
                                      second_.data(), first_.size()));
    return {};
  }

  Result<void> predict_training(std::vector<float>* scores) {
    const bst_ulong* shape = nullptr;
    bst_ulong dims = 0;
    const float* rows = nullptr;
    TESSERA_XGB(XGBoosterPredictFromDMatrix(
        booster_.handle, matrix_.handle,
        R"({"type":1,"training":true,"iteration_begin":0,"iteration_end":0,"strict_shape":false})",
        &shape, &dims, &rows));
    sum_rows(rows, data_.features.row_count, scores);
    for (std::size_t i = 0; i < data_.base.size(); ++i) (*scores)[i] += data_.base[i];
    return {};
  }

  const TrainingSet& data_;
  const TreeOptions& tree_;
  const FitOptions& options_;
  std::vector<float> weights_;
  bool holds_out_;
  std::unique_ptr<Loss> loss_;
  Matrix matrix_;
  Booster booster_;
  std::vector<float> first_, second_;
};

}  // namespace

struct Trees::Impl {
  Booster booster;
  Forest forest;  // the same trees
  int threads = 1;
};

Result<Trees> Trees::make() { return Trees(std::make_unique<Impl>()); }

Trees::Trees(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trees::Trees(Trees&&) noexcept = default;
Trees& Trees::operator=(Trees&&) noexcept = default;
Trees::~Trees() = default;

Result<void> Trees::fit(const TrainingSet& data, std::span<const float> weights,
                        const TreeOptions& tree, const FitOptions& options) {
  TESSERA_DO(Fit(data, weights, tree, options).run(&impl_->booster));
  impl_->threads = std::max(1, options.threads);
  TESSERA_TRY(const std::string bytes, to_bytes());
  TESSERA_TRY(impl_->forest, Forest::from_ubjson(bytes));
  return {};
}

std::vector<float> Trees::predict(const feature::FeatureSet& features) const {
  std::vector<float> scores(features.candidates(), 0);
  if (scores.empty() || impl_->booster.handle == nullptr) return scores;
  const std::size_t count = features.rows();
  std::vector<float> rows(count);
  const std::size_t chunks =
      std::clamp<std::size_t>(count / kRowsOfThread, 1, static_cast<std::size_t>(impl_->threads));
  parallel_for(chunks, static_cast<int>(chunks), [&](std::size_t chunk) {
    const std::size_t begin = count * chunk / chunks, end = count * (chunk + 1) / chunks;
    impl_->forest.predict(features.values.data() + begin * features.columns, end - begin,
                          features.columns, rows.data() + begin);
  });
  sum_rows(rows.data(), features.row_count, &scores);
  return scores;
}

Result<std::string> Trees::to_bytes() const {
  bst_ulong size = 0;
  const char* bytes = nullptr;
  TESSERA_XGB(
      XGBoosterSaveModelToBuffer(impl_->booster.handle, R"({"format":"ubj"})", &size, &bytes));
  return std::string(bytes, size);
}

Result<void> Trees::from_bytes(const std::string& bytes, int threads) {
  Booster loaded;
  TESSERA_XGB(XGBoosterCreate(nullptr, 0, &loaded.handle));
  TESSERA_XGB(XGBoosterLoadModelFromBuffer(loaded.handle, bytes.data(), bytes.size()));
  TESSERA_DO(configure(loaded.handle, {}, threads));
  TESSERA_TRY(impl_->forest, Forest::from_ubjson(bytes));
  impl_->threads = std::max(1, threads);
  impl_->booster.reset(std::exchange(loaded.handle, nullptr));
  return {};
}

}  // namespace tessera::model
