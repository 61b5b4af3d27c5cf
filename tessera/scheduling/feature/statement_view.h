// Everything the columns of a statement read: reuse of its tensors, traffic, the innermost tile.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/feature/program.h"

namespace tessera::feature {

inline constexpr std::size_t kSlots = 5;
inline constexpr std::size_t kCurveSamples = 10;
inline constexpr std::size_t kPositions = 8;
inline constexpr std::size_t kCaches = 3;

// What all statements inside a loop do together while it runs once.
class LoopTotals {
 public:
  LoopTotals(const Program& program, std::pmr::memory_resource* memory);

  struct Touch {
    const ir::BufferNode* buffer = nullptr;
    double bytes = 0;         // of the largest region any statement touches
    double min_elements = 0;  // of the smallest
    int statements = 0;
  };
  struct Total {
    explicit Total(std::pmr::memory_resource* memory) : touches(memory) {}
    double bytes = 0;  // distinct
    double work = 0;
    std::pmr::vector<Touch> touches;
  };

  const Total& of(int loop_id) const { return totals_[static_cast<std::size_t>(loop_id)]; }
  double program_work() const { return program_work_; }

 private:
  std::pmr::vector<Total> totals_;
  double program_work_ = 0;
};

// Loops of one annotation around a statement.
struct Annotated {
  double count = 0, product = 0, innermost = 0;  // 0 when there are none
  std::size_t position = 0;  // none; inner, middle, outer spatial; the same of reduce; mixed
};

enum class Reuse : std::uint8_t { kLoop, kSerial, kNone };

// One tensor of a statement, as a slot of 18 columns shows it.
struct Slot {
  const Access* access = nullptr;  // null: unused
  double bytes = 0, unique_bytes = 0, lines = 0, unique_lines = 0;
  Reuse reuse = Reuse::kNone;
  double distance_iterations = 0, distance_bytes = 0, count = 0;
  double stride = 0;
};

// The innermost loops that become straight-line code.
struct Body {
  std::size_t level = 0;  // first loop of it
  double points = 1;
  double vectors = 1;  // operations of one vector each, a statement
  double lanes = 1;    // elements of a vector register
  double vector_loads = 0, broadcasts = 0, gathers = 0;
  double unit_stride_store = 0;
  double accumulators = 0;  // elements kept in registers across a reduction
  double accumulator_vectors = 0;
};

// What a statement fetches ahead of its use; of several the farthest. All 0 without.
struct Ahead {
  double iterations = 0;
  double bytes = 0;  // from what is read now
  double past = 0;   // ... over those of the whole tensor: from 1 on nothing of it lies there
  double count = 0;  // fetches in all
};

struct StatementView {
  const Statement* statement = nullptr;
  const target::Target* target = nullptr;
  double program_work = 0;
  Annotated vector, unroll, parallel;
  double vthreads = 1;
  std::array<Slot, kSlots> slots;
  std::array<double, kCurveSamples> curve = {};  // operations per byte
  Body body;
  Ahead ahead;
  std::array<double, kCaches> traffic = {};       // bytes that come from beyond L1, L2, L3
  std::array<double, kCaches> fitting_work = {};  // operations while what fits stays there
  double reduce_bytes = 0;        // touched while the outermost reduce loop runs once
  double inner_reduce_bytes = 0;  // ... and the innermost
  double outer_points = 1;        // product of the loops outside its storage
};

StatementView view_statement(const Statement& s, const LoopTotals& totals,
                             const target::Target& target, std::pmr::memory_resource* memory);

}  // namespace tessera::feature
