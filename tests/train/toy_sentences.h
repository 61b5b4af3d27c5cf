// Sentences with a rule that a language model must find: what the first word of the prompt says and
// which question it is decide the right value, and the last question is answered as the one before.
#pragma once

#include <array>

#include "tessera/learn/lm/sentence.h"
#include "tessera/learn/train/sentences.h"
#include "tessera/support/rng.h"

namespace tessera::train {

constexpr int kToyQuestions = 4, kToyValues = 4;

inline lm::Subject toy_subject(int number) {
  lm::Subject subject;
  subject.task = "task " + std::to_string(number);
  subject.reduction = std::to_string(number);
  subject.machine = "toy";
  const int kind = number % kToyValues;
  for (int i = 0; i < 2 + number % 3; ++i) {
    lm::Word word{};
    word[static_cast<std::size_t>(i == 0 ? kind : 10 + i)] = 1;
    subject.prompt.push_back(word);
  }
  for (int q = 0; q < kToyQuestions; ++q) {
    lm::Question question;
    question.word[static_cast<std::size_t>(20 + q)] = 1;
    for (int v = 0; v < kToyValues; ++v) {
      lm::Value value{};
      value[static_cast<std::size_t>(v)] = 1;
      question.values.push_back(value);
    }
    subject.questions.push_back(question);
  }
  return subject;
}

inline int right_answer(int number, int question, int before) {
  return question == kToyQuestions - 1 ? before : (number + question) % kToyValues;
}

// Sentences about subjects first .. first + count - 1; quality: share of the answers that are
// right.
inline void add_toys(Sentences& to, int first, int count, int each, bool known,
                     std::uint64_t seed) {
  Rng rng(seed);
  for (int number = first; number < first + count; ++number) {
    const std::uint32_t subject = to.add(toy_subject(number));
    for (int i = 0; i < each; ++i) {
      lm::Sentence sentence;
      const double skill = rng.uniform();
      int before = 0, right = 0;
      for (int q = 0; q < kToyQuestions; ++q) {
        const int want = right_answer(number, q, before);
        const int said = rng.chance(skill) ? want : static_cast<int>(rng.below(kToyValues));
        right += said == want ? 1 : 0;
        sentence.answers.push_back({q, said, {0, 1, 2, 3}});
        before = said;
      }
      if (known) sentence.quality = static_cast<float>(right) / kToyQuestions;
      TESSERA_CHECK(to.add(subject, sentence, 64).ok(), "a toy");
    }
  }
}

}  // namespace tessera::train
