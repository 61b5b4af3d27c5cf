#include "tessera/scheduling/lower/build_loop_nest.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/lower/bind_threads.h"
#include "tessera/scheduling/lower/check_threads.h"
#include "tessera/scheduling/lower/free_edges.h"
#include "tessera/scheduling/lower/prefetch.h"
#include "tessera/scheduling/lower/reduce_threads.h"
#include "tessera/scheduling/lower/stage_domains.h"
#include "tessera/scheduling/schedule/nest.h"
#include "tessera/scheduling/schedule/storage.h"
#include "tessera/support/planted.h"

namespace tessera::lower {
namespace {

using schedule::Annotation;
using schedule::Attach;
using schedule::Stage;
using schedule::State;

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

// Temporaries up to this size live on the stack, where they can become registers.
constexpr std::int64_t kMaxStackBytes = 16384;
// Elements of an accumulator tile; more than any register file holds, small enough for L1.
constexpr std::int64_t kMaxAccumulators = 1024;

ir::LoopKind loop_kind(const schedule::Iter& it) {
  switch (it.annotation) {
    case Annotation::kNone:
      return ir::LoopKind::kSerial;
    case Annotation::kTensorize: {
      // The rows of a tile register, of which the last may have fewer.
      const auto* row = target::find_matrix(it.intrinsic);
      const bool rows = row && row->operands == target::Operands::kTileRegisters;
      return rows ? ir::LoopKind::kSerial : ir::LoopKind::kUnrolled;
    }
    case Annotation::kUnroll:
      return ir::LoopKind::kUnrolled;
    case Annotation::kVectorize:
      return ir::LoopKind::kVectorized;
    case Annotation::kParallel:
      return ir::LoopKind::kParallel;
    case Annotation::kVThread:
      return ir::LoopKind::kVThread;
    case Annotation::kBlockX:
      return ir::LoopKind::kBlockX;
    case Annotation::kBlockY:
      return ir::LoopKind::kBlockY;
    case Annotation::kBlockZ:
      return ir::LoopKind::kBlockZ;
    case Annotation::kThreadX:
      return ir::LoopKind::kThreadX;
    case Annotation::kThreadY:
      return ir::LoopKind::kThreadY;
    case Annotation::kThreadZ:
      return ir::LoopKind::kThreadZ;
  }
  return ir::LoopKind::kSerial;
}

// Where a tensor of the Dag lives: its storage, the origin of the stored region and the storage
// order.
struct Storage {
  ir::Buffer buffer;
  std::vector<ir::Expr> mins;
  const schedule::Layout* layout = nullptr;

  std::vector<ir::Expr> index(std::vector<ir::Expr> indices) const {
    for (std::size_t d = 0; d < mins.size(); ++d) {
      if (!ir::is_const_int(mins[d], 0)) indices[d] = indices[d] - mins[d];
    }
    if (!layout) return indices;
    std::vector<ir::Expr> out;
    for (const schedule::LayoutDim& d : *layout) {
      ir::Expr e = indices[idx(d.dim)];
      if (d.divisor != 1) e = ir::floor_div(e, ir::int_imm(d.divisor));
      if (d.modulus != 0) e = ir::floor_mod(e, ir::int_imm(d.modulus));
      out.push_back(e);
    }
    return out;
  }
};

class NestBuilder {
 public:
  NestBuilder(const State& state, Domains domains, std::int64_t warp)
      : state_(state), domains_(std::move(domains)) {
    attrs_.warp = warp;
  }

  Result<LoopNest> run() {
    LoopNest nest;
    nest.func.name = state_.dag.name;
    for (const te::Input& in : state_.dag.inputs) {
      const auto layout = state_.layouts.find(in.buffer);
      Storage storage{.buffer = in.buffer};
      nest.param_layouts.emplace_back();
      if (layout != state_.layouts.end()) {
        storage.layout = &layout->second;
        storage.buffer = ir::Buffer::make(in.buffer->name, in.buffer->dtype,
                                          schedule::layout_shape(layout->second, in.buffer->shape));
        nest.param_layouts.back() = layout->second;
      }
      storage_[in.buffer] = storage;
      nest.func.params.push_back(storage.buffer);
    }
    for (const ir::Buffer& b : state_.dag.outputs) {
      nest.func.params.push_back(b);
      nest.param_layouts.emplace_back();
      storage_[b] = Storage{.buffer = b};
    }
    nest.func.num_outputs = static_cast<int>(state_.dag.outputs.size());

    std::vector<const Stage*> roots;
    for (const Stage& s : state_.stages) {
      if (s.attach.kind == Attach::Kind::kRoot) roots.push_back(&s);
    }
    nest.func.body = place(roots, {}, {});
    if (error_) return *error_;
    nest.attrs = std::move(attrs_);
    return nest;
  }

