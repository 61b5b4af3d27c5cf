// Reductions along memory: the threads of a warp or a block share a row, and what is computed of
// its result, element by element, follows in the same launch.
#include <algorithm>

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/row_group.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

// Warps that take a row at once at most.
constexpr std::int64_t kOnceWarps = 8;

std::int64_t row_length(const Stage& s) {
  std::int64_t length = 1;
  for (const te::Axis& a : s.op.reduce_axes) length *= std::max<std::int64_t>(1, a.extent);
  return length;
}

// The stage reads a row by its last reduce axis, element after element.
bool reads_along_row(const Stage& s) {
  if (s.op.reduce_axes.empty()) return false;
  return std::any_of(s.reads.begin(), s.reads.end(),
                     [&](const Access& r) { return r.strides[s.axis_count() - 1] == 1; });
}

class GpuRows {
 public:
  // `members` reduce to one element for each element of the `rows` axes of the nest.
  GpuRows(Context& context, std::size_t nest, std::vector<std::size_t> members,
          std::vector<std::size_t> rows)
      : context_(context),
        nest_stage_(context.stage(nest)),
        nest_(nest),
        members_(std::move(members)),
        rows_(std::move(rows)) {}

  void run() {
    choose();
    write_nest();
    for (const std::size_t m : members_) write_member(context_.stage(m));
    context_.done[nest_] = true;
    for (const std::size_t m : members_) context_.done[m] = true;
  }

 private:
  const std::string& name() const { return nest_stage_.op.name; }
  std::int64_t most_threads() const {
    return std::max<std::int64_t>(1, context_.target.gpu.block_threads);
  }

  // Elements side by side that a thread takes at once.
  std::int64_t lanes_of(std::int64_t last) const { return last % lanes_ == 0 ? lanes_ : 1; }

  void choose() {
    std::int64_t rows = 1, length = 1;
    for (const std::size_t r : rows_) rows *= nest_stage_.extent(r);
    for (const std::size_t m : members_) length = std::max(length, row_length(context_.stage(m)));
    if (nest_stage_.reduces()) length = std::max(length, row_length(nest_stage_));
    const Stage& first = members_.empty() ? nest_stage_ : context_.stage(members_.front());
    const std::int64_t wide =
        kGpuCopyBytes /
        size_bytes(first.reads.empty() ? nest_stage_.dtype() : first.reads[0].buffer->dtype);
    lanes_ = context_.chooser.number(name(), "row_lanes", PointKind::kVector,
                                     std::max<std::int64_t>(1, wide), [] {
                                       return std::vector<std::int64_t>{1, 2, 4, 8};
                                     });
    // Enough threads to keep all multiprocessors busy, no more than the row has work for.
    const std::int64_t warp = context_.target.gpu.warp;
    const std::int64_t busy = busy_gpu_threads(context_.target);
    std::int64_t preferred = std::min(warp, most_threads());
    while (2 * preferred <= std::min<std::int64_t>(16 * warp, most_threads()) &&
           ((rows * preferred < busy && 2 * preferred * lanes_ <= length) ||
            preferred * lanes_ * 16 < length))
      preferred *= 2;
    // Few rows wait for each access: one round of all threads, if there is one without a rest.
    const std::int64_t once = length / std::max<std::int64_t>(1, wide);
    const bool exact =
        once > 0 && once * wide == length && once % warp == 0 && once <= kOnceWarps * warp;
    if (exact && rows < std::int64_t{2} * context_.target.cores)
      preferred = std::min(once, most_threads());
    threads_ = context_.chooser.number(name(), "row_threads", PointKind::kThread, preferred, [&] {
      std::vector<std::int64_t> out;
      if (exact && once <= most_threads()) out.push_back(once);
      for (std::int64_t t = warp / 4; t <= std::min<std::int64_t>(16 * warp, most_threads());
           t *= 2)
        if (t > 0 && (out.empty() || t != out.front())) out.push_back(t);
      return out;
    });
    const std::int64_t side = std::max<std::int64_t>(1, std::int64_t{4} * warp / threads_);
    block_rows_ = context_.chooser.number(
        name(), "block_rows", PointKind::kThread,
        rows < std::int64_t{2} * context_.target.cores ? 1 : side,
        [] {
          return std::vector<std::int64_t>{1, 2, 4, 8};
        },
        [&](std::int64_t n) {
          return n > 1 && n * threads_ > most_threads() ? "more threads than a block has" : nullptr;
        });
  }

