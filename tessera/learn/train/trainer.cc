#include "tessera/learn/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/ranges.h>

#include "tessera/learn/dataset/metrics.h"
#include "tessera/learn/train/checkpoint.h"
#include "tessera/learn/train/prefetch.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"
#include "tessera/support/quantile.h"

namespace tessera::train {
namespace {

using dataset::FeatureStore;

constexpr std::int64_t kPredictionBatch = 2048;

int filler_count(int asked, const Trainee& trainee) {
  if (asked > 0) return asked;
  return trainee.device() == "cpu" ? 1 : 4;
}

// Results at the places of `examples` in vectors that are as long as the store.
Result<void> predict_into(const FeatureStore& store, const nn::NetworkSpec& spec,
                          std::span<const std::uint32_t> examples, const ExampleFacts& facts,
                          const Scaling& scaling, Trainee& trainee, int fillers, Predictions& out) {
  const std::vector<Step> steps = plan_prediction(spec, examples, facts, kPredictionBatch);
  Prefetcher<Batch> batches([&](std::size_t i) { return fill_batch(store, steps[i], scaling); },
                            steps.size(), filler_count(fillers, trainee));
  while (const std::optional<Batch> batch = batches.next()) {
    TESSERA_TRY(const Outputs outputs, trainee.predict(*batch));
    for (std::size_t i = 0; i < batch->examples.size(); ++i) {
      const std::size_t example = batch->examples[i];
      out.score[example] = outputs.score[i];
      out.validity[example] = outputs.validity[i];
      out.log_time[example] =
          static_cast<float>(static_cast<double>(outputs.log_time[i]) + scaling.time_shift);
    }
  }
  return {};
}

Predictions empty_predictions(std::size_t size) {
  return {.score = std::vector<float>(size),
          .validity = std::vector<float>(size),
          .log_time = std::vector<float>(size)};
}

std::vector<std::uint32_t> all_examples(const std::vector<Query>& queries) {
  std::vector<std::uint32_t> out;
  for (const Query& query : queries) {
    out.insert(out.end(), query.examples.begin(), query.examples.end());
  }
  return out;
}

Validation validate(const FeatureStore& store, const std::vector<Query>& queries,
                    const std::vector<float>& scores) {
  Validation out;
  double counted = 0;
  for (const Query& query : queries) {
    std::vector<float> own, labels;
    for (const std::uint32_t example : query.examples) {
      const dataset::FeatureView view = store[example];
      if (view.seconds <= 0) continue;
      own.push_back(scores[example]);
      labels.push_back(view.label);
    }
    if (own.size() < 2) continue;
    const dataset::Metrics metrics = dataset::task_metrics(own, labels);
    const auto peak = metrics.peak.find(1);
    out.peak1 += peak == metrics.peak.end() ? 0 : peak->second;
    out.pairwise += metrics.pairwise;
    counted += 1;
  }
  if (counted > 0) {
    out.peak1 /= counted;
    out.pairwise /= counted;
  }
  return out;
}

std::string scaling_digest(const Scaling& scaling) {
  std::uint64_t hash = hash_bytes(fmt::format("{}", scaling.time_shift));
  for (const nn::Normalizer* n : {&scaling.rows, &scaling.context}) {
    for (const std::vector<float>* values : {&n->shift, &n->scale}) {
      hash = hash_bytes(
          {reinterpret_cast<const char*>(values->data()), values->size() * sizeof(float)}, hash);
    }
  }
  return to_hex(hash);
}

class Run {
 public:
  Run(const FeatureStore& store, std::span<const std::uint8_t> part, const TrainOptions& options,
      const std::function<void(const EpochReport&)>& progress, const std::atomic<bool>* stop)
      : store_(store),
        part_(part),
        options_(options),
        progress_(progress),
        stop_(stop),
        facts_(read_facts(store)) {}

  Result<Trained> train() {
    TESSERA_DO(prepare());
    TESSERA_DO(resume());
    for (int epoch = first_epoch_; epoch < options_.epochs && !stopped(); ++epoch) {
      const bool late = options_.patience > 0 && epoch - best_epoch_ >= options_.patience;
      if (late && !validation_queries_.empty()) break;
      TESSERA_DO(run_epoch(epoch));
    }
    return finish();
  }