 private:
  // Allocates the temporaries of `stages`, then runs `body`, the stages in order and what `rest`
  // emits. The rest comes last: it reads the storage of the stages.
  ir::Stmt place(const std::vector<const Stage*>& stages, std::vector<ir::Stmt> body,
                 const std::function<ir::Stmt()>& rest) {
    std::vector<ir::Buffer> temporaries;
    for (const Stage* s : stages) make_storage(*s, &temporaries);
    for (const Stage* s : stages) {
      const bool launch = attrs_.warp > 0 && s->attach.kind == Attach::Kind::kRoot;
      body.push_back(launch ? emit_launch(*s) : emit_stage(*s));
    }
    if (rest) body.push_back(rest());
    ir::Stmt out = ir::Block::make(std::move(body));
    for (std::size_t i = temporaries.size(); i-- > 0;) {
      out = ir::Allocate::make(temporaries[i], out);
    }
    return out;
  }

  ir::Stmt emit_launch(const Stage& stage) {
    shape_ = launch_shape(state_, domains_, stage);
    cooperative_.clear();
    const ir::Stmt out = bind_threads(emit_stage(stage), shape_, cooperative_, set_);
    attrs_.launches[out.as<ir::For>()->var.get()] = stage.name();
    return out;
  }

  void make_storage(const Stage& stage, std::vector<ir::Buffer>* temporaries) {
    const StageDomain& d = domains_.of.at(&stage);
    for (const ir::Buffer& b : stage.op.outputs) {
      if (storage_.count(b)) continue;  // an output of the Dag
      std::vector<std::int64_t> shape = d.stored;
      Storage storage{.mins = d.mins};
      if (const auto layout = state_.layouts.find(b); layout != state_.layouts.end())
        storage.layout = &layout->second;
      schedule::align_strides(stage, storage.layout, &shape);
      if (storage.layout) shape = schedule::layout_shape(*storage.layout, shape);
      std::int64_t bytes = size_bytes(b->dtype);
      for (const std::int64_t e : shape) bytes *= e;
      // The threads of a warp hold it together.
      if (inside_instruction(stage, stage.leaves.size())) bytes /= attrs_.warp;
      const bool shared = stage.scope == "shared";
      const bool stack = bytes <= kMaxStackBytes && stage.attach.kind == Attach::Kind::kAt;
      if (attrs_.warp > 0 && stage.attach.kind == Attach::Kind::kAt && !shared && !stack &&
          !error_) {
        error_ = make_error(ErrorCode::kIllegalSchedule,
                            "stage {} needs {} bytes in every thread, more than {}", stage.name(),
                            bytes, kMaxStackBytes);
      }
      storage.buffer = ir::Buffer::make(b->name, b->dtype, shape,
                                        shared  ? ir::Scope::kShared
                                        : stack ? ir::Scope::kStack
                                                : ir::Scope::kHeap);
      temporaries->push_back(storage.buffer);
      if (shared) note_set(d, storage);
      storage_[b] = std::move(storage);
    }
  }

  // Rows that are longer than what is stored, and blocks of a layout, have elements that no one
  // sets.
  void note_set(const StageDomain& d, const Storage& storage) {
    const bool cut = d.edges == StageDomain::Edges::kGuard &&
                     std::any_of(d.conditions.begin(), d.conditions.end(),
                                 [](const Condition& c) { return c.edge; });
    std::vector<std::int64_t> extents = d.extents;
    for (std::size_t i = 0; storage.layout && i < storage.layout->size(); ++i) {
      const schedule::LayoutDim& dim = (*storage.layout)[i];
      if (storage.layout->size() != d.extents.size() || dim.divisor != 1 || dim.modulus != 0)
        return;
      extents[i] = d.extents[idx(dim.dim)];
    }
    if (!cut) set_[storage.buffer] = std::move(extents);
  }

  // Loads of Dag tensors become loads of their storage. `clamp`: the stage runs past the end of its
  // axes.
  class Access final : public ir::Mutator {
   public:
    Access(const NestBuilder& nest, bool clamp) : nest_(nest), clamp_(clamp) {}

