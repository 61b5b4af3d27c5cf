// Reductions whose neighbours in memory are different outputs: depthwise convolutions, pools, sums
// over leading axes. A thread has a few channels of a few positions; where there are few outputs,
// threads share the reduction, too.
#include <algorithm>

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kBusyThreads = 256;  // of a multiprocessor, below which it waits for memory
constexpr std::int64_t kColumns = 32;       // side by side, where threads share the reduction

std::int64_t taps_of(const Stage& s) {
  std::int64_t taps = 1;
  for (const te::Axis& a : s.op.reduce_axes) taps *= std::max<std::int64_t>(1, a.extent);
  return taps;
}

class GpuColumns {
 public:
  GpuColumns(Context& context, std::size_t stage, Nest nest)
      : context_(context),
        sum_stage_(context.stage(stage)),
        nest_stage_(context.stage(nest.stage)),
        stage_(stage),
        nest_(std::move(nest)),
        self_(nest_.stage == stage),
        taps_(taps_of(sum_stage_)) {}

  void run() {
    choose();
    order_constants();
    Writer& w = context_.writer;
    inner_ = self_ ? w.cache_write(sum_stage_.op.name, "local") : sum_stage_.op.name;
    write_launch();
    write_sums();
    context_.done[stage_] = true;
    context_.done[nest_.stage] = true;
  }

 private:
  const std::string& name() const { return sum_stage_.op.name; }
  std::size_t last() const { return nest_stage_.rank() - 1; }
  std::int64_t most_threads() const {
    return std::max<std::int64_t>(1, context_.target.gpu.block_threads);
  }

  void choose() {
    const std::int64_t wide = kGpuCopyBytes / size_bytes(nest_stage_.dtype());
    const auto outputs = static_cast<std::int64_t>(sum_stage_.elements());
    const std::int64_t busy = kBusyThreads * std::max(1, context_.target.cores);
    // Taps that a thread adds up one after the other.
    std::int64_t sharing = 1;
    while (outputs * sharing < busy && 8 * sharing <= taps_ && 2 * sharing * kColumns <= 512)
      sharing *= 2;
    sharers_ = context_.chooser.number(
        name(), "sharers", PointKind::kThread, sharing,
        [] {
          return std::vector<std::int64_t>{1, 2, 4, 8, 16};
        },
        [&](std::int64_t n) -> const char* {
          if (n == 1) return nullptr;
          if (n > taps_) return "more threads than taps";
          return n * kColumns > most_threads() ? "more threads than a block has" : nullptr;
        });
    if (sharers_ > 1) {
      threads_ = kColumns;
      return;
    }
    const bool vectors = nest_stage_.extent(last()) % wide == 0 && outputs / wide >= busy / 8;
    lanes_ = context_.chooser.number(
        name(), "lanes", PointKind::kVector, vectors ? wide : 1,
        [] {
          return std::vector<std::int64_t>{1, 2, 4};
        },
        [&](std::int64_t n) {
          return n > 1 && nest_stage_.extent(last()) % n != 0 ? "not whole vectors" : nullptr;
        });
    const std::int64_t positions = nest_stage_.rank() > 1 ? nest_stage_.extent(last() - 1) : 1;
    if (positions > 1) {
      const bool many = outputs / lanes_ >= 8 * busy && taps_ > 1;
      strip_ = context_.chooser.number(
          name(), "strip", PointKind::kTile, many && positions % 2 == 0 ? 2 : 1,
          [] {
            return std::vector<std::int64_t>{1, 2, 4};
          },
          [&](std::int64_t n) {
            return n > 1 && n > positions ? "more than the axis has" : nullptr;
          });
    }
    threads_ = context_.chooser.number(name(), "threads", PointKind::kThread,
                                       std::min<std::int64_t>(128, most_threads()), [&] {
                                         std::vector<std::int64_t> out;
                                         for (const std::int64_t t : {32, 64, 128, 256, 512})
                                           if (t <= most_threads()) out.push_back(t);
                                         return out;
                                       });
  }