  void write_nest() {
    Writer& w = context_.writer;
    const auto [rows, units] = gpu_loops(nest_stage_, rows_);
    Loops rest;
    std::int64_t length = 1, last = 1;
    for (std::size_t i = 0; i < nest_stage_.rank(); ++i) {
      if (std::find(rows_.begin(), rows_.end(), i) != rows_.end()) continue;
      rest.push_back(nest_stage_.axis_name(i));
      length *= last = nest_stage_.extent(i);
    }
    for (std::size_t i = nest_stage_.rank(); i < nest_stage_.axis_count(); ++i) {
      rest.push_back(nest_stage_.axis_name(i));
      length *= last = nest_stage_.extent(i);
    }
    std::string lane;
    if (!rest.empty() && lanes_of(last) > 1) {
      const Loops parts = w.split(name(), rest.back(), {lanes_}, schedule::Tail::kGuard);
      rest.back() = parts[0];
      lane = parts[1];
    }
    Loops order = rows;
    order.insert(order.end(), units.begin(), units.end());
    order.insert(order.end(), rest.begin(), rest.end());
    if (!lane.empty()) order.push_back(lane);
    w.reorder(name(), order);
    const Loops row = w.split(name(), w.fuse(name(), rows), {block_rows_}, schedule::Tail::kGuard);
    w.annotate(name(), row[0], schedule::Annotation::kBlockX);
    if (block_rows_ > 1) w.annotate(name(), row[1], schedule::Annotation::kThreadY);
    row_ = row[1];
    if (rest.empty()) return;
    share(name(), rest, lane, length, !nest_stage_.reduces());
  }

  // Binds the loops of a row: rounds, threads, and lanes inside.
  void share(const std::string& stage, const Loops& loops, const std::string& lane,
             std::int64_t length, bool vectors) {
    Writer& w = context_.writer;
    const Loops parts = w.split(stage, w.fuse(stage, loops), {threads_}, schedule::Tail::kGuard);
    w.annotate(stage, parts[1], schedule::Annotation::kThreadX);
    if (length <= limits::kGpuRowRounds * threads_ * lanes_) w.unroll(stage, parts[0]);
    if (lane.empty()) return;
    if (vectors) {
      w.vectorize(stage, lane);
    } else {
      w.unroll(stage, lane);
    }
  }

  void write_member(const Stage& s) {
    Writer& w = context_.writer;
    const std::string& stage = s.op.name;
    w.compute_at(stage, name(), row_);
    Loops loops;
    for (std::size_t i = s.rank(); i < s.axis_count(); ++i) loops.push_back(s.axis_name(i));
    std::string lane;
    if (lanes_of(s.extent(s.axis_count() - 1)) > 1) {
      const Loops parts = w.split(stage, loops.back(), {lanes_}, schedule::Tail::kGuard);
      loops.back() = parts[0];
      lane = parts[1];
    }
    share(stage, loops, lane, row_length(s), false);
  }

  Context& context_;
  const Stage& nest_stage_;
  std::size_t nest_;
  std::vector<std::size_t> members_, rows_;
  std::int64_t lanes_ = 1, threads_ = 32, block_rows_ = 1;
  std::string row_;  // loop that holds one row
};

std::vector<std::size_t> all_axes(const Stage& s) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < s.rank(); ++i) out.push_back(i);
  return out;
}

}  // namespace

bool schedule_gpu_rows(Context& c, std::size_t nest) {
  const Stage& h = c.stage(nest);
  if (h.rank() == 0 || h.reduces()) return false;
  const RowGroup group(c, nest);
  const std::vector<std::size_t> members = group.members(), rows = group.rows();
  if (members.empty() || rows.empty()) return false;
  for (const std::size_t m : members) {
    const Stage& s = c.stage(m);
    if (!s.reduces() || !reads_along_row(s) || reads_along_outputs(s) || row_length(s) < 2)
      return false;
    for (std::size_t d = 0; d < s.rank(); ++d) {
      const bool known = std::any_of(rows.begin(), rows.end(), [&](std::size_t g) {
        return group.map(m)[g] == static_cast<int>(d);
      });
      if (!known && s.extent(d) > 1) return false;
    }
  }
  GpuRows(c, nest, members, rows).run();
  return true;
}

bool schedule_gpu_row_sums(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  if (s.rank() == 0 || s.op.reduce_axes.empty() || row_length(s) < 2) return false;
  const auto nest = find_nest(c.analysis, stage);
  if (nest && !c.done[nest->stage]) {
    GpuRows(c, nest->stage, {stage}, all_axes(c.stage(nest->stage))).run();
  } else {
    GpuRows(c, stage, {}, all_axes(s)).run();
  }
  return true;
}

}  // namespace tessera::space
