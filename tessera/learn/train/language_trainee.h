// A language model with its weights on a device: training steps, and probabilities of sentences.
// This header needs no torch.
#pragma once

#include <memory>
#include <vector>

#include "tessera/learn/lm/language_network.h"
#include "tessera/learn/train/language_batch.h"
#include "tessera/learn/train/optimized.h"
#include "tessera/learn/train/options.h"

namespace tessera::train {

enum class LanguageLoss : std::uint8_t {
  kLikelihood,  // of the values taken; prompts and padding carry none
  // Of pairs about one subject, the better one first: log(1 + exp(-beta (a - b))), a and b the
  // logarithms of how much likelier each became since the weights that training began with; and a
  // share of kLikelihood on the better half, without which both may become unlikely.
  kPreference,
  // For all sentences about a subject, their probabilities given the best quality, divided by those
  // given none, shall be in the ratio exp(quality / tilt), as if the best were drawn by how good
  // they are; beside `keep` times the likelihood of both.
  kContrast,
};

struct LanguageLossOptions {
  LanguageLoss loss = LanguageLoss::kLikelihood;
  double beta = 0.1;
  double gap = 0.1;   // of quality, that pairs differ by at least
  double keep = 0.2;  // share of the likelihood
  double tilt = 0.1;  // of quality, that makes a sentence e times as likely
};

// By subject, sentence and answer, as LanguageBatch.
struct Chances {
  std::vector<float> log_prob;          // of the value taken, natural; 0 where there is none
  std::vector<std::int64_t> likeliest;  // value
};

class LanguageTrainee : public Optimized {
 public:
  // One step of AdamW. Fails where the device does (memory).
  virtual Result<void> step(const LanguageBatch& batch, double lr) = 0;
  virtual Result<Chances> chances(const LanguageBatch& batch) = 0;
};

// `weights` are also those that preferences are compared with. Of `options` device, threads, weight
// decay and clipping count.
Result<std::unique_ptr<LanguageTrainee>> make_language_trainee(const lm::LanguageSpec& spec,
                                                               const Weights& weights,
                                                               const TraineeOptions& options,
                                                               const LanguageLossOptions& loss);

}  // namespace tessera::train
