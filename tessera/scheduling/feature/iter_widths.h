// How far the axes of a stage move while some of its loops run.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "tessera/scheduling/schedule/state.h"

namespace tessera::feature {

class IterWidths {
 public:
  // `extents` per iterator id, at least 1; both must outlive this.
  IterWidths(const schedule::Stage& stage, const std::vector<std::int64_t>& extents,
             std::pmr::memory_resource* memory);

  // `loop_of[position]`: number of the loop of a leaf, negative for leaves without one.
  // Loops numbered `level` and above run over their whole extent, the others stand still.
  void run_from(const std::pmr::vector<double>& loop_of, double level);
  // Number of values that root iterator `root` then takes; never too few.
  double width(std::size_t root) const { return parts_[root].width; }

  // Loop `loop` stands at 1, all others at 0.
  void move(const std::pmr::vector<double>& loop_of, double loop);
  double moved(std::size_t root) const { return values_[root]; }

 private:
  struct Part {
    double width = 1;
    bool aligned = true;  // starts at a multiple of its width
  };
  void widen_split(const schedule::Relation& r);
  void widen_fuse(const schedule::Relation& r);
  double extent(int id) const {
    return static_cast<double>(extents_[static_cast<std::size_t>(id)]);
  }

  const schedule::Stage& stage_;
  const std::vector<std::int64_t>& extents_;
  std::pmr::vector<Part> parts_;
  std::pmr::vector<double> values_;
};

}  // namespace tessera::feature
