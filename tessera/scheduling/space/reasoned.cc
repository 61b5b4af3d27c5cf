#include "tessera/scheduling/space/reasoned.h"

#include <algorithm>
#include <utility>

#include "tessera/scheduling/schedule/inline_stages.h"
#include "tessera/scheduling/space/context.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/pointwise.h"
#include "tessera/scheduling/space/reduction.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/transform.h"

namespace tessera::space {
namespace {

// A pool or a depthwise convolution and its epilogue, where the nest has no other rows to compute.
bool schedule_lanes_of(Context& c, std::size_t nest) {
  for (std::size_t p = nest; p-- > 0;) {
    const Stage& s = c.stage(p);
    if (c.done[p] || !s.reduces() || s.users.size() != 1 || s.users[0] != nest) continue;
    const auto found = find_nest(c.analysis, p);
    if (found && schedule_lanewise(c, p) && c.done[nest]) return true;
  }
  return false;
}

void write_stages(Context& c) {
  if (const auto chain = find_chain(c.analysis)) {
    const std::string& output = c.stage(chain->output).op.name;
    if (c.chooser.flag(output, "by_rows", PointKind::kLocation, pays_by_rows(c, *chain))) {
      c.chain_output = static_cast<int>(chain->output);
      c.served = {c.stage(chain->product).op.name, c.stage(chain->input).op.name};
    }
  }
  if (const auto front = find_window_front(c.analysis)) {
    const std::string& product = c.stage(front->product).op.name;
    if (c.chooser.flag(product, "by_rows", PointKind::kLocation, true))
      c.served = {c.stage(front->window).op.name};
  }
  const std::size_t count = c.analysis.stages.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (c.chooser.stopped()) return;
    if (!c.done[i] && is_contraction(c.stage(i))) schedule_contraction(c, i);
  }
  for (std::size_t i = count; i-- > 0;) {
    if (!c.done[i] && is_transform(c.stage(i))) schedule_transform(c, i);
  }
  for (std::size_t i = count; i-- > 0;) {
    if (c.chooser.stopped()) return;
    if (c.done[i]) continue;
    const bool lanes = c.stage(i).reduces() ? schedule_lanewise(c, i) : schedule_lanes_of(c, i);
    if (!lanes) schedule_rows_of(c, i);
  }
}

void write_separately(Context& c) {
  for (std::size_t i = c.analysis.stages.size(); i-- > 0;) {
    if (!c.stage(i).reduces()) {
      schedule_pointwise(c, i);
    } else if (c.stage(i).rank() > 0 && worth_threads(c.stage(i).iterations() * 4)) {
      share_loops(c.writer, c.stage(i).op.name, {c.stage(i).axis_name(0)}, 1);
    }
  }
}

class ReasonedSketch final : public Sketch {
 public:
  ReasonedSketch(std::string name, Outline outline) : outline_(std::move(outline)) {
    name_ = std::move(name);
    list_decisions();
  }

  void walk(Asker& asker) const override {
    Chooser chooser(points_, asker);
    Writer writer(Writer::Mode::kNames);
    write_outline(outline_, chooser, writer);
  }

  Result<schedule::Schedule> write(Choice choice) const override {
    Chooser chooser(points_, choice);
    return write_outline(outline_, chooser);
  }

 private:
  // Some choices open others: each value is tried in turn, beside the preferred ones.
  void list_decisions() {
    const auto list = [&](Choice choice) {
      Chooser chooser(points_, choice, &points_);
      Writer writer(Writer::Mode::kNames);
      write_outline(outline_, chooser, writer);
    };
    list({});
    for (std::size_t d = 0; d < points_.size(); ++d) {
      std::vector<std::int32_t> choice;
      for (std::size_t i = 0; i < d; ++i) choice.push_back(points_[i].preferred);
      for (std::size_t v = 0; v < points_[d].values.size(); ++v) {
        choice.resize(d);
        choice.push_back(static_cast<std::int32_t>(v));
        list(choice);
      }
    }
  }

