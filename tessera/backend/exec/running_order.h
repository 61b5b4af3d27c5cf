// Which steps of a model must come one after the other, and which may run side by side.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::exec {

// Bytes of some memory that a step reads or writes.
struct Touch {
  std::size_t memory = 0;  // pieces of different memory have nothing in common
  std::int64_t begin = 0, end = 0;
  bool writes = false;
};

// Steps that touch the same bytes, one of them writing, keep their order; so do those between which
// others do. Nothing else does.
class RunningOrder {
 public:
  explicit RunningOrder(const std::vector<std::vector<Touch>>& steps);

  // Whether `first` has ended when `second` begins.
  bool before(std::size_t first, std::size_t second) const {
    return (earlier_[second * words_ + first / 64] >> (first % 64) & 1) != 0;
  }
  // By step, those that it comes after, without the ones that others of them come after.
  const std::vector<std::vector<std::size_t>>& after() const { return after_; }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> earlier_;  // bits of all steps, by step
  std::vector<std::vector<std::size_t>> after_;
};

}  // namespace tessera::exec
