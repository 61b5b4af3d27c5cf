// Sentences as the network's training graph reads them: several about each of several subjects.
#pragma once

#include <span>
#include <vector>

#include "tessera/learn/lm/language_network.h"
#include "tessera/learn/train/sentences.h"
#include "tessera/support/rng.h"

namespace tessera::train {

// At most so many sentences about one subject, whose prompt they share.
struct SentenceGroup {
  std::uint32_t subject = 0;
  std::vector<std::uint32_t> entries;
};
using LanguageStep = std::vector<SentenceGroup>;

// Steps of `subjects` groups of up to `group` sentences; every entry once. As many steps whatever
// the random numbers are. Subjects of similar length share a step, so that little is padded.
std::vector<LanguageStep> plan_sentences(const Sentences& sentences,
                                         std::span<const std::uint32_t> entries,
                                         std::int64_t subjects, std::int64_t group, Rng& rng);

// What the words say of the quality.
enum class Told : std::uint8_t {
  kNothing,
  kOwn,   // each sentence its own
  kBest,  // 1: as a writer asks for it
};

struct LanguageBatch {
  lm::LanguageShape shape;
  std::vector<float> prompt, prompt_mask, words, questions, values;  // inputs of build_sentences
  // By subject, sentence and answer: question (subject * questions + its number), value taken, 1
  // for real ones.
  std::vector<std::int64_t> asked, taken;
  std::vector<float> answered;
  std::vector<float> legal;    // ... and value: 1 for legal ones
  std::vector<float> quality;  // by subject and sentence; unknown also where there is none
  std::size_t sentences = 0;
};

// `hidden`: the share of sentences whose quality is not told, drawn by `seed`.
LanguageBatch fill_sentences(const Sentences& sentences, const lm::LanguageSpec& spec,
                             const LanguageStep& step, std::int64_t group, Told told, double hidden,
                             std::uint64_t seed);

}  // namespace tessera::train