   private:
    using ir::Mutator::rewrite;
    ir::Expr rewrite(const ir::Expr& e, const ir::Load& load) override {
      const ir::Expr inner = Mutator::rewrite(e, load);
      const auto* node = inner.as<ir::Load>();
      std::vector<ir::Expr> indices = node->indices;
      for (std::size_t d = 0; clamp_ && d < indices.size(); ++d) {
        indices[d] = clamp_index(indices[d], node->buffer->shape[d], nest_.domains_.ranges);
      }
      const Storage& s = nest_.storage_.at(node->buffer);
      return ir::Load::make(s.buffer, s.index(std::move(indices)));
    }
    const NestBuilder& nest_;
    bool clamp_;
  };

  using Index = std::vector<ir::Expr>;

  // One stage while it is emitted.
  struct Emit {
    const Stage& stage;
    const StageDomain& domain;
    int first_reduce =
        -1;  // position of the first reduce loop (behind all when there is none), -1: no reduction
    int cross = -1;          // position of a reduce loop bound to threads
    int accumulate_at = -1;  // position from which the tile lives in accumulators, -1: nowhere
    std::vector<ir::Buffer> targets;  // where values are stored at the moment
    std::vector<Index> target_index;  // per target: layouts may differ
  };

  ir::Stmt emit_stage(const Stage& stage) {
    const StageDomain& d = domains_.of.at(&stage);
    Emit e{.stage = stage, .domain = d};
    for (std::size_t p = 0; p < stage.leaves.size(); ++p) {
      if (stage.iters[idx(stage.leaves[p])].reduce && e.first_reduce < 0)
        e.first_reduce = static_cast<int>(p);
    }
    const bool no_reduce_loop = stage.op.reducer != te::Reducer::kNone && e.first_reduce < 0;
    if (no_reduce_loop) e.first_reduce = static_cast<int>(stage.leaves.size());
    for (const ir::Buffer& b : stage.op.outputs) {
      const Storage& s = storage_.at(b);
      e.targets.push_back(s.buffer);
      Storage local{.buffer = s.buffer,
                    .layout = s.layout};  // local_index is already relative to the region
      e.target_index.push_back(local.index(d.local_index));
    }
    for (std::size_t p = 0; p < stage.leaves.size(); ++p) {
      const schedule::Iter& it = stage.iters[idx(stage.leaves[p])];
      if (it.reduce && schedule::is_thread(it.annotation)) e.cross = static_cast<int>(p);
    }
    e.accumulate_at = choose_accumulation(e);
    if (e.cross >= 0 && (e.accumulate_at < 0 || e.accumulate_at > e.cross) && !error_) {
      error_ = make_error(ErrorCode::kIllegalSchedule,
                          "stage {}: loops over its axes inside the reduction over threads must be "
                          "unrolled, and hold at most {} elements",
                          stage.name(), kMaxAccumulators);
    }
    note_attrs(e);
    return guard(e, -1, false, emit_at(e, 0));
  }

  bool is_tile_loop(const Emit& e, std::size_t p) const {
    const schedule::Iter& it = e.stage.iters[idx(e.stage.leaves[p])];
    return !it.reduce &&
           (it.annotation == Annotation::kUnroll || it.annotation == Annotation::kVectorize ||
            it.annotation == Annotation::kTensorize || inside_instruction(e.stage, p) ||
            e.domain.iter_extents[idx(e.stage.leaves[p])] == 1);
  }

  // Loops inside one that becomes an instruction of a warp belong to it.
  bool inside_instruction(const Stage& stage, std::size_t p) const {
    return attrs_.warp > 0 &&
           std::any_of(
               stage.leaves.begin(), stage.leaves.begin() + static_cast<std::ptrdiff_t>(p),
               [&](int id) { return stage.iters[idx(id)].annotation == Annotation::kTensorize; });
  }

  bool has_attached(const Stage& stage, int iter) const {
    return std::any_of(state_.stages.begin(), state_.stages.end(), [&](const Stage& s) {
      return s.attach.kind == Attach::Kind::kAt && s.attach.stage == stage.name() &&
             s.attach.iter == iter;
    });
  }

