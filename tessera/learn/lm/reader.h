// What a language model offers to generators: probabilities of the legal values, question by
// question.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/learn/lm/sentence.h"
#include "tessera/support/result.h"

namespace tessera::lm {

// The next question of one sentence.
struct Step {
  std::int32_t row = 0;       // which of the sentences that were begun
  std::int32_t question = 0;  // of the subject
  // What its last question was answered by; -1 before the first. Answers to questions with one
  // legal value are told in this way too: such questions are steps like others.
  std::int32_t previous = -1;
  std::span<const std::int32_t> legal;  // values, ascending, at least one
};

class Adapter;

// Keeps what it has read of every sentence. Not for use by two threads at once.
class Reader {
 public:
  virtual ~Reader() = default;

  // Forgets what it read and begins `rows` >= 1 sentences about the subject, which must outlive
  // them, of a wished quality (0 to 1, or kUnknownQuality). The prompt is read once for all rows.
  virtual Result<void> begin(const Subject& subject, int rows, float quality) = 0;
  // One question for each of some rows, no row twice. Gives log-probabilities (natural)
  // of the legal values, those of the first step first: their probabilities sum to 1 for each step.
  virtual Result<std::vector<float>> step(std::span<const Step> steps) = 0;
  // Row i goes on with what row sources[i] has read: one for each row. For beams.
  virtual Result<void> copy_rows(std::span<const std::int32_t> sources) = 0;
  // Corrects its probabilities by what the caller reports to it; null: nothing does.
  virtual Adapter* adapter() { return nullptr; }
};

}  // namespace tessera::lm
