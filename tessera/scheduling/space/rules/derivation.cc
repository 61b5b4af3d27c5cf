#include "tessera/scheduling/space/rules/derivation.h"

#include <algorithm>

#include "tessera/scheduling/space/context.h"
#include "tessera/scheduling/space/rules/row_part.h"
#include "tessera/scheduling/space/transform.h"

namespace tessera::space {
namespace {

// The stages that read what one of `stages` writes, without those themselves.
std::vector<std::size_t> users_of(const Analysis& analysis,
                                  const std::vector<std::size_t>& stages) {
  std::vector<std::size_t> out;
  for (const std::size_t s : stages) {
    for (const std::size_t u : analysis.stages[s].users) {
      if (std::find(stages.begin(), stages.end(), u) == stages.end()) out.push_back(u);
    }
  }
  return out;
}

class Assembler {
 public:
  Assembler(const Problem& problem, const Draft& draft, std::string name, schedule::Schedule fixed,
            const PartHook& hook)
      : problem_(problem),
        draft_(draft),
        name_(std::move(name)),
        fixed_(std::move(fixed)),
        hook_(hook) {}

  std::unique_ptr<PartSketch> run() {
    const std::size_t count = draft_.stages.size();
    done_.assign(count, false);
    for (std::size_t i = 0; i < count; ++i) {
      const StageDraft& own = draft_.stages[i];
      if (own.kind == StageDraft::Kind::kTiled && own.tiling.cache_write)
        fixed_.steps.emplace_back(
            schedule::CacheWrite{.stage = problem_.stage(i).op.name, .scope = "local"});
    }
    write_transforms();
    sketch_ = std::make_unique<PartSketch>(name_, fixed_);
    for (std::size_t i = count; i-- > 0;) {
      if (!done_[i]) add_stage(i);
    }
    if (!sketch_->finish()) return nullptr;
    return std::move(sketch_);
  }

 private:
  void write_transforms() {
    Writer writer;
    Chooser chooser;
    Context context{.analysis = *problem_.analysis,
                    .target = problem_.target,
                    .writer = writer,
                    .chooser = chooser,
                    .done = done_};
    for (std::size_t i = done_.size(); i-- > 0;) {
      const bool wanted = draft_.stages[i].kind == StageDraft::Kind::kTransform;
      if (wanted && !context.done[i]) schedule_transform(context, i);
    }
    done_ = context.done;
    const auto& steps = writer.schedule().steps;
    fixed_.steps.insert(fixed_.steps.end(), steps.begin(), steps.end());
  }

  void add_stage(std::size_t i) {
    const StageDraft& own = draft_.stages[i];
    if (own.kind == StageDraft::Kind::kNest) {
      for (std::size_t t = i; t-- > 0;) {
        const StageDraft& tiled = draft_.stages[t];
        const bool fused = tiled.kind == StageDraft::Kind::kTiled && tiled.nest &&
                           tiled.tiling.fused > 0 && tiled.nest->stage == i;
        if (fused && !done_[t]) return add_tiled(t, {t, i});
      }
    }
    if (own.kind == StageDraft::Kind::kTiled) return add_tiled(i, {i});
    const bool output = problem_.stage(i).output;
    const std::vector<std::size_t> users = users_of(*problem_.analysis, {i});
    const bool moves =
        !output && problem_.stage(i).op.outputs.size() == 1 && sketch_->can_move(users);
    done_[i] = true;
    add_part(std::make_unique<RowPart>(problem_.analysis, problem_.target, i, !moves), i, {i},
             users, moves);
  }

  void add_tiled(std::size_t i, const std::vector<std::size_t>& stages) {
    const StageDraft& own = draft_.stages[i];
    for (const std::size_t s : stages) done_[s] = true;
    add_part(
        std::make_unique<TilePart>(problem_.analysis, problem_.target, i, own.nest, own.tiling), i,
        stages, users_of(*problem_.analysis, stages), false);
  }

  void add_part(std::unique_ptr<Part> part, std::size_t stage,
                const std::vector<std::size_t>& stages, const std::vector<std::size_t>& users,
                bool moves) {
    if (hook_) hook_(*part, stage);
    sketch_->add(std::move(part), problem_.stage(stage).op.name, stages, users, moves);
  }

  const Problem& problem_;
  const Draft& draft_;
  std::string name_;
  schedule::Schedule fixed_;
  const PartHook& hook_;
  std::vector<bool> done_;
  std::unique_ptr<PartSketch> sketch_;
};

}  // namespace

bool is_tiled(const Stage& s) {
  if (!s.reduces() || s.op.values.size() != 1 || s.rank() == 0 || s.iterations() < 1) return false;
  bool varies = false;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (s.extent(i) <= 1) continue;
    for (const Access& r : s.reads) varies = varies || !r.uses(i);
  }
  return varies && s.reads.size() >= 2;
}

Problem make_problem(const te::Dag& dag, const std::vector<te::Op>& ops,
                     const target::Target& target) {
  Problem p{.analysis = std::make_shared<const Analysis>(analyse(dag, ops)),
            .target = target,
            .main = std::nullopt};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!is_tiled(p.stage(i))) continue;
    if (!p.main || p.stage(i).iterations() > p.stage(*p.main).iterations()) p.main = i;
  }
  return p;
}

std::vector<Draft> derive(const Problem& problem) {
  const std::size_t count = problem.analysis->stages.size();
  std::vector<Draft> drafts(1);
  drafts[0].stages.resize(count);
  drafts[0].name = "rows";
  for (std::size_t i = count; i-- > 0;) {
    std::vector<Draft> next;
    for (const Draft& draft : drafts) {
      for (const Rule& rule : rule_table(problem.target)) {
        if (rule.apply(problem, draft, i, &next) == Answer::kOnly) break;
      }
    }
    drafts = std::move(next);
  }
  return drafts;
}

std::unique_ptr<PartSketch> make_sketch(const Problem& problem, const Draft& draft,
                                        std::string name, schedule::Schedule fixed,
                                        const PartHook& hook) {
  return Assembler(problem, draft, std::move(name), std::move(fixed), hook).run();
}

}  // namespace tessera::space
