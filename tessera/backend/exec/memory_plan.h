// Where every value of a model lives while it runs: one arena whose places are reused.
#pragma once

#include <vector>

#include "tessera/backend/exec/running_order.h"
#include "tessera/frontend/graph/graph.h"
#include "tessera/frontend/task/task.h"

namespace tessera::exec {

enum class Place : std::uint8_t {
  kNone,      // never stored: inside a kernel, or without elements
  kInput,     // memory of the caller: index into graph.inputs
  kOutput,    // memory of the caller: index into graph.outputs
  kConstant,  // index: the value
  kArena,     // byte offset
};

struct Storage {
  Place place = Place::kNone;
  std::size_t index = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;  // of places in the arena
};

// An output that is also an input, a constant, or another output under a second name.
struct OutputCopy {
  graph::ValueId from = graph::kNoValue;
  std::size_t output = 0;
};

struct MemoryPlan {
  std::vector<Storage> of_value;                  // by ValueId
  std::vector<std::vector<Storage>> temporaries;  // by group, as MemoryOptions has them
  std::vector<OutputCopy> copies;
  std::int64_t arena_bytes = 0;
  std::int64_t live_bytes = 0;  // the largest sum of sizes alive at once: no plan can use less
};

inline constexpr std::int64_t kArenaAlignment = 64;

struct MemoryOptions {
  std::int64_t alignment = kArenaAlignment;
  // Bytes of memory that a group needs while it runs, by group; empty: no group needs any.
  std::vector<std::vector<std::int64_t>> temporaries;
  // Groups may run side by side with others, as soon as what they read is there: memory is used
  // again only by groups that come after all its users, if that takes at most so many times the
  // memory of groups that run one after the other, and not so much more that a model which fits its
  // device may no longer do so. 0: they do.
  double side_by_side = 0;
  static constexpr std::int64_t kMostMoreBytes = std::int64_t{256} << 20;
};

// What a group reads and writes, each value being memory of its own. Operators of the host come
// after all groups before them and before all behind them.
RunningOrder order_of(const graph::Graph& graph, const std::vector<task::Group>& groups);

// Values live from the group that writes them to the last group that reads them; a reshape shares
// the memory of its input. Large values are placed first, each at the lowest free offset.
MemoryPlan plan_memory(const graph::Graph& graph, const std::vector<task::Group>& groups,
                       const MemoryOptions& options = {});

}  // namespace tessera::exec
