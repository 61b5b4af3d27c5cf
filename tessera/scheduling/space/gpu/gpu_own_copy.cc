#include "tessera/scheduling/space/gpu/gpu_own_copy.h"

#include <algorithm>
#include <utility>

namespace tessera::space {

void write_gpu_own_copy(Writer& w, const GpuOwnCopy& c) {
  const auto dim = [](std::size_t d) { return static_cast<int>(d); };
  const std::string along = "d" + std::to_string(c.along), across = "d" + std::to_string(c.across);
  // The steps of a group lie together.
  if (c.by_rows) {
    w.layout(c.stage, {{.dim = dim(c.along), .divisor = c.steps},
                       {.dim = dim(c.across)},
                       {.dim = dim(c.along), .modulus = c.steps}});
  } else {
    w.layout(c.stage, {{.dim = dim(c.along)}, {.dim = dim(c.across)}});
  }
  if (c.transposed) w.storage_align(c.stage, dim(c.along), kGpuBanks, kGpuTransposedPad);
  const auto guard = schedule::Tail::kGuard;
  const Loops groups = w.split(c.stage, along, {c.steps}, guard);
  Loops dims = c.by_rows ? Loops{across, groups[1]} : Loops{groups[1], across};
  std::vector<std::int64_t> lengths = {c.threads};
  if (c.transposed) {  // threads of a warp take neighbours of some rows, each element by itself
    const Loops rows = w.split(c.stage, across, {kGpuBanks / kGpuTransposedSteps}, guard);
    const Loops steps =
        w.split(c.stage, groups[1], {std::min(kGpuTransposedSteps, c.steps)}, guard);
    dims = {rows[0], steps[0], rows[1], steps[1]};
  } else {
    lengths.push_back(c.lanes);
  }
  Loops order = {groups[0]};
  order.insert(order.end(), dims.begin(), dims.end());
  w.reorder(c.stage, order);
  const Loops parts = w.split(c.stage, w.fuse(c.stage, dims), std::move(lengths), guard);
  order = {parts[0], groups[0]};
  order.insert(order.end(), parts.begin() + 1, parts.end());
  w.reorder(c.stage, order);
  w.unroll(c.stage, parts[0]);
  w.annotate(c.stage, w.fuse(c.stage, {groups[0], parts[1]}), schedule::Annotation::kThreadX);
  if (!c.transposed) w.vectorize(c.stage, parts[2]);
}

}  // namespace tessera::space
