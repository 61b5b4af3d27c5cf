#include "tessera/search/model_scorer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <thread>
#include <unordered_map>

#include "tessera/learn/model/fit.h"
#include "tessera/learn/model/guard.h"
#include "tessera/learn/model/row_schema.h"
#include "tessera/search/featurizer.h"

namespace tessera::search {
namespace {

using Clock = std::chrono::steady_clock;
using model::Predictor;
using SharedModel = std::shared_ptr<const model::CostModel>;

constexpr std::size_t kCacheLimit = 200'000;
// Candidates of a task that show where the scores of models lie.
constexpr int kSample = 64;
constexpr std::uint64_t kSampleSeed = 1;
// Score of a candidate whose features cannot be computed: after all others.
constexpr float kWorst = std::numeric_limits<float>::lowest();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// What a fit gives: a model of its own, and where there is a global model one that adds to it.
struct Fitted {
  SharedModel local, residual;
  float scale = 0;  // of the global model's scores in the sum
};

// One model and what it learns from: all tasks, or one when the model sees decisions.
struct Pool {
  Fitted fitted;
  int version = 0;  // of the fit; scores of another are stale
  feature::FeatureSet features;
  std::vector<std::int32_t> groups;
  std::vector<double> seconds;  // 0: failed
  std::vector<float> global;    // scores of the global model, where there is one
  std::size_t at_fit = 0;       // observations at the start of the last fit

  model::TrainingSet training_set() const {
    std::map<std::int32_t, double> best;
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      if (seconds[i] <= 0) continue;
      const auto [at, is_new] = best.emplace(groups[i], seconds[i]);
      at->second = std::min(at->second, seconds[i]);
    }
    model::TrainingSet data{features, {}, groups, {}};
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      data.labels.push_back(seconds[i] > 0 ? static_cast<float>(best.at(groups[i]) / seconds[i])
                                           : 0.f);
    }
    return data;
  }
};

class TaskScorer final : public Scorer {
 public:
  // `global` may be null. With equal needs one computation of features serves both models.
  TaskScorer(Pool& pool, const space::Space& space, SharedModel global,
             std::unique_ptr<Featurizer> features, std::unique_ptr<Featurizer> global_features,
             int group, std::int64_t* scored)
      : pool_(pool),
        space_(space),
        global_(std::move(global)),
        features_(std::move(features)),
        global_features_(std::move(global_features)),
        group_(group),
        scored_(scored) {}

  bool ready() const override { return predictor() != Predictor::kNone; }
  Predictor predictor() const {
    return guard_.choose(global_ != nullptr && !global_failed_, pool_.fitted.local != nullptr);
  }

  std::vector<float> score(std::span<const decide::Candidate> candidates) override {
    std::vector<float> out;
    const Predictor by = predictor();
    if (by == Predictor::kNone) return out;
    fill_cache(candidates);
    for (const decide::Candidate& c : candidates) {
      const Entry& entry = cache_.at(decide::hash_of(c));
      const float score = entry.scores[static_cast<std::size_t>(by)];
      out.push_back(std::isfinite(score) ? score : kWorst);
    }
    return out;
  }

  std::vector<float> spread(std::span<const decide::Candidate> candidates) override {
    std::vector<float> out;
    const Predictor by = predictor();
    if (by == Predictor::kNone) return out;
    fill_cache(candidates);
    // Of what score() returns now: the spread of one model says nothing in the unit of another.
    const bool global = by == Predictor::kGlobal;
    if (!(global ? has_global_spread_ : has_spread_)) return out;
    for (const decide::Candidate& c : candidates) {
      const Entry& entry = cache_.at(decide::hash_of(c));
      out.push_back(global ? entry.global_spread : entry.spread);
    }
    return out;
  }

  bool believes_global() const {
    const Predictor by = predictor();
    return by == Predictor::kGlobal || by == Predictor::kBoth;
  }

  std::vector<float> log_times(std::span<const decide::Candidate> candidates) {
    if (!believes_global()) return {};
    std::vector<const decide::Candidate*> pointers;
    for (const decide::Candidate& c : candidates) pointers.push_back(&c);
    std::vector<std::size_t> kept;
    const feature::FeatureSet set = features_of_global().compute(pointers, &kept);
    if (kept.size() != candidates.size()) return {};
    return global_->log_time(set);
  }

