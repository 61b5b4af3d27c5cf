// compute_at, compute_inline, compute_root.
#include "tessera/scheduling/schedule/steps/step_text.h"

namespace tessera::schedule {
namespace {

bool has_attached(const State& state, const std::string& stage) {
  for (const Stage& other : state.stages) {
    if (other.attach.kind == Attach::Kind::kAt && other.attach.stage == stage) return true;
  }
  return false;
}

Result<void> refuse_output(const State& state, const Stage& stage) {
  for (const ir::Buffer& b : stage.op.outputs) {
    if (state.dag.is_output(b))
      return illegal("stage {} is an output: it must be computed whole, once", stage.name());
  }
  return {};
}

}  // namespace

std::string ComputeAt::args() const { return fmt::format("{} {} {}", stage, target, iter); }

Result<void> ComputeAt::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_TRY(Stage* const t, state.stage(target));
  TESSERA_TRY(const int id, t->find_leaf(iter));
  TESSERA_DO(refuse_output(state, *s));
  if (state.index_of(stage) >= state.index_of(target))
    return illegal("stage {} does not use {}", target, stage);
  if (t->attach.kind == Attach::Kind::kInline)
    return illegal("stage {} is inlined and has no loops", target);
  s->attach = {.kind = Attach::Kind::kAt, .stage = target, .iter = id};
  return {};
}

Result<Step> parse_compute_at(ArgReader& args) {
  ComputeAt s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.target, args.word("consumer stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  return Step(s);
}

std::string ComputeInline::args() const { return stage; }

Result<void> ComputeInline::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_DO(refuse_output(state, *s));
  if (s->op.reducer != te::Reducer::kNone)
    return illegal("stage {} is a reduction and cannot be inlined", stage);
  if (has_attached(state, stage)) return illegal("other stages are computed at {}", stage);
  s->attach = {.kind = Attach::Kind::kInline};
  return {};
}

Result<Step> parse_compute_inline(ArgReader& args) {
  ComputeInline s;
  TESSERA_TRY(s.stage, args.word("stage"));
  return Step(s);
}

std::string ComputeRoot::args() const { return stage; }

Result<void> ComputeRoot::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  s->attach = {};
  return {};
}

Result<Step> parse_compute_root(ArgReader& args) {
  ComputeRoot s;
  TESSERA_TRY(s.stage, args.word("stage"));
  return Step(s);
}

}  // namespace tessera::schedule
