// What is left open: points with listed values, and candidates that pick them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::decide {

// Language models have a column for each of those of schedules: new ones go to the end.
enum class PointKind : std::uint8_t {
  // Of a schedule.
  kTile,      // lengths of the parts of a split
  kOrder,     // which loops stand outside
  kLocation,  // where a stage is computed
  kCache,     // whether an operand or a result is copied
  kParallel,  // what is shared out among threads
  kUnroll,
  kVector,
  kTail,    // what happens where a split does not divide
  kLayout,  // storage order of constants and copies; of a model: channels last or first
  kThread,  // threads of a block, blocks of a launch
  // Of a model.
  kSplit,      // a convolution of a concatenation, or the sum of those of its parts
  kAlgorithm,  // of a dense or transposed convolution
  kPointwise,  // a 1x1 convolution as a product of matrices, or as it is
  kMerge,      // contractions of one input in one kernel
  kFusion,     // a value inside the kernel that computes it, or stored between two
  kFront,      // what only a contraction or a window reads: stored, or computed in its kernel
  kPrecision,  // a product of f32 as it is, or of its operands in parts of bf16
  kSchedule,   // which of the schedules that were measured a task has
  kInteger,    // a product of quantized operands: of the bytes themselves, or of floats
  kLaunch,     // how the kernels of a device follow each other
  kStorage,    // weights as narrow as the model has them, or widened when it is compiled
};

const char* to_text(PointKind kind);  // "tile", ...

// Policies know only indices into `values`; near indices should be near in meaning.
struct Point {
  std::string name;  // unique within its sketch: letters, digits, '_' and '.'
  PointKind kind = PointKind::kTile;
  // At least one. One number each, or several: the lengths of a split, outermost first.
  std::vector<std::vector<std::int64_t>> values;
  std::vector<std::string> labels;  // words for the values; empty: numbers joined by 'x'
  std::int32_t preferred = 0;       // what reasoning alone takes

  std::string label(std::int32_t index) const;
};

// One value for each point of one sketch. Plain data: copies, compares and hashes cheaply.
struct Candidate {
  std::int32_t sketch = 0;
  std::vector<std::int32_t> choice;  // per point of the sketch: index into its values

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

std::uint64_t hash_of(const Candidate& candidate);

struct CandidateHash {
  std::size_t operator()(const Candidate& c) const { return static_cast<std::size_t>(hash_of(c)); }
};

}  // namespace tessera::decide