  Outline outline_;
};

// What reasoning prefers has loops, and the machine can run them.
Result<BestOutline> lower_preferred(const te::Dag& dag, Outline outline) {
  Chooser chooser;
  BestOutline out{std::move(outline), {}, {}};
  out.preferred = write_outline(out.outline, chooser);
  TESSERA_TRY(out.lowered, lower::lower(dag, out.preferred, out.outline.target));
  return out;
}

}  // namespace

Result<Outline> make_outline(const te::Dag& dag, const target::Target& target, Effort effort,
                             std::vector<std::string> inlined) {
  Outline out{.target = target, .effort = effort, .inlined = std::move(inlined), .analysis = {}};
  std::vector<te::Op> ops = dag.ops;
  if (!out.inlined.empty()) {
    Writer writer;
    for (const std::string& name : out.inlined) writer.compute_inline(name);
    TESSERA_TRY(const schedule::State state, schedule::apply(dag, writer.schedule()));
    ops.clear();
    for (const schedule::Stage& s : schedule::inline_stages(state).stages) ops.push_back(s.op);
  }
  out.analysis = analyse(dag, ops);
  return out;
}

schedule::Schedule write_outline(const Outline& outline, Chooser& chooser) {
  Writer writer;
  write_outline(outline, chooser, writer);
  return std::move(writer).take();
}

void write_outline(const Outline& outline, Chooser& chooser, Writer& writer) {
  for (const std::string& name : outline.inlined) writer.compute_inline(name);
  Context context{.analysis = outline.analysis,
                  .target = outline.target,
                  .writer = writer,
                  .chooser = chooser,
                  .done = std::vector<bool>(outline.analysis.stages.size(), false),
                  .served = {}};
  if (outline.target.row().launches) {
    if (outline.effort != Effort::kNone) write_gpu_stages(context, outline.effort != Effort::kFull);
  } else if (outline.effort == Effort::kFull) {
    write_stages(context);
  } else if (outline.effort != Effort::kNone) {
    write_separately(context);
  }
}

Result<BestOutline> best_outline(const te::Dag& dag, const target::Target& target) {
  // Threads compute again what would have to go through memory.
  const Inlining usual = target.row().launches ? Inlining::kThreads : Inlining::kReasoned;
  const std::vector<std::string> inlined = choose_inlined(analyse(dag, dag.ops), usual);
  const auto attempt = [&](Effort effort) -> Result<BestOutline> {
    const bool inlines = effort == Effort::kFull || effort == Effort::kSeparate;
    TESSERA_TRY(Outline outline,
                make_outline(dag, target, effort, inlines ? inlined : std::vector<std::string>{}));
    return lower_preferred(dag, std::move(outline));
  };
  for (const Effort effort : {Effort::kFull, Effort::kSeparate, Effort::kWritten}) {
    if (Result<BestOutline> best = attempt(effort); best.ok()) return best;
  }
  return attempt(Effort::kNone);
}

Result<std::vector<std::unique_ptr<Sketch>>> reasoned_sketches(const te::Dag& dag,
                                                               const target::Target& target) {
  TESSERA_TRY(BestOutline best, best_outline(dag, target));
  Outline& outline = best.outline;
  const std::vector<std::string> usual = outline.inlined;
  const bool full = outline.effort == Effort::kFull;
  std::vector<std::unique_ptr<Sketch>> out;
  out.push_back(std::make_unique<ReasonedSketch>("reasoned", std::move(outline)));
  if (!full) return out;
  const Analysis analysis = analyse(dag, dag.ops);
  std::vector<std::vector<std::string>> seen = {usual};
  for (const auto& [name, inlining] : {std::pair{"reasoned.plain", Inlining::kReasoned},
                                       {"reasoned.eager", Inlining::kEager},
                                       {"reasoned.lazy", Inlining::kLazy}}) {
    std::vector<std::string> inlined = choose_inlined(analysis, inlining);
    if (std::find(seen.begin(), seen.end(), inlined) != seen.end()) continue;
    seen.push_back(inlined);
    Result<Outline> other = make_outline(dag, target, Effort::kFull, std::move(inlined));
    if (!other) continue;
    Result<BestOutline> lowered = lower_preferred(dag, std::move(other).value());
    if (!lowered) continue;
    out.push_back(std::make_unique<ReasonedSketch>(name, std::move(lowered->outline)));
  }
  return out;
}

}  // namespace tessera::space