 private:
  bool stopped() const { return stop_ != nullptr && stop_->load(); }

  Result<void> prepare() {
    if (part_.size() != store_.size()) {
      return make_error(ErrorCode::kInvalidArgument, "a split of {} examples for {}", part_.size(),
                        store_.size());
    }
    queries_ = queries_of(store_, part_, dataset::kTrain);
    validation_queries_ = queries_of(store_, part_, dataset::kValidation);
    validation_examples_ = all_examples(validation_queries_);
    for (const Query& query : queries_) records_ += query.examples.size();
    if (records_ == 0) {
      return make_error(ErrorCode::kInvalidArgument, "the training part has no examples");
    }
    if (options_.epochs < 1 || options_.batch < 1 || options_.list < 1 || !(options_.lr > 0)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "epochs, batch, list and lr must be greater than 0");
    }
    Weights weights;
    if (options_.init.empty()) {
      TESSERA_DO(start_fresh(weights));
    } else {
      TESSERA_DO(start_from_file(weights));
    }
    if (!options_.context) std::ranges::fill(scaling_.context.scale, 0.0F);
    TESSERA_TRY(const nn::NetworkEntry* entry, nn::find_network(result_.spec.network));
    if (entry->rows != store_.kind()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{} reads rows per {}, the features are per {}", entry->name,
                        feature::to_text(entry->rows), feature::to_text(store_.kind()));
    }
    TESSERA_TRY(trainee_, make_trainee(result_.spec, weights, options_.trainee));
    predictions_ = empty_predictions(store_.size());
    best_ = std::move(weights);
    return {};
  }

  Result<void> start_fresh(Weights& weights) {
    TESSERA_TRY(result_.spec, nn::make_spec(options_.network, options_.hyper, store_.columns(),
                                            store_.context_columns()));
    scaling_ = fit_scaling(store_, queries_);
    TESSERA_TRY(weights, initial_weights(result_.spec, options_.seed));
    return {};
  }

  Result<void> start_from_file(Weights& weights) {
    TESSERA_TRY(nn::TrainedNetwork from, nn::load_network(options_.init));
    if (from.row_schema != store_.row_schema() || from.context_schema != store_.context_schema()) {
      return make_error(ErrorCode::kInvalidArgument, "{} was trained on other features",
                        options_.init);
    }
    if (!options_.network.empty() && options_.network != from.spec.network) {
      return make_error(ErrorCode::kInvalidArgument, "{} is of network {}, not {}", options_.init,
                        from.spec.network, options_.network);
    }
    result_.spec = from.spec;
    scaling_ = {.rows = from.rows, .context = from.context, .time_shift = from.time_shift};
    weights = std::move(from.weights);
    return {};
  }

  // What a checkpoint must agree on: all that the weights after a number of epochs follow from,
  // and how many there will be, which the learning rate follows.
  RunIdentity identity() const {
    const TraineeOptions& l = options_.trainee;
    const auto number = [](auto value) { return fmt::format("{}", value); };
    std::vector<std::string> hyper;
    for (const auto& [name, value] : result_.spec.hyper) {
      hyper.push_back(fmt::format("{}={}", name, value));
    }
    const std::string_view parts(reinterpret_cast<const char*>(part_.data()), part_.size());
    return {{"network", result_.spec.network},
            {"hyper", fmt::format("{}", fmt::join(hyper, ","))},
            {"columns", fmt::format("{}+{}", result_.spec.columns, result_.spec.context)},
            {"row schema", store_.row_schema()},
            {"context schema", store_.context_schema()},
            {"dataset", options_.dataset},
            {"split", to_hex(hash_bytes(parts))},
            {"records", number(records_)},
            {"context", options_.context ? "read" : "hidden"},
            {"init", options_.init.empty() ? "none" : options_.init},
            {"scaling", scaling_digest(scaling_)},
            {"loss", to_text(l.loss)},
            {"seed", number(options_.seed)},
            {"batch", number(options_.batch)},
            {"list", number(options_.list)},
            {"epochs", number(options_.epochs)},
            {"lr", number(options_.lr)},
            {"last lr", number(options_.last_lr)},
            {"decay", to_text(options_.decay)},
            {"warmup", number(options_.warmup)},
            {"weight decay", number(l.weight_decay)},
            {"clip", number(l.clip)},
            {"validity weight", number(l.validity_weight)},
            {"time weight", number(l.time_weight)}};
  }

