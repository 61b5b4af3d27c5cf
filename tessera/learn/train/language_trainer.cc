#include "tessera/learn/train/language_trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include <fmt/ranges.h>

#include "tessera/learn/lm/columns.h"
#include "tessera/learn/train/checkpoint.h"
#include "tessera/learn/train/prefetch.h"
#include "tessera/learn/train/trainer.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"

namespace tessera::train {
namespace {

constexpr std::array kRecipes = {"all", "best", "preference", "contrast"};
// Of the sentences that a writer would like to have written.
constexpr float kGood = 0.9F;

// Of the values: whether the space prefers it.
std::size_t preferred_column() {
  const std::vector<std::string>& names = lm::value_columns();
  const auto it = std::find(names.begin(), names.end(), "preferred");
  TESSERA_CHECK(it != names.end(), "values have no column 'preferred'");
  return static_cast<std::size_t>(it - names.begin());
}

class Scorer {
 public:
  Scorer(const Sentences& sentences, double gap)
      : sentences_(sentences), gap_(gap), preferred_(preferred_column()) {}

  // `good`: only those of high quality count, where it is known; pairs always do. `common`: the
  // probabilities that sentences have without a quality; null: none were computed.
  void add(const LanguageStep& step, const LanguageBatch& batch, const Chances& chances, bool good,
           const Chances* common) {
    const std::int64_t g = batch.shape.sentences, t = batch.shape.answers;
    for (std::size_t s = 0; s < step.size(); ++s) {
      std::vector<std::pair<float, double>> sums;
      for (std::size_t i = 0; i < step[s].entries.size(); ++i) {
        const Sentences::Entry& entry = sentences_[step[s].entries[i]];
        const auto first = (static_cast<std::int64_t>(s) * g + static_cast<std::int64_t>(i)) * t;
        double sum = add_sentence(entry, chances, first, good);
        if (common != nullptr) sum -= sum_of(entry, *common, first);
        sums.emplace_back(entry.quality, sum);
      }
      add_pairs(sums);
    }
  }

  LanguageScores scores() const {
    LanguageScores out = sums_;
    const double n = std::max<double>(1, static_cast<double>(out.answers));
    for (double* x : {&out.loss, &out.accuracy, &out.uniform_loss, &out.uniform_accuracy,
                      &out.preferred_accuracy}) {
      *x /= n;
    }
    out.pairs = pairs_ == 0 ? 0 : right_ / pairs_;
    return out;
  }

 private:
  double add_sentence(const Sentences::Entry& entry, const Chances& chances, std::int64_t first,
                      bool good) {
    const lm::Subject& subject = sentences_.subject(entry.subject);
    const bool counts = !good || entry.quality < 0 || entry.quality >= kGood;
    double sum = 0;
    auto slot = static_cast<std::size_t>(first);
    for (const Sentences::Answer& answer : sentences_.answers(entry)) {
      const auto chance = static_cast<double>(chances.log_prob[slot]);
      sum += chance;
      const auto legal = static_cast<double>(sentences_.legal(answer).size());
      if (counts) {
        ++sums_.answers;
        sums_.loss -= chance;
        sums_.accuracy += chances.likeliest[slot] == answer.taken ? 1 : 0;
        sums_.uniform_loss += std::log(legal);
        sums_.uniform_accuracy += 1 / legal;
        const lm::Value& taken = subject.questions[answer.question].values[answer.taken];
        sums_.preferred_accuracy += taken[preferred_] != 0 ? 1 : 0;
      }
      ++slot;
    }
    sums_.sentences += counts ? 1 : 0;
    return sum;
  }

  static double sum_of(const Sentences::Entry& entry, const Chances& chances, std::int64_t first) {
    const auto begin = chances.log_prob.begin() + first;
    return std::accumulate(begin, begin + entry.count, 0.0);
  }

