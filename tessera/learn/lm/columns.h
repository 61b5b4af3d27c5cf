// What the columns of words and values mean. Each kind of word has columns of its own; logarithms
// are divided so that all numbers stay near one, and all are multiples of 1/256, so that files hold
// them exactly in two bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/learn/lm/sentence.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/decide/point.h"
#include "tessera/scheduling/space/analysis.h"

namespace tessera::lm {

enum class WordKind : std::uint8_t { kTask, kMachine, kSketch, kStage, kAxis, kRead, kQuestion };
inline constexpr int kWordKinds = 7;

inline constexpr int kNameBits = 24;       // of a word: parts of a name, hashed
inline constexpr int kLabelBits = 12;      // of a value: its label, hashed
inline constexpr int kMostStages = 16;     // told apart by their number; further ones share one
inline constexpr int kMostComponents = 3;  // of a value; further lengths count with the outermost
inline constexpr int kDecisionKinds = 10;

// Bytes as files keep numbers.
inline constexpr float kUnit = 1.0f / 256;
float rounded(double x);  // the nearest multiple of kUnit within +-127

struct TaskFacts {
  double flops = 0, bytes = 0;
  std::size_t stages = 0, inputs = 0, outputs = 0, reductions = 0;
};
struct SketchFacts {
  std::string_view name;
  bool first = false;
  std::size_t decisions = 0;
  double log2_size = 0;
};
struct StageFacts {
  const space::Stage* stage = nullptr;
  std::size_t index = 0;
};
struct AxisFacts {
  const space::Stage* stage = nullptr;
  std::size_t index = 0, axis = 0;  // of the stage, of its axis
  std::int64_t lanes = 1;
};
struct ReadFacts {
  const space::Stage* stage = nullptr;
  const space::Access* read = nullptr;
  std::size_t index = 0;  // of the stage
  bool constant = false, computed = false;
};
// What is known of a decision: the stage and, where its name tells, the axis or the operand.
struct QuestionFacts {
  std::string_view what;  // the name without stage, axis and operand
  decide::PointKind kind = decide::PointKind::kTile;
  bool is_sketch = false;               // no decision: which sketch
  const space::Stage* stage = nullptr;  // never null
  std::int32_t index = -1;              // of the stage; -1: the name tells none
  std::int32_t axis = -1, operand = -1;
  std::size_t values = 0;
  bool words = false;
  double least = 0, most = 0, preferred = 0;  // products of lengths
};
struct ValueFacts {
  std::span<const std::int64_t> numbers;  // outermost first
  std::string_view label;                 // of words
  bool preferred = false;
  double place = 0;  // in the list, 0 to 1
};

Word word_of(const TaskFacts& facts);
Word word_of(const target::Target& facts);
Word word_of(const SketchFacts& facts);
Word word_of(const StageFacts& facts);
Word word_of(const AxisFacts& facts);
Word word_of(const ReadFacts& facts);
Word word_of(const QuestionFacts& facts);
Value value_of(const ValueFacts& facts, const QuestionFacts& question, const target::Target& t);

// Of the word of a question, what it asks about whatever the sizes are: equal for questions of one
// kind.
std::uint64_t question_kind(const Word& word);

// Replaces what the columns tell by a hash of it, among those of names.
void make_opaque(Word* word);
void make_opaque(Value* value);

// In the order of the columns.
const std::vector<std::string>& word_columns();
const std::vector<std::string>& value_columns();
// 16 hex digits of both and of how names are hashed: files of another schema cannot be read.
const std::string& schema();

}  // namespace tessera::lm