  // Judges the models by the observations, then remembers those that have features; the rest say
  // nothing to a model.
  void learn(std::span<const Observation> observations) {
    std::vector<decide::Candidate> candidates;
    std::vector<const decide::Candidate*> pointers;
    pointers.reserve(observations.size());
    for (const Observation& o : observations) candidates.push_back(o.candidate);
    for (const decide::Candidate& c : candidates) pointers.push_back(&c);
    if (global_ != nullptr) fill_cache(candidates);
    // Between batches: within one a policy relies on what ready() said.
    global_failed_ = global_failing_;
    std::vector<std::size_t> kept;
    pool_.features.append(features_->compute(pointers, &kept));
    for (const std::size_t i : kept) {
      pool_.groups.push_back(group_);
      pool_.seconds.push_back(observations[i].seconds);
      if (global_ == nullptr) continue;
      const model::PredictorScores& scores = cache_.at(decide::hash_of(candidates[i])).scores;
      const float of_global = scores[static_cast<std::size_t>(Predictor::kGlobal)];
      pool_.global.push_back(std::isfinite(of_global) ? of_global : 0.f);
      if (!observations[i].censored) guard_.observe(scores, observations[i].seconds, pool_.version);
    }
  }

 private:
  struct Entry {
    model::PredictorScores scores = {kNaN, kNaN, kNaN};
    float spread = 0;         // in the unit of the local scores and their corrected sums
    float global_spread = 0;  // in that of the global ones
    int version = -1;
  };

  void fill_cache(std::span<const decide::Candidate> candidates) {
    if (cache_.size() > kCacheLimit) cache_.clear();
    std::vector<const decide::Candidate*> missing;
    bool lacks_global = false;
    for (const decide::Candidate& c : candidates) {
      Entry& entry = cache_[decide::hash_of(c)];
      if (entry.version == pool_.version) continue;
      lacks_global |= entry.version < 0;
      entry.version = pool_.version;
      missing.push_back(&c);
    }
    if (missing.empty()) return;
    if (global_ != nullptr && global_->per_task() && !std::exchange(placed_, true)) place_global();
    *scored_ += static_cast<std::int64_t>(missing.size());
    const bool has_local = pool_.fitted.local != nullptr;
    std::vector<std::size_t> kept;
    feature::FeatureSet set;
    if (has_local || !global_features_) set = features_->compute(missing, &kept);
    if (global_ != nullptr && lacks_global && !global_failing_) {
      std::vector<std::size_t> global_kept = kept;
      const bool own = global_features_ != nullptr;
      const feature::FeatureSet other =
          own ? global_features_->compute(missing, &global_kept) : feature::FeatureSet();
      if (!global_kept.empty()) {
        add_global(missing, global_kept, own ? other : set);
      }
    }
    if (has_local && !kept.empty()) add_local(missing, kept, set);
  }

  // Several models judge together in the unit of the task.
  void place_global() {
    std::vector<decide::Candidate> drawn;
    std::vector<const decide::Candidate*> pointers;
    Rng rng(kSampleSeed);
    for (int i = 0; i < kSample; ++i) drawn.push_back(space_.sample(rng));
    pointers.reserve(drawn.size());
    for (const decide::Candidate& c : drawn) pointers.push_back(&c);
    std::vector<std::size_t> kept;
    const feature::FeatureSet sample = features_of_global().compute(pointers, &kept);
    if (const SharedModel placed = global_->for_task(sample)) global_ = placed;
  }

  Featurizer& features_of_global() { return global_features_ ? *global_features_ : *features_; }