  // The first position from which only reduce loops and unrolled or vectorized spatial loops
  // follow, if a reduce loop is among them and the target is not in registers already.
  int choose_accumulation(const Emit& e) const {
    if (e.first_reduce < 0) return -1;
    const std::size_t n = e.stage.leaves.size();
    bool all_tile = true;
    std::size_t start = n;
    bool reduces = false;
    std::int64_t elements = 1;
    for (std::size_t p = n; p-- > 0;) {
      const int id = e.stage.leaves[p];
      const bool reduce = e.stage.iters[idx(id)].reduce;
      if (!reduce && !is_tile_loop(e, p)) all_tile = false;
      if (start != p + 1) continue;
      if (static_cast<int>(p) < e.first_reduce) continue;
      if (!reduce && (!is_tile_loop(e, p) || has_attached(e.stage, id))) continue;
      if (!reduce) elements *= e.domain.iter_extents[idx(id)];
      reduces = reduces || reduce;
      start = p;
    }
    for (const te::Axis& a : e.stage.op.reduce_axes) {
      if (a.extent == 0) return -1;  // the loops that would set the accumulators never run
    }
    if (!reduces || elements > kMaxAccumulators) return -1;
    if (all_tile && e.cross < 0 && e.targets[0]->scope == ir::Scope::kStack) return -1;
    return static_cast<int>(start);
  }

  void note_attrs(const Emit& e) {
    for (const auto& [id, steps] : e.stage.auto_unroll) {
      if (e.domain.leaf_vars[idx(id)])
        attrs_.auto_unroll[e.domain.leaf_vars[idx(id)].get()] = steps;
    }
    for (const auto& [id, pipeline] : e.stage.pipeline) {
      if (e.domain.leaf_vars[idx(id)])
        attrs_.pipeline[e.domain.leaf_vars[idx(id)].get()] = pipeline;
    }
    for (const int id : e.stage.leaves) {
      const schedule::Iter& it = e.stage.iters[idx(id)];
      if (it.annotation == Annotation::kTensorize)
        attrs_.tensorize[e.domain.leaf_vars[idx(id)].get()] = it.intrinsic;
    }
    if (e.stage.scope == "shared") {
      const Cooperative c{.stage = static_cast<int>(&e.stage - state_.stages.data()),
                          .dims = thread_dims(e.stage)};
      for (const int id : e.stage.leaves) cooperative_[e.domain.leaf_vars[idx(id)].get()] = c;
    }
    for (const schedule::Relation& r : e.stage.relations) {
      if (r.kind != schedule::Relation::Kind::kSplit || r.tail != schedule::Tail::kPeel) continue;
      // In the last outer part, the parts inside are cut in turn.
      for (std::size_t i = 0; i + 1 < r.to.size(); ++i) note_peel(e, r.to[i]);
    }
  }

  // The loop that carries part `id` of a peeled split: itself, or the loop it was fused or split
  // into.
  void note_peel(const Emit& e, int id) {
    if (e.domain.leaf_vars[idx(id)]) {
      attrs_.peel.insert(e.domain.leaf_vars[idx(id)].get());
      return;
    }
    for (const schedule::Relation& r : e.stage.relations) {
      if (std::find(r.from.begin(), r.from.end(), id) != r.from.end()) note_peel(e, r.to.front());
    }
  }

  static ir::Stmt guard(const Emit& e, int level, bool initial, ir::Stmt body) {
    ir::Expr all;
    for (const Condition& c : e.domain.conditions) {
      if (c.level != level || (initial && c.reduce) || c.moot) continue;
      if (c.edge && e.domain.edges != StageDomain::Edges::kGuard) continue;
      all = all ? ir::logical_and(all, c.expr) : c.expr;
    }
    return all ? ir::If::make(all, std::move(body)) : body;
  }

  // Loops over the spatial positions from `start` on around `inner`.
  ir::Stmt spatial_nest(const Emit& e, int start, ir::Stmt inner) const {
    ir::Stmt out = std::move(inner);
    for (std::size_t p = e.stage.leaves.size(); p-- > idx(start);) {
      const int id = e.stage.leaves[p];
      if (e.stage.iters[idx(id)].reduce) continue;
      out = guard(e, static_cast<int>(p), true, out);
      // A tensorized reduction is set and written back by plain loops.
      out = ir::For::make(e.domain.leaf_vars[idx(id)], e.domain.iter_extents[idx(id)],
                          loop_kind(e.stage.iters[idx(id)]), out);
    }
    return out;
  }

  ir::Stmt initial_stores(const Emit& e) const {
    std::vector<ir::Stmt> stores;
    const te::Reducer reducer = planted(9) && e.stage.op.reducer == te::Reducer::kMax
                                    ? te::Reducer::kSum
                                    : e.stage.op.reducer;
    for (std::size_t o = 0; o < e.targets.size(); ++o) {
      stores.push_back(ir::Store::make(e.targets[o], e.target_index[o],
                                       te::identity(reducer, e.targets[o]->dtype, o)));
    }
    return ir::Block::make(std::move(stores));
  }