  // Weights lie along the vectors.
  void order_constants() {
    if (lanes_ == 1 || !self_axis_is_last()) return;
    for (const Access& read : sum_stage_.reads) {
      if (!context_.analysis.constant(read.buffer) || read.indices.empty()) continue;
      std::size_t along = read.indices.size();
      for (std::size_t d = 0; d < read.indices.size(); ++d) {
        if (read.indices[d].single_axis() == static_cast<int>(sum_stage_.rank() - 1)) along = d;
      }
      if (along + 1 >= read.indices.size()) continue;
      schedule::Layout layout;
      for (std::size_t d = 0; d < read.indices.size(); ++d) {
        if (d != along) layout.push_back({.dim = static_cast<int>(d)});
      }
      layout.push_back({.dim = static_cast<int>(along)});
      context_.writer.layout(read.buffer->name, layout);
    }
  }
  bool self_axis_is_last() const { return nest_.axis.back() == last(); }

  void write_launch() {
    Writer& w = context_.writer;
    const std::string& launch = nest_stage_.op.name;
    Loops outer, inner, units;
    for (std::size_t i = 0; i < nest_stage_.rank(); ++i) {
      const bool lane = i == last() && lanes_ > 1, strip = i + 1 == last() && strip_ > 1;
      const std::string& axis = nest_stage_.axis_name(i);
      if (lane || strip) {
        const Loops parts = w.split(launch, axis, {lane ? lanes_ : strip_}, schedule::Tail::kGuard);
        outer.push_back(parts[0]);
        inner.push_back(parts[1]);
        lane ? w.vectorize(launch, parts[1]) : w.unroll(launch, parts[1]);
      } else if (nest_stage_.extent(i) > 1 || (i == last() && outer.empty())) {
        outer.push_back(axis);
      } else {
        units.push_back(axis);
      }
    }
    inner.insert(inner.begin(), units.begin(), units.end());
    Loops order = outer;
    order.insert(order.end(), inner.begin(), inner.end());
    if (!inner.empty()) w.reorder(launch, order);
    const Loops parts = w.split(launch, w.fuse(launch, outer), {threads_}, schedule::Tail::kGuard);
    w.annotate(launch, parts[0], schedule::Annotation::kBlockX);
    w.annotate(launch, parts[1], schedule::Annotation::kThreadX);
    w.compute_at(inner_, launch, parts[1]);
  }

  void write_sums() {
    Writer& w = context_.writer;
    Loops axes, taps;
    for (std::size_t i = 0; i < sum_stage_.rank(); ++i) axes.push_back(sum_stage_.axis_name(i));
    for (std::size_t i = sum_stage_.rank(); i < sum_stage_.axis_count(); ++i)
      taps.push_back(sum_stage_.axis_name(i));
    if (sharers_ > 1) {
      const Loops parts = w.split(inner_, w.fuse(inner_, taps), {sharers_}, schedule::Tail::kGuard);
      w.annotate(inner_, parts[1], schedule::Annotation::kThreadY);
      return;
    }
    Loops order = taps;
    order.insert(order.end(), axes.begin(), axes.end());
    w.reorder(inner_, order);
    std::int64_t body = lanes_ * strip_;
    for (std::size_t i = taps.size(); i-- > 0;) {
      body *= sum_stage_.extent(sum_stage_.rank() + i);
      if (body <= limits::kGpuColumnBody) w.unroll(inner_, taps[i]);
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (lanes_ > 1 && nest_.axis[i] == last()) {
        w.vectorize(inner_, axes[i]);
      } else {
        w.unroll(inner_, axes[i]);
      }
    }
  }

  Context& context_;
  const Stage& sum_stage_;
  const Stage& nest_stage_;
  std::size_t stage_;
  Nest nest_;
  bool self_;
  std::int64_t taps_;
  std::int64_t sharers_ = 1, lanes_ = 1, strip_ = 1, threads_ = 128;
  std::string inner_;  // stage of the sums
};

}  // namespace

bool schedule_gpu_columns(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  if (s.rank() == 0 || !s.reduces() || s.op.outputs.size() != 1 || taps_of(s) < 2) return false;
  Nest nest{.stage = stage, .axis = {}};
  for (std::size_t i = 0; i < s.rank(); ++i) nest.axis.push_back(i);
  if (auto found = find_nest(c.analysis, stage); found && !c.done[found->stage]) nest = *found;
  GpuColumns(c, stage, std::move(nest)).run();
  return true;
}

}  // namespace tessera::space
