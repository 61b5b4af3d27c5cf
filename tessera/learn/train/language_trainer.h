// Training of language models on sentences: rounds of steps, validation, checkpoints.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tessera/learn/lm/language_file.h"
#include "tessera/learn/train/language_trainee.h"
#include "tessera/learn/train/options.h"

namespace tessera::train {

enum class Recipe : std::uint8_t {
  kAll,         // every sentence
  kBest,        // those of high quality in their task
  kPreference,  // pairs of which one is better
  kContrast,    // every sentence: its quality tells the best from the common
};
const char* to_text(Recipe recipe);  // "all", "best", "preference", "contrast"
Result<Recipe> recipe_from_text(const std::string& text);

struct LanguageOptions {
  // Of it: hyper, trainee.{device, threads, weight_decay, clip}, epochs, batch (sentences per
  // step), lr, last_lr, decay, warmup, seed, init, checkpoint, resume.
  TrainOptions train;
  Recipe recipe = Recipe::kAll;
  LanguageLossOptions preference;       // beta, gap, keep, tilt
  std::int64_t group = 8;               // sentences about one subject in a step, at most
  bool quality = true;                  // false: words say nothing of it
  double hidden = 0.1;                  // share of sentences that do not say theirs
  double best = 0.95;                   // quality, of kBest
  double holdout = 0.1;                 // share of the reductions
  std::int64_t validate_most = 2000;    // sentences
  std::int64_t round = 0;               // steps between validations; 0: an epoch
  std::int64_t checkpoint_every = 500;  // steps
  // Wall clock that a call may take; 0: any. The learning rate falls with it, and where it ends a
  // run the weights follow from the speed of the machine too.
  double limit_s = 0;
};

// How well the values of held-out sentences are foreseen; those of quality >= 0.9 where qualities
// are known, as a writer asks for them.
struct LanguageScores {
  std::size_t sentences = 0, answers = 0;
  double loss = 0, accuracy = 0;                  // nats of an answer; share where the likeliest
  double uniform_loss = 0, uniform_accuracy = 0;  // if every legal value were as likely
  double preferred_accuracy = 0;                  // of the value that the space prefers
  // Share of pairs whose better sentence is likelier, where qualities are told: compared with how
  // likely it is without; 0: there are none.
  double pairs = 0;
};

struct LanguageReport {
  std::int64_t step = 0, steps = 0;
  double loss = 0;        // of training since the last report
  LanguageScores scores;  // of validation, on the sentences that the recipe trains on
  bool best = false;
  double sentences_per_second = 0, eta_seconds = 0;
};

struct TrainedLanguageRun {
  lm::TrainedLanguage model;  // of the best validation
  LanguageScores scores;      // of held-out sentences
  std::vector<LanguageReport> history;
  std::size_t sentences = 0, subjects = 0, weights = 0;  // weights: numbers
  bool interrupted = false;
};

// Sentences and what training begins with.
struct LanguageTask {
  lm::TrainedLanguage start;  // spec, schema, weights, notes of what it was trained on
  Sentences sentences;
};
// From `options.train.init`, or fresh with the sizes of `hyper`. `schema`: of the words of
// sentences.
Result<lm::TrainedLanguage> start_language(const LanguageOptions& options);

// The same weights come from the same task and options on the same machine, however often the run
// was interrupted. kInvalidArgument: nothing to learn from, or options that make no sense.
Result<TrainedLanguageRun> train_language(const LanguageTask& task, const LanguageOptions& options,
                                          const std::function<void(const LanguageReport&)>& report,
                                          const std::atomic<bool>* stop = nullptr);

}  // namespace tessera::train
