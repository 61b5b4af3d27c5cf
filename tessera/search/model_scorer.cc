#include "tessera/search/model_scorer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <map>
#include <thread>
#include <unordered_map>

#include "tessera/feature/extract.h"
#include "tessera/model/cost_model.h"
#include "tessera/schedule/step.h"

namespace tessera::search {
namespace {

using Clock = std::chrono::steady_clock;
using SharedModel = std::shared_ptr<const model::CostModel>;

constexpr std::size_t kCacheLimit = 200'000;
// Observations at which a pretrained model counts half.
constexpr double kPriorStrength = 128;
// Score of a candidate whose features cannot be computed: after all others.
constexpr float kWorst = std::numeric_limits<float>::lowest();
// Fewer candidates than this for each thread are not worth starting one.
constexpr std::size_t kChunk = 64;

// One model and what it learns from: all tasks, or one when the model sees decisions.
struct Pool {
  SharedModel model, prior;
  int version = 0;  // of the model; scores of another are stale
  feature::FeatureSet features;
  std::vector<std::int32_t> groups;
  std::vector<double> seconds;  // 0: failed
  std::size_t fitted = 0;       // observations at the start of the last fit

  model::TrainingSet training_set() const {
    std::map<std::int32_t, double> best;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      if (seconds[i] <= 0) continue;
      const auto [at, is_new] = best.emplace(groups[i], seconds[i]);
      at->second = std::min(at->second, seconds[i]);
    }
    model::TrainingSet data{features, {}, groups};
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      data.labels.push_back(seconds[i] > 0 ? static_cast<float>(best.at(groups[i]) / seconds[i])
                                           : 0.f);
    }
    return data;
  }
};

// Computes what the model sees. Safe to use from several threads.
class Featurizer {
 public:
  static Result<Featurizer> make(const std::string& name) {
    if (name == "decisions") return Featurizer(std::nullopt);
    for (const auto kind : {feature::FeatureKind::kStatement, feature::FeatureKind::kLoop,
                            feature::FeatureKind::kCurve}) {
      if (name == feature::to_text(kind)) return Featurizer(kind);
    }
    return make_error(ErrorCode::kInvalidArgument,
                      "no features \"{}\": statement, loop, curve, decisions", name);
  }

  bool shares_model() const { return kind_.has_value(); }
  std::string schema() const { return kind_ ? feature::schema_digest(*kind_) : ""; }

  // Replaces `out` by the rows of the candidate; false: it has none.
  bool compute(const space::Space& space, const space::Candidate& c,
               std::vector<float>* out) const {
    out->clear();
    if (!kind_) {
      *out = space.vector_of(c);
      return !out->empty();
    }
    const Result<schedule::Schedule> schedule = space.schedule(c);
    if (!schedule.ok()) return false;
    const Result<schedule::State> state = schedule::apply(space.dag(), *schedule);
    if (!state.ok()) return false;
    return feature::extract(*state, space.target(), *kind_, out).ok() && !out->empty();
  }

  std::size_t columns(const std::vector<float>& rows) const {
    return kind_ ? feature::feature_names(*kind_).size() : rows.size();
  }

 private:
  explicit Featurizer(std::optional<feature::FeatureKind> kind) : kind_(kind) {}
  std::optional<feature::FeatureKind> kind_;
};

class TaskScorer final : public Scorer {
 public:
  TaskScorer(const space::Space& space, const Featurizer& featurizer, Pool& pool, int group,
             int threads, std::int64_t* scored)
      : space_(space),
        featurizer_(featurizer),
        pool_(pool),
        group_(group),
        threads_(threads),
        scored_(scored) {}

  bool ready() const override { return pool_.model != nullptr || pool_.prior != nullptr; }

  std::vector<float> score(std::span<const space::Candidate> candidates) override {
    std::vector<float> out;
    if (!ready()) return out;
    fill_cache(candidates);
    for (const space::Candidate& c : candidates) out.push_back(cache_.at(space::hash_of(c)).score);
    return out;
  }

  std::vector<float> spread(std::span<const space::Candidate> candidates) override {
    std::vector<float> out;
    if (!ready()) return out;
    fill_cache(candidates);
    if (!has_spread_) return out;
    for (const space::Candidate& c : candidates) out.push_back(cache_.at(space::hash_of(c)).spread);
    return out;
  }

