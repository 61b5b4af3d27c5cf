// Records of Ansor and TenSet (v0.2 to v0.6): lines, and the transform steps inside them.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/record.h"

namespace tessera::record {

// Stages and iterators are positions just before the step. Members in the order of the JSON.
namespace ansor {

enum class Annotation {
  kNone,
  kUnroll,
  kVectorize,
  kParallel,
  kVThread,
  kBlockX,
  kThreadX,
  kBlockY,
  kThreadY,
  kBlockZ,
  kThreadZ,
  kTensorize,
};

struct Annotate {
  int stage, iter;
  Annotation annotation;
};
struct Fuse {
  int stage;
  std::vector<int> iters;
};
struct Pragma {
  int stage, iter;
  std::string text;  // "auto_unroll_max_step$64"
};
struct Reorder {
  int stage;
  std::vector<int> order;
};
struct Split {
  int stage, iter;
  std::int64_t extent;                // 0: unknown
  std::vector<std::int64_t> lengths;  // 0: not filled in
  bool inner_to_outer;
};
struct FollowSplit {
  int stage, iter, source, parts;
};
struct FollowFusedSplit {
  int stage, iter;
  std::vector<int> sources;
  int level;
  bool factor;  // else nparts
};
struct StorageAlign {
  int stage, iter, factor, offset;
};
struct ComputeAt {
  int stage, target, iter;
};
struct ComputeInline {
  int stage;
};
struct ComputeRoot {
  int stage;
};
struct CacheRead {
  int stage;
  std::string scope;
  std::vector<int> readers;
};
struct CacheWrite {
  int stage;
  std::string scope;
};
struct RFactor {
  int stage, iter, axis;
};

using Step = std::variant<Annotate, Fuse, Pragma, Reorder, Split, FollowSplit, FollowFusedSplit,
                          StorageAlign, ComputeAt, ComputeInline, ComputeRoot, CacheRead,
                          CacheWrite, RFactor>;

// `json` is the list of steps, what Record::candidate holds.
Result<std::vector<Step>> parse_steps(std::string_view json);
std::string to_json(const std::vector<Step>& steps);

}  // namespace ansor

// task: the workload key; target: the target string; candidate: the steps; samples: the costs, also
// of failures (1e10); extra: {"task": the rest of the task, "cost": seconds, "v": version}.
Result<Record> parse_ansor_line(std::string_view line);
// The line of such a record, without a line break. kInvalidArgument for other formats.
Result<std::string> to_ansor_line(const Record& record);

}  // namespace tessera::record