  void add_pairs(const std::vector<std::pair<float, double>>& sums) {
    for (const auto& [a, log_a] : sums) {
      for (const auto& [b, log_b] : sums) {
        if (a < 0 || b < 0 || static_cast<double>(a - b) < gap_) continue;
        pairs_ += 1;
        right_ += log_a > log_b ? 1 : (log_a == log_b ? 0.5 : 0);
      }
    }
  }

  const Sentences& sentences_;
  double gap_;
  std::size_t preferred_;
  LanguageScores sums_;
  double pairs_ = 0, right_ = 0;
};

class LanguageRun {
 public:
  LanguageRun(const LanguageTask& task, const LanguageOptions& options,
              const std::function<void(const LanguageReport&)>& report,
              const std::atomic<bool>* stop)
      : task_(task),
        sentences_(task.sentences),
        options_(options),
        report_(report),
        stop_(stop),
        pairs_(options.recipe == Recipe::kPreference || options.recipe == Recipe::kContrast) {}

  Result<TrainedLanguageRun> train() {
    TESSERA_DO(prepare());
    TESSERA_DO(resume());
    begin_ = mark_ = Clock::now();
    // However short the time, one step is learnt from.
    const std::int64_t first = step_;
    while (step_ < steps_ && !stopped() && (step_ == first || time_share() < 1))
      TESSERA_DO(run_epoch(step_ / per_epoch_));
    // Time may be up between two epochs.
    if (!stopped() && done_ > 0) TESSERA_DO(end_round());
    if (stopped() && step_ < steps_) TESSERA_DO(keep_checkpoint());
    return finish();
  }

 private:
  bool stopped() const { return stop_ != nullptr && stop_->load(); }
  // Of what this call may take; 0 where there is no limit.
  double time_share() const {
    return options_.limit_s > 0 ? seconds_since(begin_) / options_.limit_s : 0;
  }

  Result<void> check_options() const {
    const TrainOptions& t = options_.train;
    if (t.epochs < 1 || t.batch < 1 || options_.group < 1 || !(t.lr > 0) || options_.round < 0 ||
        options_.checkpoint_every < 1 || options_.validate_most < 1) {
      return make_error(
          ErrorCode::kInvalidArgument,
          "epochs, batch, group, lr, checkpoint-every and validate-most must be greater "
          "than 0, and validate-every must not be negative");
    }
    const auto share = [](double x) { return x >= 0 && x <= 1; };
    if (!share(options_.hidden) || !share(options_.best) || !share(options_.holdout)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "hidden, best and holdout are shares, from 0 to 1");
    }
    if (options_.recipe == Recipe::kContrast && !(options_.quality && options_.preference.tilt > 0))
      return make_error(ErrorCode::kInvalidArgument, "a contrast needs qualities and a tilt");
    if (pairs_ && (!(options_.preference.gap > 0) || options_.group < 2)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "pairs need a gap of quality and groups of at least two sentences");
    }
    return {};
  }