  // Remembers the observations that have features; the rest say nothing to a model.
  void learn(std::span<const Observation> observations) {
    std::vector<float> rows;
    for (const Observation& o : observations) {
      if (!featurizer_.compute(space_, o.candidate, &rows)) continue;
      pool_.features.columns = featurizer_.columns(rows);
      pool_.features.add(rows);
      pool_.groups.push_back(group_);
      pool_.seconds.push_back(o.seconds);
    }
  }

 private:
  struct Entry {
    float score = kWorst, spread = 0;
  };

  void fill_cache(std::span<const space::Candidate> candidates) {
    if (version_ != pool_.version || cache_.size() > kCacheLimit) cache_.clear();
    version_ = pool_.version;
    std::vector<const space::Candidate*> missing;
    for (const space::Candidate& c : candidates) {
      if (cache_.try_emplace(space::hash_of(c)).second) missing.push_back(&c);
    }
    if (missing.empty()) return;
    *scored_ += static_cast<std::int64_t>(missing.size());
    std::vector<const space::Candidate*> kept;
    const feature::FeatureSet set = featurize(missing, &kept);
    if (kept.empty()) return;
    const std::vector<float> scores = blend(set);
    const std::vector<float> spreads =
        pool_.model ? pool_.model->spread(set) : std::vector<float>();
    has_spread_ = spreads.size() == kept.size();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      cache_[space::hash_of(*kept[i])] = {scores[i], has_spread_ ? spreads[i] : 0.f};
    }
  }

  std::vector<float> blend(const feature::FeatureSet& set) const {
    if (!pool_.prior) return pool_.model->predict(set);
    std::vector<float> scores = pool_.prior->predict(set);
    if (!pool_.model) return scores;
    const std::vector<float> own = pool_.model->predict(set);
    const auto fade =
        static_cast<float>(kPriorStrength / (kPriorStrength + static_cast<double>(pool_.fitted)));
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = own[i] + fade * scores[i];
    return scores;
  }

  // Features of those candidates that have any, in order; `kept` says which.
  feature::FeatureSet featurize(const std::vector<const space::Candidate*>& candidates,
                                std::vector<const space::Candidate*>* kept) const {
    const std::size_t chunks =
        std::clamp<std::size_t>(candidates.size() / kChunk, 1, static_cast<std::size_t>(threads_));
    struct Part {
      feature::FeatureSet set;
      std::vector<const space::Candidate*> kept;
    };
    std::vector<Part> parts(chunks);
    const auto work = [&](std::size_t chunk) {
      std::vector<float> rows;
      for (std::size_t i = candidates.size() * chunk / chunks;
           i < candidates.size() * (chunk + 1) / chunks; ++i) {
        if (!featurizer_.compute(space_, *candidates[i], &rows)) continue;
        parts[chunk].set.columns = featurizer_.columns(rows);
        parts[chunk].set.add(rows);
        parts[chunk].kept.push_back(candidates[i]);
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < chunks; ++i) threads.emplace_back(work, i);
    work(0);
    for (std::thread& t : threads) t.join();
    feature::FeatureSet all = std::move(parts[0].set);
    *kept = std::move(parts[0].kept);
    for (std::size_t i = 1; i < chunks; ++i) {
      const feature::FeatureSet& set = parts[i].set;
      all.columns = std::max(all.columns, set.columns);
      all.values.insert(all.values.end(), set.values.begin(), set.values.end());
      all.row_count.insert(all.row_count.end(), set.row_count.begin(), set.row_count.end());
      kept->insert(kept->end(), parts[i].kept.begin(), parts[i].kept.end());
    }
    return all;
  }

  const space::Space& space_;
  const Featurizer& featurizer_;
  Pool& pool_;
  int group_, threads_;
  std::int64_t* scored_;
  std::unordered_map<std::uint64_t, Entry> cache_;
  int version_ = 0;
  bool has_spread_ = false;
};

class PooledLearner final : public Learner {
 public:
  PooledLearner(LearnerOptions options, Featurizer featurizer, SharedModel prior)
      : options_(std::move(options)), featurizer_(featurizer), prior_(std::move(prior)) {}
  ~PooledLearner() override {
    if (fitting_.joinable()) fitting_.join();
  }

  Scorer& add_task(const space::Space& space) override {
    if (pools_.empty() || !featurizer_.shares_model()) {
      pools_.push_back(std::make_unique<Pool>());
      pools_.back()->prior = prior_;
    }
    scorers_.push_back(std::make_unique<TaskScorer>(space, featurizer_, *pools_.back(),
                                                    static_cast<int>(scorers_.size()),
                                                    options_.threads, &state_.scored));
    return *scorers_.back();
  }

