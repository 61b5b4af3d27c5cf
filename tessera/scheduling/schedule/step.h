// Schedule steps: plain data, one text form, and the rule by which each changes a State.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/scheduling/schedule/state.h"

namespace tessera::schedule {

// Every struct has: kVerb, apply (refuses illegal use with a reason), to_text (arguments only), and
// from_text (arguments only). Text is `verb stage arguments`; see docs/reference/schedules.md.
#define TESSERA_STEP(verb)                   \
  static constexpr const char* kVerb = verb; \
  std::string args() const;                  \
  Result<void> apply(State& state) const;

// split C i 4 8 [outer] [tail=peel|pad]: i -> i.0 i.1 i.2 with i.1 = 4, i.2 = 8, i.0 = ceil(extent
// / 32). With `outer` the numbers are the extents of the outer parts instead.
struct Split {
  TESSERA_STEP("split")
  std::string stage, iter;
  std::vector<std::int64_t> lengths;
  bool from_outer = false;
  Tail tail = Tail::kGuard;
};

// follow_split D i 0 2: splits i into 3 parts with the lengths of step 0 (the last is the product
// of the rest).
struct FollowSplit {
  TESSERA_STEP("follow_split")
  std::string stage, iter;
  int source = 0;  // index of the split step in the schedule
  int parts = 1;
  Tail tail = Tail::kGuard;
};

// follow_fused_split D f 1 0,2 [outer]: one split whose length is the product of length[level 1] of
// steps 0 and 2.
struct FollowFusedSplit {
  TESSERA_STEP("follow_fused_split")
  std::string stage, iter;
  int level = 0;
  std::vector<int> sources;
  bool from_outer = false;
};

struct Fuse {  // fuse C i.0 j.0: one loop i.0@j.0
  TESSERA_STEP("fuse")
  std::string stage;
  std::vector<std::string> iters;
};

struct Reorder {  // reorder C i.0 j.0 k i.1 j.1: must list every loop
  TESSERA_STEP("reorder")
  std::string stage;
  std::vector<std::string> iters;
};

struct Annotate {  // annotate C i.0 parallel | vectorize | unroll | vthread | blockIdx.x |
                   // threadIdx.x ...
  TESSERA_STEP("annotate")
  std::string stage, iter;
  Annotation annotation = Annotation::kNone;
};

struct Tensorize {  // tensorize C j.1 dot4: the loops from j.1 inward become one target instruction
  TESSERA_STEP("tensorize")
  std::string stage, iter, intrinsic;
};

struct Pragma {  // pragma C i.0 auto_unroll_max_step 64 | pipeline 3 | pipeline_pieces 2
  TESSERA_STEP("pragma")
  std::string stage, iter, key;
  std::int64_t value = 0;
};

struct ComputeAt {  // compute_at P C j.0: P is computed inside loop j.0 of C, for the region needed
                    // there
  TESSERA_STEP("compute_at")
  std::string stage, target, iter;
};

struct ComputeInline {
  TESSERA_STEP("compute_inline")
  std::string stage;
};

struct ComputeRoot {
  TESSERA_STEP("compute_root")
  std::string stage;
};

struct CacheRead {  // cache_read A local C D: stage A.local copies A; C and D read the copy
  TESSERA_STEP("cache_read")
  std::string buffer, scope;
  std::vector<std::string> readers;
};

struct CacheWrite {  // cache_write C local: stage C.local computes, C copies
  TESSERA_STEP("cache_write")
  std::string stage, scope;
};

struct RFactor {  // rfactor C k.1 0: C.rf keeps k.1 as output axis 0, C reduces over it (the next
                  // gives C.rf2)
  TESSERA_STEP("rfactor")
  std::string stage, iter;
  int axis = 0;
};

struct StorageAlign {  // storage_align P 0 32 8: the stride of dimension 0 is 8 modulo 32 elements
  TESSERA_STEP("storage_align")
  std::string stage;
  int dim = 0;
  std::int64_t factor = 1, offset = 0;
};

struct SetLayout {  // layout W d0/12 d1 d0%12: storage order of a constant input or an intermediate
  TESSERA_STEP("layout")
  std::string buffer;
  Layout layout;
};

struct PrefetchStep {  // prefetch C k.0 A 4: at each k.0, fetch what A[...] will be read 4
                       // iterations later; 0: a share of the panel behind the one that is read
  TESSERA_STEP("prefetch")
  std::string stage, iter, buffer;
  std::int64_t distance = 1;
};

#undef TESSERA_STEP

// The order is file format: append only.
using Step = std::variant<Split, FollowSplit, FollowFusedSplit, Fuse, Reorder, Annotate, Tensorize,
                          Pragma, ComputeAt, ComputeInline, ComputeRoot, CacheRead, CacheWrite,
                          RFactor, StorageAlign, SetLayout, PrefetchStep>;

std::string to_text(const Step& step);
Result<Step> step_from_text(std::string_view line);

// A schedule is its steps; the State is derived.
struct Schedule {
  std::vector<Step> steps;
};

std::string to_text(const Schedule& schedule);  // one step a line
// Empty lines and `#` comments are skipped; errors name the line.
Result<Schedule> schedule_from_text(std::string_view text);

// Applies the step that has this number in its schedule; the error names number and text.
Result<void> apply_step(const Step& step, std::size_t number, State& state);
// Applies all steps; stops at the first illegal one, naming its number and text.
Result<State> apply(const te::Dag& dag, const Schedule& schedule);

}  // namespace tessera::schedule