  Result<void> prepare() {
    TESSERA_DO(check_options());
    std::vector<std::uint32_t> train, validation;
    for (std::uint32_t i = 0; i < sentences_.size(); ++i) {
      const bool out = held_out(sentences_.subject(sentences_[i].subject), options_.holdout);
      (out ? validation : train).push_back(i);
    }
    held_out_ = validation;
    if (options_.recipe == Recipe::kBest) {
      train = best_of_tasks(sentences_, train, options_.best);
      validation = best_of_tasks(sentences_, validation, options_.best);
    }
    if (pairs_) {
      const auto unknown = [&](std::uint32_t i) { return sentences_[i].quality < 0; };
      std::erase_if(train, unknown);
      std::erase_if(validation, unknown);
    }
    if (train.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "no sentence to learn from among {}{}",
                        sentences_.size(),
                        pairs_ || options_.recipe == Recipe::kBest ? ": none has a quality" : "");
    }
    train_ = std::move(train);
    subjects_ = std::max<std::int64_t>(1, options_.train.batch / options_.group);
    Rng rng(hash_bytes("validation", options_.train.seed));
    validation_ = plan_most(validation, rng);
    held_out_steps_ = plan_most(held_out_, rng);
    per_epoch_ = static_cast<std::int64_t>(plan(0).size());
    steps_ = per_epoch_ * options_.train.epochs;
    round_ = options_.round > 0 ? options_.round : per_epoch_;
    LanguageLossOptions loss = options_.preference;
    loss.loss = options_.recipe == Recipe::kContrast ? LanguageLoss::kContrast
                : pairs_                             ? LanguageLoss::kPreference
                                                     : LanguageLoss::kLikelihood;
    TESSERA_TRY(trainee_, make_language_trainee(task_.start.spec, task_.start.weights,
                                                options_.train.trainee, loss));
    best_ = task_.start.weights;
    return {};
  }

  // At most validate_most sentences.
  std::vector<LanguageStep> plan_most(const std::vector<std::uint32_t>& entries, Rng& rng) const {
    std::vector<LanguageStep> steps =
        plan_sentences(sentences_, entries, subjects_, options_.group, rng);
    std::int64_t count = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (const SentenceGroup& g : steps[i]) {
        count += static_cast<std::int64_t>(g.entries.size());
      }
      if (count >= options_.validate_most) steps.resize(i + 1);
    }
    return steps;
  }

  std::vector<LanguageStep> plan(std::int64_t epoch) const {
    Rng rng(hash_bytes(fmt::format("epoch {}", epoch), options_.train.seed));
    return plan_sentences(sentences_, train_, subjects_, options_.group, rng);
  }

  Told told(bool own) const {
    if (!options_.quality || options_.recipe == Recipe::kBest) return Told::kNothing;
    return own && !pairs_ ? Told::kOwn : Told::kBest;
  }

  // What a checkpoint must agree on: all that the weights after a number of steps follow from.
  RunIdentity identity() const {
    const TrainOptions& t = options_.train;
    const auto number = [](auto value) { return fmt::format("{}", value); };
    std::vector<std::string> hyper;
    for (const auto& [name, value] : task_.start.spec.hyper) {
      hyper.push_back(fmt::format("{}={}", name, value));
    }
    const LanguageLossOptions& p = options_.preference;
    return {
        {"network", "language"},
        {"hyper", fmt::format("{}", fmt::join(hyper, ","))},
        {"schema", task_.start.schema},
        {"sentences", sentences_.digest()},
        {"init", t.init.empty() ? "none" : t.init},
        {"recipe", to_text(options_.recipe)},
        {"quality", options_.quality ? "told" : "hidden"},
        {"hidden", number(options_.hidden)},
        {"best", number(options_.best)},
        {"holdout", number(options_.holdout)},
        {"validated", number(options_.validate_most)},
        {"round", number(round_)},
        {"preference", fmt::format("{} {} {} {}", p.beta, p.gap, p.keep, p.tilt)},
        {"seed", number(t.seed)},
        {"batch", fmt::format("{} in groups of {}", t.batch, options_.group)},
        {"epochs", number(t.epochs)},
        {"lr", fmt::format("{} to {} {} after {}", t.lr, t.last_lr, to_text(t.decay), t.warmup)},
        {"weight decay", number(t.trainee.weight_decay)},
        {"clip", number(t.trainee.clip)}};
  }

  Result<void> resume() {
    const TrainOptions& t = options_.train;
    if (t.resume && t.checkpoint.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "resuming needs the folder of checkpoints");
    }
    if (!t.resume || !has_checkpoint(t.checkpoint)) return {};
    TESSERA_TRY(Checkpoint from, load_checkpoint(t.checkpoint, identity()));
    TESSERA_DO(trainee_->set_weights(from.best));  // checks them
    TESSERA_DO(trainee_->set_weights(from.weights));
    TESSERA_DO(trainee_->set_optimizer(from.optimizer));
    step_ = from.optimizer.steps;
    if (step_ < 0 || step_ > steps_) {
      return make_error(ErrorCode::kIo, "a checkpoint after {} of {} steps", step_, steps_);
    }
    best_ = std::move(from.best);
    best_metric_ = from.best_metric;
    return {};
  }

  Result<void> run_epoch(std::int64_t epoch) {
    const std::vector<LanguageStep> steps = plan(epoch);
    const double hidden = pairs_ ? 0 : options_.hidden;
    const auto make = [&](std::size_t i) {
      const std::uint64_t seed =
          hash_bytes(fmt::format("step {} of {}", i, epoch), options_.train.seed);
      return fill_sentences(sentences_, task_.start.spec, steps[i], options_.group, told(true),
                            hidden, seed);
    };
    const auto first = static_cast<std::size_t>(step_ - epoch * per_epoch_);
    Prefetcher<LanguageBatch> batches(make, steps.size(), trainee_->device() == "cpu" ? 1 : 8, 4,
                                      first);
    while (const std::optional<LanguageBatch> batch = batches.next()) {
      if (stopped()) return {};
      const double spent = time_share();
      const double share =
          std::max(static_cast<double>(step_ + 1) / static_cast<double>(steps_), spent);
      TESSERA_DO(trainee_->step(*batch, learning_rate(options_.train, std::min(share, 1.0))));
      ++step_;
      done_ += batch->sentences;
      if (step_ % round_ == 0 || step_ == steps_) TESSERA_DO(end_round());
      if (step_ % options_.checkpoint_every == 0 || step_ == steps_) TESSERA_DO(keep_checkpoint());
      if (spent >= 1) return step_ % round_ == 0 ? Result<void>() : end_round();
    }
    return {};
  }

  Result<void> end_round() {
    LanguageReport report{.step = step_, .steps = steps_, .loss = trainee_->take_loss()};
    if (!std::isfinite(report.loss)) {
      return make_error(ErrorCode::kRunFailed,
                        "training diverged before step {}: try a smaller learning rate", step_);
    }
    const double seconds = seconds_since(mark_);
    report.sentences_per_second = static_cast<double>(done_) / std::max(seconds, 1e-9);
    // Of likelihood: those that the recipe trains on, with what their words say.
    TESSERA_TRY(report.scores, score(validation_, told(true), false));
    const double metric = pairs_ ? report.scores.pairs : -report.scores.loss;
    report.best = report.scores.sentences == 0 || !best_metric_ || metric > *best_metric_;
    if (report.best) {
      best_metric_ = metric;
      best_ = trainee_->weights();
    }
    const double round = seconds_since(mark_);
    report.eta_seconds = round * static_cast<double>(steps_ - step_) / static_cast<double>(round_);
    mark_ = Clock::now();
    done_ = 0;
    history_.push_back(report);
    if (report_) report_(report);
    return {};
  }

  Result<LanguageScores> score(const std::vector<LanguageStep>& steps, Told told, bool good) {
    Scorer scorer(sentences_, options_.preference.gap);
    for (const LanguageStep& step : steps) {
      const LanguageBatch batch =
          fill_sentences(sentences_, task_.start.spec, step, options_.group, told, 0, 0);
      TESSERA_TRY(const Chances chances, trainee_->chances(batch));
      std::optional<Chances> common;
      if (told == Told::kBest) {
        TESSERA_TRY(common,
                    trainee_->chances(fill_sentences(sentences_, task_.start.spec, step,
                                                     options_.group, Told::kNothing, 0, 0)));
      }
      scorer.add(step, batch, chances, good, common ? &*common : nullptr);
    }
    return scorer.scores();
  }

  Result<void> keep_checkpoint() const {
    if (options_.train.checkpoint.empty()) return {};
    return save_checkpoint({.run = identity(),
                            .epoch = static_cast<int>(step_ / per_epoch_),
                            .weights = trainee_->weights(),
                            .best = best_,
                            .optimizer = trainee_->optimizer(),
                            .best_metric = best_metric_.value_or(-1e300)},
                           options_.train.checkpoint);
  }

  Result<TrainedLanguageRun> finish() {
    TESSERA_DO(trainee_->set_weights(best_));
    TrainedLanguageRun out;
    TESSERA_TRY(out.scores, score(held_out_steps_, told(false), true));
    out.model = task_.start;
    out.model.weights = best_;
    for (const auto& [name, tensor] : best_) {
      out.weights += static_cast<std::size_t>(tensor.size());
    }
    std::string recipes = out.model.notes["recipes"];
    recipes += std::string(recipes.empty() ? "" : ", ") + to_text(options_.recipe);
    const std::string loss = fmt::format("{:.4f}", out.scores.loss);
    out.model.notes["recipes"] = recipes;
    out.model.notes["quality"] = told(false) == Told::kNothing ? "hidden" : "told";
    out.model.notes["seed"] = fmt::format("{}", options_.train.seed);
    out.model.notes["sentences"] = fmt::format("{}", train_.size());
    out.model.notes["steps"] = fmt::format("{}", step_);
    out.model.notes["held_out_loss"] = loss;
    out.history = std::move(history_);
    out.sentences = train_.size();
    out.subjects = sentences_.subjects();
    out.interrupted = stopped() && step_ < steps_;
    return out;
  }

  const LanguageTask& task_;
  const Sentences& sentences_;
  const LanguageOptions& options_;
  const std::function<void(const LanguageReport&)>& report_;
  const std::atomic<bool>* stop_;
  const bool pairs_;
  std::vector<std::uint32_t> train_, held_out_;
  std::vector<LanguageStep> validation_, held_out_steps_;
  std::int64_t subjects_ = 1, per_epoch_ = 0, steps_ = 0, round_ = 1, step_ = 0;
  std::size_t done_ = 0;
  Clock::time_point begin_, mark_;
  std::unique_ptr<LanguageTrainee> trainee_;
  std::vector<LanguageReport> history_;
  std::optional<double> best_metric_;
  Weights best_;
};

}  // namespace