  void observe(const Scorer& scorer, std::span<const Observation> observations) override {
    for (const std::unique_ptr<TaskScorer>& s : scorers_) {
      if (s.get() == &scorer) s->learn(observations);
    }
  }

  void update() override {
    if (fitting_pool_ != nullptr) {
      if (!done_.load(std::memory_order_acquire)) return;
      take_over();
    }
    for (const std::unique_ptr<Pool>& pool : pools_) {
      if (!wants_fit(*pool)) continue;
      start_fit(*pool);
      if (options_.background) return;
      take_over();
    }
  }

  void wait() override {
    if (fitting_pool_ != nullptr) take_over();
  }

  LearnerState state() const override {
    LearnerState out = state_;
    for (const std::unique_ptr<Pool>& pool : pools_) out.observations += pool->seconds.size();
    return out;
  }

  Result<void> save(const std::string& path) const override {
    if (pools_.size() != 1 || !featurizer_.shares_model() || !pools_.front()->model) {
      return make_error(ErrorCode::kInvalidArgument, "there is no single fitted model to save");
    }
    return pools_.front()->model->save(path);
  }

 private:
  bool wants_fit(const Pool& pool) const {
    const std::size_t count = pool.seconds.size();
    if (count < options_.first_fit) return false;
    if (pool.fitted == 0) return true;
    const auto step = static_cast<std::size_t>(options_.growth * static_cast<double>(pool.fitted));
    return count >= pool.fitted + std::max(options_.min_growth, step);
  }

  void start_fit(Pool& pool) {
    fitting_pool_ = &pool;
    pool.fitted = pool.seconds.size();
    done_.store(false, std::memory_order_relaxed);
    auto fit = [this, data = pool.training_set()] {
      const Clock::time_point start = Clock::now();
      const model::ModelOptions made{options_.objective, options_.seed, featurizer_.schema()};
      Result<std::unique_ptr<model::CostModel>> fresh = model::make_model(options_.model, made);
      fit_error_ = fresh.ok() ? "" : fresh.error().message;
      if (fresh.ok()) {
        const Result<void> fitted = (*fresh)->fit(data, {options_.fit_limit_s, options_.threads});
        if (fitted.ok()) {
          fitted_model_ = std::move(*fresh);
        } else {
          fit_error_ = fitted.error().message;
        }
      }
      fit_seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
      done_.store(true, std::memory_order_release);
    };
    if (options_.background) {
      fitting_ = std::thread(std::move(fit));
    } else {
      fit();
    }
  }

  void take_over() {
    if (fitting_.joinable()) fitting_.join();
    if (fitted_model_) {
      fitting_pool_->model = std::move(fitted_model_);
      ++fitting_pool_->version;
      ++state_.fits;
    }
    fitted_model_ = nullptr;
    state_.fit_seconds += fit_seconds_;
    state_.last_error = fit_error_;
    fitting_pool_ = nullptr;
  }

  LearnerOptions options_;
  Featurizer featurizer_;
  SharedModel prior_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<std::unique_ptr<TaskScorer>> scorers_;
  LearnerState state_;

  std::thread fitting_;
  Pool* fitting_pool_ = nullptr;  // a fit is running or waits to be taken over
  // Written by the fitting thread before done_, read after it.
  std::atomic<bool> done_ = false;
  SharedModel fitted_model_;
  std::string fit_error_;
  double fit_seconds_ = 0;
};

}  // namespace

Result<std::unique_ptr<Learner>> Learner::make(const LearnerOptions& options) {
  TESSERA_TRY(Featurizer featurizer, Featurizer::make(options.features));
  TESSERA_TRY(
      std::unique_ptr<model::CostModel> model,
      model::make_model(options.model, {options.objective, options.seed, featurizer.schema()}));
  SharedModel prior;
  if (!options.pretrained.empty()) {
    if (!featurizer.shares_model()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "a pretrained model needs features that tasks share, not \"{}\"",
                        options.features);
    }
    TESSERA_DO(model->load(options.pretrained));
    prior = std::move(model);
  }
  return std::unique_ptr<Learner>(
      std::make_unique<PooledLearner>(options, featurizer, std::move(prior)));
}

}  // namespace tessera::search