  Result<void> resume() {
    if (options_.resume && options_.checkpoint.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "resuming needs the folder of checkpoints");
    }
    if (options_.resume && has_checkpoint(options_.checkpoint)) {
      TESSERA_TRY(Checkpoint from, load_checkpoint(options_.checkpoint, identity()));
      TESSERA_DO(trainee_->set_weights(from.best));  // checks them
      TESSERA_DO(trainee_->set_weights(from.weights));
      TESSERA_DO(trainee_->set_optimizer(from.optimizer));
      first_epoch_ = from.epoch;
      best_ = std::move(from.best);
      best_epoch_ = from.best_epoch;
      best_metric_ = from.best_metric;
    } else if (!options_.init.empty() && !validation_queries_.empty()) {
      // Fine-tuning that never improves returns what it began with.
      TESSERA_TRY(const Validation before, validate_now());
      best_metric_ = before.metric();
    }
    return {};
  }

  Result<Validation> validate_now() {
    TESSERA_DO(predict_into(store_, result_.spec, validation_examples_, facts_, scaling_, *trainee_,
                            options_.fillers, predictions_));
    return validate(store_, validation_queries_, predictions_.score);
  }

  // The steps of an epoch; false when stopped before its end.
  Result<bool> run_steps(int epoch) {
    Rng rng(hash_bytes(fmt::format("epoch {}", epoch), options_.seed));
    const std::vector<Step> steps =
        plan_epoch(result_.spec, queries_, facts_, options_.batch, options_.list, rng);
    Prefetcher<Batch> batches([&](std::size_t i) { return fill_batch(store_, steps[i], scaling_); },
                              steps.size(), filler_count(options_.fillers, *trainee_));
    double done = 0;
    while (const std::optional<Batch> batch = batches.next()) {
      if (stopped()) return false;
      done += 1;
      const double share = (epoch + done / static_cast<double>(steps.size())) / options_.epochs;
      TESSERA_DO(trainee_->step(*batch, learning_rate(options_, share)));
    }
    return true;
  }

  Result<void> run_epoch(int epoch) {
    const Clock::time_point start = Clock::now();
    TESSERA_TRY(const bool whole, run_steps(epoch));
    if (!whole) return {};
    EpochReport report{
        .epoch = epoch + 1, .epochs = options_.epochs, .loss = trainee_->take_loss()};
    if (!std::isfinite(report.loss)) {
      return make_error(ErrorCode::kRunFailed,
                        "training diverged in epoch {}: try a smaller learning rate", epoch + 1);
    }
    const double steps_seconds = seconds_since(start);
    if (!validation_queries_.empty()) {
      TESSERA_TRY(report.validation, validate_now());
    }
    report.best = validation_queries_.empty() || report.validation.metric() > best_metric_;
    if (report.best) {
      best_metric_ = report.validation.metric();
      best_epoch_ = epoch + 1;
      best_ = trainee_->weights();
    }
    const double seconds = seconds_since(start);
    report.examples_per_second = static_cast<double>(records_) / std::max(steps_seconds, 1e-9);
    report.eta_seconds = seconds * (options_.epochs - epoch - 1);
    history_.push_back(report);
    if (progress_) progress_(report);
    return keep_checkpoint(epoch + 1);
  }

  Result<void> keep_checkpoint(int epochs) const {
    if (options_.checkpoint.empty()) return {};
    const bool due = epochs % std::max(options_.checkpoint_every, 1) == 0;
    if (!due && epochs != options_.epochs) return {};
    return save_checkpoint({.run = identity(),
                            .epoch = epochs,
                            .weights = trainee_->weights(),
                            .best = best_,
                            .optimizer = trainee_->optimizer(),
                            .best_epoch = best_epoch_,
                            .best_metric = best_metric_},
                           options_.checkpoint);
  }

  Result<Trained> finish() {
    TESSERA_DO(trainee_->set_weights(best_));
    Trained out;
    const bool validated = !validation_queries_.empty();
    const std::vector<Query>& measured = validated ? validation_queries_ : queries_;
    TESSERA_DO(predict_into(store_, result_.spec, all_examples(measured), facts_, scaling_,
                            *trainee_, options_.fillers, predictions_));
    out.validation = validate(store_, measured, predictions_.score);
    result_.weights = best_;
    result_.rows = scaling_.rows;
    result_.context = scaling_.context;
    result_.row_schema = store_.row_schema();
    result_.context_schema = store_.context_schema();
    result_.time_shift = scaling_.time_shift;
    add_residuals(measured);
    result_.notes = {{"loss", to_text(options_.trainee.loss)},
                     {"seed", fmt::format("{}", options_.seed)},
                     {"records", fmt::format("{}", records_)},
                     {"tasks", fmt::format("{}", queries_.size())},
                     {"epoch", fmt::format("{}", best_epoch_)},
                     {validated ? "validation_peak1" : "training_peak1",
                      fmt::format("{:.4f}", out.validation.peak1)},
                     {validated ? "validation_pairwise" : "training_pairwise",
                      fmt::format("{:.4f}", out.validation.pairwise)}};
    out.network = std::move(result_);
    out.history = std::move(history_);
    out.interrupted = stopped();
    out.improved = best_epoch_ > 0;
    return out;
  }

  void add_residuals(const std::vector<Query>& queries) {
    std::vector<double> residuals;
    for (const Query& query : queries) {
      for (const std::uint32_t example : query.examples) {
        const float seconds = store_[example].seconds;
        if (seconds <= 0) continue;
        residuals.push_back(std::log2(static_cast<double>(seconds)) -
                            static_cast<double>(predictions_.log_time[example]));
      }
    }
    std::sort(residuals.begin(), residuals.end());
    result_.residual_low = quantile_of_sorted(residuals, 0.1);
    result_.residual_mid = quantile_of_sorted(residuals, 0.5);
    result_.residual_high = quantile_of_sorted(residuals, 0.9);
  }

  const FeatureStore& store_;
  std::span<const std::uint8_t> part_;
  const TrainOptions& options_;
  const std::function<void(const EpochReport&)>& progress_;
  const std::atomic<bool>* stop_;
  ExampleFacts facts_;
  std::vector<Query> queries_, validation_queries_;
  std::vector<std::uint32_t> validation_examples_;
  std::size_t records_ = 0;
  Scaling scaling_;
  nn::TrainedNetwork result_;
  std::unique_ptr<Trainee> trainee_;
  Predictions predictions_;
  std::vector<EpochReport> history_;
  int first_epoch_ = 0, best_epoch_ = 0;
  double best_metric_ = -1;
  Weights best_;
};

}  // namespace

