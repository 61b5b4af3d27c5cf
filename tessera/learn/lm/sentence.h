// Schedules as sentences: what a language model reads and what it is asked.
//
// A sentence is about one sketch of one task on one machine, or about which sketch to take. The
// compiler writes the prompt and the questions; a model answers each by one of its legal values, so
// that every sentence is a candidate of the space. Words and values are numbers, never names from a
// list: a shape, a stage or a machine that was never seen still means something.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::lm {

inline constexpr int kWordNumbers = 156;  // columns of a word (columns.h names them)
inline constexpr int kValueNumbers = 55;  // columns of a value

using Word = std::array<float, kWordNumbers>;
using Value = std::array<float, kValueNumbers>;

// One decision of a sketch.
struct Question {
  Word word{};
  std::vector<Value> values;  // all of them, legal or not

  friend bool operator==(const Question&, const Question&) = default;
};

// What all sentences about one sketch of one task on one machine share.
struct Subject {
  // For people and for splits; models do not read them. `reduction`: 16 hex digits of
  // te::reduction_of. `machine`: name of the target. `sketch`: empty where it is the question.
  std::string task, reduction, machine, sketch;
  std::vector<Word> prompt;         // the task, its stages with axes and reads, machine, sketch
  std::vector<Question> questions;  // in the order of the decisions, not of the answers

  friend bool operator==(const Subject&, const Subject&) = default;
};

struct Answer {
  std::int32_t question = 0;
  std::int32_t taken = 0;           // index into the values of the question
  std::vector<std::int32_t> legal;  // likewise, ascending; `taken` is among them

  friend bool operator==(const Answer&, const Answer&) = default;
};

inline constexpr float kUnknownQuality = -1;

// Questions in the order of asking: some are asked never, for they have no effect under the answers
// before them, and those with one legal value are among the answers but teach nothing.
struct Sentence {
  std::int32_t subject = 0;
  float quality = kUnknownQuality;  // share of the candidates of its task that are slower, 0 to 1
  std::vector<Answer> answers;

  friend bool operator==(const Sentence&, const Sentence&) = default;
};

}  // namespace tessera::lm
