// Sentences in memory, a few bytes for each answer: what training shuffles and groups.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/learn/lm/sentence.h"
#include "tessera/support/result.h"

namespace tessera::train {

class Sentences {
 public:
  struct Answer {
    std::uint16_t question = 0, taken = 0;
    std::uint32_t legal = 0;  // for legal()
  };
  struct Entry {
    std::uint32_t subject = 0;
    float quality = lm::kUnknownQuality;
    std::uint64_t first = 0;
    std::uint32_t count = 0;
  };

  // Equal subjects, by task, machine and sketch, become one. Returns the number for `add` below.
  std::uint32_t add(const lm::Subject& subject);
  // Answers with one legal value are not choices and left out; so are those behind the first
  // `most_answers`, and sentences without any. kInvalidArgument: not of the subject.
  Result<void> add(std::uint32_t subject, const lm::Sentence& sentence, std::int64_t most_answers);

  std::size_t size() const { return entries_.size(); }
  const Entry& operator[](std::size_t i) const { return entries_[i]; }
  const lm::Subject& subject(std::uint32_t number) const { return subjects_[number]; }
  std::size_t subjects() const { return subjects_.size(); }
  std::span<const Answer> answers(const Entry& entry) const {
    return {answers_.data() + entry.first, entry.count};
  }
  std::span<const std::uint16_t> legal(const Answer& answer) const {
    const std::uint32_t at = answer.legal;
    return {legal_.data() + at + 1, legal_[at]};
  }
  // 16 hex digits of everything above.
  std::string digest() const;

 private:
  std::vector<lm::Subject> subjects_;
  std::multimap<std::string, std::uint32_t> by_name_;
  std::vector<Entry> entries_;
  std::vector<Answer> answers_;
  std::vector<std::uint16_t> legal_;                  // counts, each followed by that many values
  std::map<std::string, std::uint32_t> legal_lists_;  // equal lists are kept once
};

// All sentences of the shards in these folders. kIo: one cannot be read.
Result<Sentences> load_sentences(const std::vector<std::string>& folders,
                                 std::int64_t most_answers);

// Whether sentences about a subject are held out: a share of the reductions (expression and
// shapes), so that no task to be judged was learned from in another guise.
bool held_out(const lm::Subject& subject, double share);

// For each task the sentences of at least this quality, and its best one whatever it is.
std::vector<std::uint32_t> best_of_tasks(const Sentences& sentences,
                                         std::span<const std::uint32_t> among, double quality);

}  // namespace tessera::train
