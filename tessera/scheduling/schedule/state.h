// The result of applying steps to a Dag: stages with loop structure, ready to be lowered.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/support/result.h"

namespace tessera::schedule {

enum class Annotation : std::uint8_t {
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

constexpr bool is_block(Annotation a) {
  return a == Annotation::kBlockX || a == Annotation::kBlockY || a == Annotation::kBlockZ;
}
// Virtual threads too: they run in one thread, but as if they were several.
constexpr bool is_thread(Annotation a) {
  return a == Annotation::kVThread || a == Annotation::kThreadX || a == Annotation::kThreadY ||
         a == Annotation::kThreadZ;
}

// Longest loops that may be unrolled or vectorized: beyond, code size only hurts.
inline constexpr std::int64_t kMaxUnroll = 512;
inline constexpr std::int64_t kMaxVector = 256;

// What happens where a split does not divide its extent.
enum class Tail : std::uint8_t {
  kGuard,  // the last part runs under a condition
  kPeel,   // full parts and the rest become separate copies of the loop, neither with a condition
  kPad,    // the iteration space is rounded up; storage grows, reads past a producer's end are
           // clamped
};

// An iterator of a stage. Root iterators are the op's axes, then its reduce axes.
struct Iter {
  std::string name;
  std::int64_t extent = 0;  // over the whole op; lowering shrinks it to the region a consumer needs
  bool reduce = false;
  Annotation annotation = Annotation::kNone;
  std::string intrinsic;  // for kTensorize
};

// How iterators came from others, in order of application. Ids index Stage::iters.
struct Relation {
  enum class Kind : std::uint8_t { kSplit, kFuse };
  Kind kind = Kind::kSplit;
  std::vector<int> from;  // split: one parent; fuse: the fused iterators, outermost first
  std::vector<int> to;    // split: parts, outermost first; fuse: one
  std::vector<std::int64_t>
      lengths;  // split: given extents (of the inner parts, or of the outer ones if from_outer)
  bool from_outer = false;
  Tail tail = Tail::kGuard;
};

// A dimension of a transformed storage layout: (index[dim] / divisor) % modulus (0: no modulus).
struct LayoutDim {
  int dim = 0;
  std::int64_t divisor = 1;
  std::int64_t modulus = 0;
  friend bool operator==(const LayoutDim&, const LayoutDim&) = default;
};
using Layout = std::vector<LayoutDim>;

std::string to_text(const Layout& layout);  // "d0/12 d1 d0%12"
Result<Layout> layout_from_text(std::string_view text);
// A layout of `rank` dimensions must store every index exactly once.
Result<void> check_layout(const Layout& layout, std::size_t rank);
std::vector<std::int64_t> layout_shape(const Layout& layout,
                                       const std::vector<std::int64_t>& shape);

struct Prefetch {
  int iter = 0;
  std::string buffer;
  std::int64_t distance = 1;  // iterations of `iter` ahead
};

// How a loop runs ahead with its copies to shared memory.
struct Pipeline {
  std::int64_t stages = 0;  // iterations whose copies have room
  bool pieces = false;      // products end with their iteration, whose sums are added afterwards
};

struct Attach {
  enum class Kind : std::uint8_t { kRoot, kInline, kAt };
  Kind kind = Kind::kRoot;
  std::string stage;  // kAt: the consumer
  int iter = 0;       // kAt: iterator id of the consumer
};

struct Stage {
  te::Op op;
  std::vector<Iter> iters;
  std::vector<Relation> relations;
  std::vector<int> leaves;  // loop order, outermost first
  Attach attach;
  std::string scope;                        // "" (chosen by size), "local" or "shared"
  std::map<int, std::int64_t> auto_unroll;  // iterator id -> max steps
  std::map<int, Pipeline> pipeline;         // by iterator id
  std::vector<Prefetch> prefetches;
  std::map<int, std::pair<std::int64_t, std::int64_t>>
      align;  // output dim -> {factor, offset} of its stride, elements

  const std::string& name() const { return op.name; }
  // Leaf iterator of that name, or an error listing the leaves.
  Result<int> find_leaf(const std::string& iter) const;
  int position(int id) const;  // index in leaves, -1 if not a leaf
};

struct State {
  te::Dag dag;                // name, inputs and outputs; ops live in stages alone
  std::vector<Stage> stages;  // topological order
  std::map<ir::Buffer, Layout> layouts;
  std::vector<Relation>
      splits;  // one per applied step (empty for steps that do not split), for follow_split

  Stage* find(const std::string& name);
  const Stage* find(const std::string& name) const;
  Result<Stage*> stage(const std::string& name);  // error lists the stages
  int index_of(const std::string& name) const;
};

State initial_state(const te::Dag& dag);
Stage make_stage(te::Op op);

// One line per loop: what `--stage schedule` prints under the steps.
std::string to_text(const State& state);

}  // namespace tessera::schedule