  ir::Stmt emit_at(Emit& e, int p) {
    if (p == e.accumulate_at) return accumulate(e, p);
    if (p == e.first_reduce && e.accumulate_at < 0) {
      return ir::Block::make({spatial_nest(e, p, initial_stores(e)), emit_loops(e, p)});
    }
    return emit_loops(e, p);
  }

  ir::Stmt emit_loops(Emit& e, int p) {
    if (p == static_cast<int>(e.stage.leaves.size())) return update_stores(e);
    const int id = e.stage.leaves[idx(p)];
    const ir::Expr& var = e.domain.leaf_vars[idx(id)];
    std::vector<const Stage*> attached;
    for (const Stage& s : state_.stages) {
      if (s.attach.kind == Attach::Kind::kAt && s.attach.stage == e.stage.name() &&
          s.attach.iter == id) {
        attached.push_back(&s);
      }
    }
    const Reads reads{[this](const ir::Buffer& b) { return storage_.count(b) > 0; },
                      [this](const ir::Expr& load) { return Access(*this, false)(load); }};
    const ir::Stmt out = place(attached, prefetches(state_, domains_, e.stage, id, reads),
                               [&] { return emit_at(e, p + 1); });
    return ir::For::make(var, e.domain.iter_extents[idx(id)], loop_kind(e.stage.iters[idx(id)]),
                         guard(e, p, false, out));
  }

  // From position p on, the tile lives in a stack buffer that becomes registers.
  ir::Stmt accumulate(Emit& e, int p) {
    std::vector<std::int64_t> shape;
    std::vector<ir::Expr> index;
    ir::Expr first = ir::bool_imm(true);  // no reduce loop outside has run an iteration before
    for (std::size_t q = 0; q < e.stage.leaves.size(); ++q) {
      const int id = e.stage.leaves[q];
      const ir::Expr& var = e.domain.leaf_vars[idx(id)];
      const std::int64_t extent = e.domain.iter_extents[idx(id)];
      if (static_cast<int>(q) >= p && !e.stage.iters[idx(id)].reduce) {
        shape.push_back(extent);
        index.push_back(var);
      } else if (static_cast<int>(q) < p && e.stage.iters[idx(id)].reduce && extent > 1) {
        first = ir::logical_and(first, ir::eq(var, ir::int_imm(0)));
      }
    }
    if (shape.empty()) {
      shape.push_back(1);
      index.push_back(ir::int_imm(0));
    }
    const std::vector<ir::Buffer> memory = e.targets;
    const std::vector<Index> memory_index = e.target_index;
    std::vector<ir::Expr> old, tile;
    for (std::size_t o = 0; o < memory.size(); ++o) {
      ir::Buffer& t = e.targets[o];
      old.push_back(ir::Load::make(t, memory_index[o]));
      t = ir::Buffer::make(t->name + ".acc", t->dtype, shape, ir::Scope::kStack);
      tile.push_back(ir::Load::make(t, index));
    }
    e.target_index.assign(memory.size(), index);
    const std::vector<ir::Buffer> accumulators = e.targets;
    // Memory is read after the loops, not before: its latency then hides behind the next tile.
    ir::Stmt write_back = spatial_nest(e, p, stores(memory, memory_index, tile));
    if (!ir::is_const_int(first, 1)) {
      const std::vector<ir::Expr> both = te::combine(e.stage.op.reducer, old, tile);
      write_back =
          ir::If::make(first, write_back, spatial_nest(e, p, stores(memory, memory_index, both)));
    }
    std::vector<ir::Stmt> parts;
    if (!ir::is_const_int(first, 1)) parts.push_back(prefetch_tile(e.stage, e.domain, p, old));
    parts.insert(parts.end(), {spatial_nest(e, p, initial_stores(e)), emit_loops(e, p)});
    if (e.cross >= 0) parts.push_back(reduce_threads(e, p));
    parts.push_back(write_back);
    ir::Stmt out = ir::Block::make(std::move(parts));
    e.targets = memory;
    e.target_index = memory_index;
    for (const ir::Buffer& acc : accumulators) out = ir::Allocate::make(acc, out);
    return out;
  }