  void put(const std::vector<const decide::Candidate*>& candidates,
           const std::vector<std::size_t>& kept, const std::vector<float>& scores, Predictor by) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      Entry& entry = cache_[decide::hash_of(*candidates[kept[i]])];
      entry.scores[static_cast<std::size_t>(by)] = scores[i];
    }
  }

  void add_global(const std::vector<const decide::Candidate*>& candidates,
                  const std::vector<std::size_t>& kept, const feature::FeatureSet& set) {
    const model::Judgement judged = global_->judge(set);
    put(candidates, kept, judged.scores, Predictor::kGlobal);
    // It is not asked again: it may have tried to build code that does not build.
    global_failing_ = std::none_of(judged.scores.begin(), judged.scores.end(),
                                   [](float score) { return std::isfinite(score); });
    if (global_failing_) return;
    has_global_spread_ = judged.spread.size() == kept.size();
    for (std::size_t i = 0; i < kept.size() && has_global_spread_; ++i) {
      cache_[decide::hash_of(*candidates[kept[i]])].global_spread = judged.spread[i];
    }
  }

  void add_local(const std::vector<const decide::Candidate*>& candidates,
                 const std::vector<std::size_t>& kept, const feature::FeatureSet& set) {
    const Fitted& fitted = pool_.fitted;
    model::Judgement judged = fitted.local->judge(set);
    const std::vector<float>& own = judged.scores;
    put(candidates, kept, own, Predictor::kLocal);
    std::vector<float>& spreads = judged.spread;
    if (fitted.residual) {
      std::vector<float> both = fitted.residual->predict(set);
      for (std::size_t i = 0; i < kept.size(); ++i) {
        const Entry& entry = cache_.at(decide::hash_of(*candidates[kept[i]]));
        both[i] += fitted.scale * entry.scores[static_cast<std::size_t>(Predictor::kGlobal)];
      }
      put(candidates, kept, both, Predictor::kBoth);
      // Two models of one unit that learned from the same trials: where they differ, little is
      // known.
      if (spreads.empty()) {
        for (std::size_t i = 0; i < kept.size(); ++i) {
          const Entry& entry = cache_.at(decide::hash_of(*candidates[kept[i]]));
          const float of_global = has_global_spread_ ? fitted.scale * entry.global_spread : 0;
          spreads.push_back(std::hypot(std::abs(own[i] - both[i]) * 0.7f, of_global));
        }
      }
    }
    has_spread_ = spreads.size() == kept.size();
    for (std::size_t i = 0; i < kept.size() && has_spread_; ++i) {
      cache_[decide::hash_of(*candidates[kept[i]])].spread = spreads[i];
    }
  }

  Pool& pool_;
  const space::Space& space_;
  SharedModel global_;
  bool placed_ = false;  // the global model in the unit of this task
  std::unique_ptr<Featurizer> features_, global_features_;  // the latter null: the same serve both
  int group_;
  std::int64_t* scored_;
  model::Guard guard_;
  std::unordered_map<std::uint64_t, Entry> cache_;
  bool has_spread_ = false, has_global_spread_ = false;
  bool global_failing_ = false, global_failed_ = false;  // the latter is what predictor() sees
};

class PooledLearner final : public Learner {
 public:
  PooledLearner(LearnerOptions options, SharedModel global)
      : options_(std::move(options)), global_(std::move(global)) {
    needs_.rows = options_.features;
    // One set of features is enough where the global model reads more of the same rows.
    shares_features_ = global_ != nullptr && global_->needs().rows == needs_.rows;
    if (shares_features_) needs_ = global_->needs();
  }
  ~PooledLearner() override {
    if (fitting_.joinable()) fitting_.join();
  }

  Scorer& add_task(const space::Space& space) override {
    if (pools_.empty() || !shares_model()) pools_.push_back(std::make_unique<Pool>());
    Result<std::unique_ptr<Featurizer>> own =
        Featurizer::make(needs_, space, options_.code_threads, options_.feature_threads);
    TESSERA_CHECK(own.ok(), "{}", own.error().message);
    std::unique_ptr<Featurizer> other;
    if (global_ != nullptr && !shares_features_) {
      Result<std::unique_ptr<Featurizer>> made = Featurizer::make(
          global_->needs(), space, options_.code_threads, options_.feature_threads);
      TESSERA_CHECK(made.ok(), "{}", made.error().message);
      other = std::move(*made);
    }
    scorers_.push_back(std::make_unique<TaskScorer>(
        *pools_.back(), space, global_, std::move(*own), std::move(other),
        static_cast<int>(scorers_.size()), &state_.scored));
    return *scorers_.back();
  }

  void observe(const Scorer& scorer, std::span<const Observation> observations) override {
    for (const std::unique_ptr<TaskScorer>& s : scorers_) {
      if (s.get() == &scorer) s->learn(observations);
    }
  }

  std::vector<float> log_times(const Scorer& scorer,
                               std::span<const decide::Candidate> candidates) override {
    for (const std::unique_ptr<TaskScorer>& s : scorers_) {
      if (s.get() == &scorer) return s->log_times(candidates);
    }
    return {};
  }

