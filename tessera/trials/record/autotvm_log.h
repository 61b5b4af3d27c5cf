// Records of AutoTVM (v0.2, and v0.1 with its positional members): lines, and the knobs in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/record.h"

namespace tessera::record {

namespace autotvm {

enum class KnobKind {
  kSplit,     // "sp": sizes, -1 is inferred
  kReorder,   // "re": sizes, a permutation
  kAnnotate,  // "an": words, one for each axis
  kOther,     // "ot": text, a JSON scalar or list
};

struct Knob {
  std::string name;
  KnobKind kind = KnobKind::kOther;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> words;
  std::string text;
};

struct Config {
  std::int64_t index = -1;  // in the space when it was recorded
  std::vector<Knob> knobs;
};

// `json` is the object of the config, what Record::candidate holds.
Result<Config> parse_config(std::string_view json);

}  // namespace autotvm

// task: [template, arguments, keywords]; target: the target string; candidate: the config; samples:
// the costs, also of failures (1e9); extra: what is left, as it was.
Result<Record> parse_autotvm_line(std::string_view line);
// The line of such a record, without a line break. kInvalidArgument for other formats.
Result<std::string> to_autotvm_line(const Record& record);

}  // namespace tessera::record