  // Every thread holds a partial result; afterwards, the whole one.
  ir::Stmt reduce_threads(const Emit& e, int p) {
    const int id = e.stage.leaves[idx(e.cross)];
    ThreadReduction r{.shape = shape_,
                      .warp = attrs_.warp,
                      .dim = thread_dim(e.stage.iters[idx(id)].annotation),
                      .extent = e.domain.iter_extents[idx(id)],
                      .reducer = e.stage.op.reducer,
                      .accumulators = e.targets,
                      .index = e.target_index[0],
                      .name = e.stage.name()};
    ThreadExchange exchange = lower::reduce_threads(r);
    // All threads take part, also those whose loops ended before.
    const auto together = [&](const ir::Stmt& s) {
      const ir::Expr once = ir::Var::make("all");
      once_.push_back(once);
      cooperative_[once.get()] = {.stage = static_cast<int>(state_.stages.size() + once_.size()),
                                  .dims = kAllThreadDims,
                                  .apart = kAllThreadDims};
      return ir::For::make(once, 1, ir::LoopKind::kSerial, spatial_nest(e, p, s));
    };
    std::vector<ir::Stmt> steps;
    for (const ir::Stmt& s : exchange.steps) steps.push_back(together(s));
    ir::Stmt out = ir::Block::make(std::move(steps));
    for (const ir::Buffer& b : exchange.shared) out = ir::Allocate::make(b, out);
    return out;
  }

  ir::Stmt update_stores(const Emit& e) const {
    const te::Op& op = e.stage.op;
    const bool clamp = e.domain.padded();
    std::vector<ir::Expr> values, old;
    for (std::size_t o = 0; o < op.values.size(); ++o) {
      values.push_back(Access(*this, clamp)(ir::substitute(op.values[o], e.domain.axis_values)));
      if (op.reducer != te::Reducer::kNone)
        old.push_back(ir::Load::make(e.targets[o], e.target_index[o]));
    }
    if (op.reducer != te::Reducer::kNone) values = te::combine(op.reducer, old, values);
    ir::Expr inside;
    for (const Condition& c : e.domain.conditions) {
      if (c.edge) inside = inside ? ir::logical_and(inside, c.expr) : c.expr;
    }
    for (ir::Expr& v : values) {
      if (e.domain.edges == StageDomain::Edges::kFill)
        v = ir::select(inside, v, ir::zero(v.type()));
    }
    return stores(e.targets, e.target_index, values);
  }

  // The index of an arg reduction depends on the old value, so it is stored first.
  static ir::Stmt stores(const std::vector<ir::Buffer>& targets, const std::vector<Index>& index,
                         const std::vector<ir::Expr>& values) {
    std::vector<ir::Stmt> out;
    for (std::size_t o = values.size(); o-- > 0;)
      out.push_back(ir::Store::make(targets[o], index[o], values[o]));
    return ir::Block::make(std::move(out));
  }

  const State& state_;
  Domains domains_;
  std::map<ir::Buffer, Storage> storage_;
  LoopAttrs attrs_;
  std::optional<Error> error_;
  LaunchShape shape_;  // of the launch that is being emitted
  CooperativeLoops cooperative_;
  SetExtents set_;
  std::vector<ir::Expr> once_;  // keeps the keys of cooperative_ alive
};

// Lanes run in lockstep: nothing inside a vectorized loop can be distributed over threads.
Result<void> check_parallel_nesting(const State& state) {
  for (const Stage& stage : state.stages) {
    int end = -1;  // position of the innermost parallel loop
    for (const int id : stage.leaves) {
      if (stage.iters[idx(id)].annotation == Annotation::kParallel) end = stage.position(id);
    }
    if (end < 0) continue;
    std::vector<schedule::NestLoop> outside = schedule::loops_around(state, stage);
    for (int p = 0; p < end; ++p) outside.push_back({&stage, stage.leaves[idx(p)]});
    for (const schedule::NestLoop& l : outside) {
      if (l.it().annotation != Annotation::kVectorize) continue;
      return make_error(ErrorCode::kIllegalSchedule,
                        "parallel loop {} of {} runs inside vectorized loop {} of {}",
                        stage.iters[idx(stage.leaves[idx(end)])].name, stage.name(), l.it().name,
                        l.stage->name());
    }
  }
  return {};
}

}  // namespace

Result<LoopNest> build_loop_nest(const State& state, std::int64_t warp) {
  TESSERA_DO(check_parallel_nesting(state));
  if (warp > 0) TESSERA_DO(check_threads(state));
  TESSERA_TRY(Domains domains, infer_domains(state));
  if (warp > 0) free_edges(state, &domains);
  return NestBuilder(state, std::move(domains), warp).run();
}

}  // namespace tessera::lower
