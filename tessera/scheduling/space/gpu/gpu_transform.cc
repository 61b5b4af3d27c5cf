#include <algorithm>

#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/tile.h"
#include "tessera/scheduling/space/transform.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kThreads = 128;

}  // namespace

bool schedule_gpu_transform(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  if (!is_transform(s)) return false;
  const std::int64_t most = std::max<std::int64_t>(1, c.target.gpu.block_threads);
  const std::string& name = s.op.name;
  const std::map<std::size_t, std::int64_t> unrolled = unrolled_axes(c, stage);
  std::int64_t all = 1;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    const auto it = unrolled.find(i);
    const std::int64_t each = it == unrolled.end() ? 1 : it->second == 0 ? s.extent(i) : it->second;
    all *= parts_of(s.extent(i), at_most(each, s.extent(i)));
  }
  const std::int64_t threads = c.chooser.number(name, "threads", PointKind::kThread,
                                                spread_gpu_threads(c, all, kThreads), [&] {
                                                  std::vector<std::int64_t> out;
                                                  for (const std::int64_t t : {32, 64, 128, 256}) {
                                                    if (t <= most) out.push_back(t);
                                                  }
                                                  return out;
                                                });
  Writer& w = c.writer;
  Loops outer, inner;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    const auto it = unrolled.find(i);
    if (it == unrolled.end()) {
      const bool only = i + 1 == s.rank() && outer.empty();
      (s.extent(i) > 1 || only ? outer : inner).push_back(s.axis_name(i));
    } else if (it->second == 0) {
      inner.push_back(s.axis_name(i));
    } else {
      const Loops parts =
          w.split(name, s.axis_name(i), {at_most(it->second, s.extent(i))}, schedule::Tail::kGuard);
      outer.push_back(parts[0]);
      inner.push_back(parts[1]);
    }
  }
  Loops order = outer;
  order.insert(order.end(), inner.begin(), inner.end());
  w.reorder(name, order);
  for (const std::string& loop : inner) w.unroll(name, loop);
  const Loops parts = w.split(name, w.fuse(name, outer), {threads}, schedule::Tail::kGuard);
  w.annotate(name, parts[0], schedule::Annotation::kBlockX);
  w.annotate(name, parts[1], schedule::Annotation::kThreadX);
  c.done[stage] = true;
  attach_transform(c, stage, parts[1]);
  return true;
}

}  // namespace tessera::space
