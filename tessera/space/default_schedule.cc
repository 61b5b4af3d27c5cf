#include "tessera/space/default_schedule.h"

#include <algorithm>

#include "tessera/lower/inline_stages.h"
#include "tessera/lower/lower.h"
#include "tessera/space/context.h"
#include "tessera/space/contraction.h"
#include "tessera/space/inlining.h"
#include "tessera/space/pointwise.h"
#include "tessera/space/reduction.h"
#include "tessera/space/transform.h"

namespace tessera::space {
namespace {

// From the best to the surest.
enum class Effort {
  kFull,
  kSeparate,  // stages inlined, but every other one by itself
  kWritten,   // every stage by itself
  kNone,
};

// A pool or a depthwise convolution and its epilogue, where the host has no other rows to compute.
bool schedule_lanes_of(Context& c, std::size_t host) {
  for (std::size_t p = host; p-- > 0;) {
    const Stage& s = c.stage(p);
    if (c.done[p] || !s.reduces() || s.users.size() != 1 || s.users[0] != host) continue;
    const auto found = find_host(c.analysis, p);
    if (found && schedule_lanewise(c, p) && c.done[host]) return true;
  }
  return false;
}

void write_stages(Context& c) {
  const std::size_t count = c.analysis.stages.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!c.done[i] && is_contraction(c.stage(i))) schedule_contraction(c, i);
  }
  for (std::size_t i = count; i-- > 0;) {
    if (!c.done[i] && is_transform(c.stage(i))) schedule_transform(c, i);
  }
  for (std::size_t i = count; i-- > 0;) {
    if (c.done[i]) continue;
    const bool lanes = c.stage(i).reduces() ? schedule_lanewise(c, i) : schedule_lanes_of(c, i);
    if (!lanes) schedule_rows_of(c, i);
  }
}

void write_separately(Context& c) {
  for (std::size_t i = c.analysis.stages.size(); i-- > 0;) {
    if (!c.stage(i).reduces()) {
      schedule_pointwise(c, i);
    } else if (c.stage(i).rank() > 0 && Context::worth_threads(c.stage(i).iterations() * 4)) {
      c.writer.parallel(c.stage(i).op.name, c.stage(i).axis_name(0));
    }
  }
}

Result<schedule::Schedule> attempt(const te::Dag& dag, const target::Target& target,
                                   Effort effort) {
  Writer writer;
  std::vector<te::Op> ops = dag.ops;
  if (effort == Effort::kFull || effort == Effort::kSeparate) {
    for (const std::string& name : choose_inlined(analyse(dag, dag.ops)))
      writer.compute_inline(name);
    TESSERA_TRY(const schedule::State state, schedule::apply(dag, writer.schedule()));
    ops.clear();
    for (const schedule::Stage& s : lower::inline_stages(state).stages) ops.push_back(s.op);
  }
  const Analysis analysis = analyse(dag, ops);
  Context context{.analysis = analysis,
                  .target = target,
                  .writer = writer,
                  .done = std::vector<bool>(analysis.stages.size(), false)};
  if (effort == Effort::kFull) write_stages(context);
  if (effort == Effort::kSeparate || effort == Effort::kWritten) write_separately(context);
  TESSERA_TRY(const lower::Lowered lowered, lower::lower(dag, writer.schedule(), target));
  return writer.schedule();
}

}  // namespace

Result<schedule::Schedule> default_schedule(const te::Dag& dag, const target::Target& target) {
  for (const Effort effort : {Effort::kFull, Effort::kSeparate, Effort::kWritten}) {
    Result<schedule::Schedule> schedule = attempt(dag, target, effort);
    if (schedule.ok()) return schedule;
  }
  return attempt(dag, target, Effort::kNone);
}

}  // namespace tessera::space
