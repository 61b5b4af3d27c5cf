// cache_read, cache_write, rfactor: steps that add a stage.
#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/schedule/iter_map.h"
#include "tessera/scheduling/schedule/steps/step_text.h"

namespace tessera::schedule {
namespace {

class ReplaceBuffer final : public ir::Mutator {
 public:
  ReplaceBuffer(ir::Buffer from, ir::Buffer to) : from_(std::move(from)), to_(std::move(to)) {}

 private:
  using ir::Mutator::rewrite;
  ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
    const ir::Expr inner = Mutator::rewrite(e, load);
    const auto* node = inner.as<ir::Load>();
    return node->buffer == from_ ? ir::Load::make(to_, node->indices) : inner;
  }
  ir::Buffer from_, to_;
};

std::vector<te::Axis> fresh_axes(const std::vector<te::Axis>& axes) {
  std::vector<te::Axis> out;
  for (const te::Axis& a : axes)
    out.push_back({ir::Var::make(a.var.as<ir::Var>()->name), a.extent});
  return out;
}

std::vector<ir::Expr> vars_of(const std::vector<te::Axis>& axes) {
  std::vector<ir::Expr> out;
  for (const te::Axis& a : axes) out.push_back(a.var);
  return out;
}

ir::Buffer find_buffer(const State& state, const std::string& name) {
  for (const te::Input& in : state.dag.inputs) {
    if (in.buffer->name == name) return in.buffer;
  }
  for (const Stage& s : state.stages) {
    for (const ir::Buffer& b : s.op.outputs) {
      if (b->name == name) return b;
    }
  }
  return {};
}

Result<void> check_scope(const std::string& scope) {
  if (scope != "local" && scope != "shared")
    return illegal("scope must be local or shared, not {}", scope);
  return {};
}

Result<void> check_free_name(const State& state, const std::string& name) {
  if (state.find(name) || find_buffer(state, name)) return illegal("stage {} exists already", name);
  return {};
}

Result<void> check_untouched(const State& state, const Stage& stage) {
  if (!stage.relations.empty()) return illegal("stage {} is split or fused already", stage.name());
  for (const Stage& other : state.stages) {
    if (other.attach.kind == Attach::Kind::kAt && other.attach.stage == stage.name()) {
      return illegal("stage {} is computed at {}", other.name(), stage.name());
    }
  }
  return {};
}

// `stage` becomes a copy of new buffers `name` + original suffix, which the returned op computes.
te::Op move_computation(Stage& stage, const std::string& name) {
  te::Op inner = stage.op;
  inner.name = name;
  te::Op outer = stage.op;
  outer.axes = fresh_axes(stage.op.axes);
  outer.reduce_axes.clear();
  outer.reducer = te::Reducer::kNone;
  for (std::size_t i = 0; i < inner.outputs.size(); ++i) {
    const ir::Buffer& old = stage.op.outputs[i];
    inner.outputs[i] =
        ir::Buffer::make(i == 0 ? name : fmt::format("{}.{}", name, i), old->dtype, old->shape);
    outer.values[i] = ir::Load::make(inner.outputs[i], vars_of(outer.axes));
  }
  stage.op = outer;
  return inner;
}

}  // namespace

std::string CacheRead::args() const {
  return fmt::format("{} {} {}", buffer, scope, fmt::join(readers, " "));
}

Result<void> CacheRead::apply(State& state) const {
  TESSERA_DO(check_scope(scope));
  const ir::Buffer from = find_buffer(state, buffer);
  if (!from) return illegal("no tensor {}", buffer);
  const std::string name = buffer + "." + scope;
  TESSERA_DO(check_free_name(state, name));
  if (readers.empty()) return illegal("no reading stages given");
  te::Op op{.name = name};
  for (std::size_t d = 0; d < from->shape.size(); ++d) {
    op.axes.push_back({ir::Var::make(fmt::format("d{}", d)), from->shape[d]});
  }
  const ir::Buffer copy = ir::Buffer::make(name, from->dtype, from->shape);
  op.outputs = {copy};
  op.values = {ir::Load::make(from, vars_of(op.axes))};
  int first = static_cast<int>(state.stages.size());
  for (const std::string& reader : readers) {
    TESSERA_TRY(Stage* const s, state.stage(reader));
    bool reads = false;
    for (const ir::Expr& v : s->op.values) reads = reads || ir::reads_buffer(v, from);
    if (!reads) return illegal("stage {} does not read {}", reader, buffer);
    first = std::min(first, state.index_of(reader));
  }
  for (const std::string& reader : readers) {
    for (ir::Expr& v : state.find(reader)->op.values) v = ReplaceBuffer(from, copy)(v);
  }
  Stage stage = make_stage(std::move(op));
  stage.scope = scope;
  state.stages.insert(state.stages.begin() + first, std::move(stage));
  return {};
}

Result<Step> parse_cache_read(ArgReader& args) {
  CacheRead s;
  TESSERA_TRY(s.buffer, args.word("tensor"));
  TESSERA_TRY(s.scope, args.word("scope"));
  s.readers = args.rest();
  return Step(s);
}

std::string CacheWrite::args() const { return fmt::format("{} {}", stage, scope); }