  bool believes_global(const Scorer& scorer) const override {
    return std::any_of(scorers_.begin(), scorers_.end(),
                       [&](const auto& s) { return s.get() == &scorer && s->believes_global(); });
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
    if (out.last_error.empty() && global_ != nullptr) out.last_error = global_->last_error();
    out.tasks = scorers_.size();
    for (const std::unique_ptr<TaskScorer>& s : scorers_) {
      const Predictor by = s->predictor();
      const bool without = by == Predictor::kLocal || by == Predictor::kNone;
      if (global_ != nullptr && without) ++out.tasks_without_global;
    }
    return out;
  }

  Result<void> save(const std::string& path) const override {
    if (pools_.size() != 1 || !shares_model() || !pools_.front()->fitted.local) {
      return make_error(ErrorCode::kInvalidArgument, "there is no single fitted model to save");
    }
    return pools_.front()->fitted.local->save(path);
  }

 private:
  bool shares_model() const { return options_.features != "decisions"; }

  bool wants_fit(const Pool& pool) const {
    const std::size_t count = pool.seconds.size();
    if (count < options_.first_fit) return false;
    if (pool.at_fit == 0) return true;
    const auto step = static_cast<std::size_t>(options_.growth * static_cast<double>(pool.at_fit));
    return count >= pool.at_fit + std::max(options_.min_growth, step);
  }

  // Runs in the fitting thread: touches nothing of the learner that changes.
  Result<SharedModel> fit_one(const model::TrainingSet& data) const {
    std::string schema;
    if (shares_model()) {
      TESSERA_TRY(const model::RowSchema rows, model::row_schema(options_.features));
      schema = rows.digest;
    }
    TESSERA_TRY(std::unique_ptr<model::CostModel> fresh,
                model::make_model(options_.model, {options_.objective, options_.seed, schema}));
    TESSERA_DO(fresh->fit(data, {options_.fit_limit_s, options_.threads}));
    return SharedModel(std::move(fresh));
  }

  Result<Fitted> fit_all(model::TrainingSet data, const std::vector<float>& global) const {
    Fitted out;
    TESSERA_TRY(out.local, fit_one(data));
    if (global_ == nullptr) return out;
    out.scale = model::base_scale(options_.objective, data, global, options_.seed);
    for (const float score : global) data.base.push_back(out.scale * score);
    TESSERA_TRY(out.residual, fit_one(data));
    return out;
  }

  void start_fit(Pool& pool) {
    fitting_pool_ = &pool;
    pool.at_fit = pool.seconds.size();
    done_.store(false, std::memory_order_relaxed);
    auto fit = [this, data = pool.training_set(), global = pool.global]() mutable {
      const Clock::time_point start = Clock::now();
      Result<Fitted> fresh = fit_all(std::move(data), global);
      fit_error_ = fresh.ok() ? "" : fresh.error().message;
      fitted_ = fresh.ok() ? std::move(*fresh) : Fitted();
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
    if (fitted_.local) {
      fitting_pool_->fitted = std::move(fitted_);
      ++fitting_pool_->version;
      ++state_.fits;
    }
    fitted_ = {};
    state_.fit_seconds += fit_seconds_;
    state_.last_error = fit_error_;
    fitting_pool_ = nullptr;
  }

  LearnerOptions options_;
  SharedModel global_;
  model::Needs needs_;
  bool shares_features_ = false;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<std::unique_ptr<TaskScorer>> scorers_;
  LearnerState state_;

  std::thread fitting_;
  Pool* fitting_pool_ = nullptr;  // a fit is running or waits to be taken over
  // Written by the fitting thread before done_, read after it.
  std::atomic<bool> done_ = false;
  Fitted fitted_;
  std::string fit_error_;
  double fit_seconds_ = 0;
};

}  // namespace

Result<std::unique_ptr<Learner>> Learner::make(const LearnerOptions& options) {
  if (options.features != "decisions") TESSERA_DO(model::row_schema(options.features));
  TESSERA_DO(model::make_model(options.model, {options.objective, options.seed, ""}));
  SharedModel global = options.global;
  if (!options.pretrained.empty()) {
    TESSERA_TRY(global, model::load_models(options.pretrained, options.threads));
  }
  return std::unique_ptr<Learner>(std::make_unique<PooledLearner>(options, std::move(global)));
}

}  // namespace tessera::search