const char* to_text(Recipe recipe) { return kRecipes[static_cast<std::size_t>(recipe)]; }

Result<Recipe> recipe_from_text(const std::string& text) {
  for (std::size_t i = 0; i < kRecipes.size(); ++i) {
    if (text == kRecipes[i]) return static_cast<Recipe>(i);
  }
  return make_error(ErrorCode::kInvalidArgument, "no recipe '{}'; there are {}", text,
                    fmt::join(kRecipes, ", "));
}

Result<lm::TrainedLanguage> start_language(const LanguageOptions& options) {
  if (!options.train.init.empty()) {
    TESSERA_TRY(lm::TrainedLanguage from, lm::load_language(options.train.init));
    if (from.schema != lm::schema()) {
      return make_error(ErrorCode::kInvalidArgument, "{} reads words of another schema",
                        options.train.init);
    }
    for (const auto& [name, value] : options.train.hyper) {
      const auto it = from.spec.hyper.find(name);
      if (it != from.spec.hyper.end() && it->second == value) continue;
      return make_error(ErrorCode::kInvalidArgument, "{} is not of {}={}", options.train.init, name,
                        value);
    }
    return from;
  }
  lm::TrainedLanguage fresh;
  TESSERA_TRY(fresh.spec,
              lm::make_language_spec(options.train.hyper, lm::kWordNumbers, lm::kValueNumbers));
  TESSERA_TRY(fresh.weights, lm::initial_weights(fresh.spec, options.train.seed));
  fresh.schema = lm::schema();
  return fresh;
}

Result<TrainedLanguageRun> train_language(const LanguageTask& task, const LanguageOptions& options,
                                          const std::function<void(const LanguageReport&)>& report,
                                          const std::atomic<bool>* stop) {
  return LanguageRun(task, options, report, stop).train();
}

}  // namespace tessera::train