Result<void> CacheWrite::apply(State& state) const {
  TESSERA_DO(check_scope(scope));
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_DO(check_untouched(state, *s));
  const std::string name = stage + "." + scope;
  TESSERA_DO(check_free_name(state, name));
  te::Op inner = move_computation(*s, name);
  const Attach attach = s->attach;
  const std::string kept = s->scope;
  *s = make_stage(s->op);
  s->attach = attach;
  s->scope = kept;
  Stage cache = make_stage(std::move(inner));
  cache.scope = scope;
  state.stages.insert(state.stages.begin() + state.index_of(stage), std::move(cache));
  return {};
}

Result<Step> parse_cache_write(ArgReader& args) {
  CacheWrite s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.scope, args.word("scope"));
  return Step(s);
}

std::string RFactor::args() const { return fmt::format("{} {} {}", stage, iter, axis); }

Result<void> RFactor::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  TESSERA_TRY(const int factored, s->find_leaf(iter));
  if (!s->iters[static_cast<std::size_t>(factored)].reduce)
    return illegal("loop {} is not a reduction", iter);
  const std::size_t rank = s->op.axes.size();
  if (axis < 0 || axis > static_cast<int>(rank))
    return illegal("axis {} is outside 0..{}", axis, rank);
  std::string name =
      stage + ".rf";  // then .rf2, .rf3: a reduction may be factored in several steps
  for (int i = 2; !check_free_name(state, name).ok(); ++i) name = fmt::format("{}.rf{}", stage, i);
  std::vector<std::int64_t> roots;
  for (std::size_t i = 0; i < rank + s->op.reduce_axes.size(); ++i)
    roots.push_back(s->iters[i].extent);
  for (std::size_t i = 0; i < rank; ++i) {
    if (s->position(static_cast<int>(i)) < 0)
      return illegal("axis {} of {} is split already", s->iters[i].name, stage);
  }
  for (const Stage& other : state.stages) {
    if (other.attach.kind == Attach::Kind::kAt && other.attach.stage == stage) {
      return illegal("stage {} is computed at {}", other.name(), stage);
    }
  }

  // Every reduce leaf becomes a variable of the partial stage; the factored one an axis of its
  // output.
  te::Op partial{.name = name, .reducer = s->op.reducer};
  te::Op total{
      .name = stage, .axes = s->op.axes, .reducer = s->op.reducer, .outputs = s->op.outputs};
  partial.axes = fresh_axes(s->op.axes);
  std::vector<ir::Expr> leaf_vars(s->iters.size());
  for (std::size_t i = 0; i < rank; ++i) leaf_vars[i] = partial.axes[i].var;
  te::Axis kept;
  const std::vector<std::int64_t> extents = iter_extents(*s, roots);
  for (const int id : s->leaves) {
    const Iter& it = s->iters[static_cast<std::size_t>(id)];
    if (!it.reduce) continue;
    const te::Axis a{ir::Var::make(it.name), extents[static_cast<std::size_t>(id)]};
    leaf_vars[static_cast<std::size_t>(id)] = a.var;
    if (id == factored) {
      kept = a;
    } else {
      partial.reduce_axes.push_back(a);
    }
  }
  if (partial.reduce_axes.empty())
    return illegal("nothing is left to reduce before {}; split it first", iter);
  const IterMap map = map_iters(*s, extents, leaf_vars);
  ir::VarMap substitution;
  for (std::size_t i = 0; i < rank; ++i) substitution[s->op.axes[i].var.get()] = map.values[i];
  for (std::size_t i = 0; i < s->op.reduce_axes.size(); ++i) {
    substitution[s->op.reduce_axes[i].var.get()] = map.values[rank + i];
  }
  partial.axes.insert(partial.axes.begin() + axis, kept);
  std::vector<std::int64_t> shape;
  for (const te::Axis& a : partial.axes) shape.push_back(a.extent);
  const te::Axis last{ir::Var::make(kept.var.as<ir::Var>()->name), kept.extent};
  total.reduce_axes = {last};
  std::vector<ir::Expr> read = vars_of(total.axes);
  read.insert(read.begin() + axis, last.var);
  for (std::size_t o = 0; o < s->op.values.size(); ++o) {
    ir::Expr value = ir::substitute(s->op.values[o], substitution);
    for (const Guard& g : map.guards) {
      value = ir::select(ir::lt(g.value, ir::int_imm(g.extent)), value,
                         te::identity(s->op.reducer, s->op.outputs[o]->dtype, o));
    }
    partial.values.push_back(value);
    partial.outputs.push_back(
        ir::Buffer::make(o == 0 ? partial.name : fmt::format("{}.{}", partial.name, o),
                         s->op.outputs[o]->dtype, shape));
    total.values.push_back(ir::Load::make(partial.outputs.back(), read));
  }
  const Attach attach = s->attach;
  *s = make_stage(std::move(total));
  s->attach = attach;
  state.stages.insert(state.stages.begin() + state.index_of(stage), make_stage(std::move(partial)));
  return {};
}

Result<Step> parse_rfactor(ArgReader& args) {
  RFactor s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(s.axis, args.small_number("axis"));
  return Step(s);
}

}  // namespace tessera::schedule