double learning_rate(const TrainOptions& options, double progress) {
  if (progress < options.warmup) return options.lr * progress / options.warmup;
  const double t = (progress - options.warmup) / std::max(1 - options.warmup, 1e-9);
  const double last = std::min(options.last_lr, options.lr);
  if (options.decay == Decay::kExponential) {
    return options.lr * std::pow(std::max(last, 1e-12) / options.lr, t);
  }
  return last + (options.lr - last) * (1 + std::cos(std::numbers::pi * t)) / 2;
}

Result<Trained> train(const FeatureStore& store, std::span<const std::uint8_t> part,
                      const TrainOptions& options,
                      const std::function<void(const EpochReport&)>& progress,
                      const std::atomic<bool>* stop) {
  return Run(store, part, options, progress, stop).train();
}

Result<Predictions> predict(const FeatureStore& store, const nn::TrainedNetwork& network,
                            const TraineeOptions& options, int fillers) {
  if (network.row_schema != store.row_schema() ||
      network.context_schema != store.context_schema()) {
    return make_error(ErrorCode::kInvalidArgument, "the network was trained on other features");
  }
  TESSERA_TRY(const std::unique_ptr<Trainee> trainee,
              make_trainee(network.spec, network.weights, options));
  std::vector<std::uint32_t> examples(store.size());
  for (std::size_t i = 0; i < examples.size(); ++i) examples[i] = static_cast<std::uint32_t>(i);
  Predictions out = empty_predictions(store.size());
  const Scaling scaling{
      .rows = network.rows, .context = network.context, .time_shift = network.time_shift};
  TESSERA_DO(predict_into(store, network.spec, examples, read_facts(store), scaling, *trainee,
                          fillers, out));
  return out;
}

}  // namespace tessera::train
