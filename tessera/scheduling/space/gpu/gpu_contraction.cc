#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "tessera/lang/ir/shared_places.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/gpu/gpu_operand.h"
#include "tessera/scheduling/space/gpu/gpu_own_copy.h"
#include "tessera/scheduling/space/gpu/gpu_split_k.h"
#include "tessera/scheduling/space/gpu/gpu_tensor.h"
#include "tessera/scheduling/space/gpu/gpu_tile.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/tile.h"
#include "tessera/scheduling/space/transform.h"

namespace tessera::space {
namespace {

constexpr std::int64_t kCopyBytes = kGpuCopyBytes, kBanks = kGpuBanks;
constexpr std::int64_t kStagedOutputs = 64;
constexpr std::int64_t kFewBlocks = 4;

// An operand on its way through shared memory. What is transposed has its rows last, each copied to
// where it belongs.
struct Operand : GpuOperand {
  bool shared = false;
  bool constant = false;  // then the buffer itself can be stored in that order
};

class GpuContraction {
 public:
  GpuContraction(Context& context, Contraction c, Nest nest)
      : context_(context),
        product_(std::move(c)),
        nest_(std::move(nest)),
        stage_(context.stage(product_.stage)),
        nest_stage_(context.stage(nest_.stage)),
        self_(nest_.stage == product_.stage),
        cut_(choose_cut()) {
    if (!product_.rows.empty()) {
      outer_ = static_cast<int>(product_.rows.back());
      product_.rows.pop_back();
    }
    operand_a_ = make_operand(product_.a, cut_);
    operand_b_ = make_operand(product_.b, product_.vector);
    transposed_a_ = turn(operand_a_);
  }

  void run() {
    choose();
    if (tile_.groups > 1) return run_groups();
    sum_ = staged() ? stage_gpu_sum(context_, product_, nest_, cut_)
                    : cut_gpu_sum(context_, product_, nest_, cut_, tile_.split_k);
    for (const Operand* o : {&operand_a_, &operand_b_}) begin_copy(*o);
    if (staged()) write_results();
    write_launch();
    write_copies(write_sums());
    if (tile_.split_k > 1) add_split_k(context_, product_, nest_, sum_.part);
  }

 private:
  // Groups of threads have partial sums, which meet in shared memory; where blocks have parts of
  // the sum, too, a second launch adds those.
  void run_groups() {
    Writer& w = context_.writer;
    sum_.launch = nest_stage_.op.name;
    std::string whole = name(), along = stage_.axis_name(cut_), part;
    if (tile_.split_k > 1) {
      const Loops loops =
          w.split(whole, along, {stage_.extent(cut_) / tile_.split_k}, schedule::Tail::kGuard);
      part = loops[0];
      along = loops[1];
      sum_.launch = whole = w.rfactor(whole, part, 0);
    }
    const Loops cut =
        w.split(whole, along, {tile_.groups, tile_.steps / tile_.groups}, schedule::Tail::kGuard);
    sum_.part = cut[1];
    const std::string partial = w.rfactor(whole, sum_.part, 0);
    sum_.inner = w.cache_write(partial, "shared");
    w.compute_inline(partial);
    for (const Operand* o : {&operand_a_, &operand_b_}) begin_copy(*o);
    write_group_launch(part);
    write_group_sums(cut, part);
    write_copies(cut[0]);
    if (!part.empty()) add_split_k(context_, product_, nest_, part);
  }

  // Blocks, then all threads for the elements of a tile.
  void write_group_launch(const std::string& part) {
    Writer& w = context_.writer;
    Loops blocks = gpu_block_loops(context_, product_, nest_, part), inner;
    const bool self = self_ || !part.empty();
    const std::int64_t lanes = tile_.group_lanes();
    std::string lane;
    const auto split = [&](int axis, std::vector<std::int64_t> lengths) {
      if (axis < 0) return;
      const Loops l = w.split(sum_.launch, axis_of(static_cast<std::size_t>(axis)),
                              std::move(lengths), schedule::Tail::kGuard);
      blocks.push_back(l[0]);
      inner.push_back(l[1]);
      lane = l.back();
    };
    split(outer_, {tile_.outer_length()});
    split(product_.row, {tile_.row_length()});
    split(static_cast<int>(product_.vector), {tile_.column_length() / lanes, lanes});
    Loops order = blocks;
    order.insert(order.end(), inner.begin(), inner.end());
    if (self) order.push_back(sum_.part);
    order.push_back(lane);
    w.reorder(sum_.launch, order);
    const std::string block = w.fuse(sum_.launch, blocks);
    w.annotate(sum_.launch, block, schedule::Annotation::kBlockX);
    const Loops parts =
        w.split(sum_.launch, w.fuse(sum_.launch, inner), {tile_.threads()}, schedule::Tail::kGuard);
    w.unroll(sum_.launch, parts[0]);
    w.annotate(sum_.launch, parts[1], schedule::Annotation::kThreadX);
    if (lanes > 1) w.vectorize(sum_.launch, lane);
    w.compute_at(sum_.inner, sum_.launch, block);
    if (self) {
      w.unroll(sum_.launch, sum_.part);
    } else {
      add_split_k_at(context_, product_, nest_, sum_.part, parts[1], lanes > 1);
    }
  }

  void write_group_sums(const Loops& cut, const std::string& part) {
    Writer& w = context_.writer;
    Loops order, virtuals, threads = {sum_.part};
    if (!part.empty()) order.push_back(part);
    for (std::size_t i = 0; i < stage_.rank(); ++i) {
      const bool tiled = i == product_.vector || static_cast<int>(i) == product_.row ||
                         static_cast<int>(i) == outer_;
      if (!tiled) order.push_back(stage_.axis_name(i));
    }
    const auto split = [&](int axis, std::vector<std::int64_t> lengths, std::int64_t count) {
      if (axis < 0) return Loops{};
      const Loops l = w.split(sum_.inner, stage_.axis_name(static_cast<std::size_t>(axis)),
                              std::move(lengths), schedule::Tail::kGuard);
      virtuals.push_back(l[0]);
      threads.push_back(l[1]);
      if (count > 1) w.annotate(sum_.inner, l[0], schedule::Annotation::kVThread);
      return l;
    };
    split(outer_, {tile_.outer_threads}, tile_.outer_rows);
    std::vector<std::int64_t> across = {tile_.row_threads};
    if (tile_.row_pairs()) across = {tile_.row_threads / kGpuPair, kGpuPair};
    if (tile_.row_lanes > 1) across.push_back(tile_.row_lanes);
    Loops row = split(product_.row, std::move(across), tile_.rows / tile_.row_lanes);
    Loops lanes;
    if (tile_.row_lanes > 1) {
      lanes.push_back(row.back());
      row.pop_back();
    }
    const std::string lane =
        split(static_cast<int>(product_.vector), {tile_.column_threads, tile_.lanes}, tile_.chunks)
            .back();
    if (tile_.row_pairs()) threads.push_back(row.back());
    Loops steps = {cut[2]};
    const std::int64_t each = tile_.steps / tile_.groups;
    if (problem_vectors() && each % 4 == 0 && each > 4)
      steps = w.split(sum_.inner, cut[2], {4}, schedule::Tail::kGuard);
    order.insert(order.end(), virtuals.begin(), virtuals.end());
    order.insert(order.end(), threads.begin(), threads.end());
    order.push_back(cut[0]);
    Loops unrolled = steps;
    std::int64_t body = each * tile_.outputs();
    for (std::size_t i = product_.reduce.size(); i-- > 0;) {
      if (product_.reduce[i] == cut_) continue;
      body *= stage_.extent(product_.reduce[i]);
      if (body <= limits::kGpuBody) unrolled.push_back(stage_.axis_name(product_.reduce[i]));
    }
    for (const std::size_t r : product_.reduce) {
      if (r != cut_) order.push_back(stage_.axis_name(r));
    }
    order.insert(order.end(), steps.begin(), steps.end());
    order.insert(order.end(), lanes.begin(), lanes.end());
    unrolled.insert(unrolled.end(), lanes.begin(), lanes.end());
    order.push_back(lane);
    w.reorder(sum_.inner, order);
    for (const std::string& loop : unrolled) w.unroll(sum_.inner, loop);
    w.annotate(sum_.inner, w.fuse(sum_.inner, threads), schedule::Annotation::kThreadX);
    if (tile_.lanes > 1) {
      w.vectorize(sum_.inner, lane);
    } else {
      w.unroll(sum_.inner, lane);
    }
  }

  const std::string& name() const { return stage_.op.name; }
  std::int64_t extent_of(int axis) const {
    return axis < 0 ? 1 : stage_.extent(static_cast<std::size_t>(axis));
  }

  // The reduce axis that goes through shared memory step by step: that of the vectors of `a` if it
  // is worth it, else the longest.
  std::size_t choose_cut() const {
    std::size_t out = product_.reduce.back();
    for (const std::size_t r : product_.reduce) {
      if (product_.a.strides[r] == 1 && stage_.extent(r) >= 8) return r;
      if (stage_.extent(r) > stage_.extent(out)) out = r;
    }
    return out;
  }

  // Stored so that the dimension of `along` comes last, where the copy may move it.
  Operand make_operand(const Access& a, std::size_t along) const {
    Operand o;
    o.access = &a;
    o.constant = context_.analysis.constant(a.buffer);
    std::size_t last = a.indices.size();
    for (std::size_t d = 0; d < a.indices.size(); ++d) {
      const auto& terms = a.indices[d].terms;
      const bool here = std::any_of(terms.begin(), terms.end(), [&](const IndexTerm& t) {
        return t.axis == along && t.coefficient == 1;
      });
      if (here) last = d;
    }
    const bool moves = last + 1 < a.indices.size() && (o.constant || along == product_.vector);
    // The other dimensions in the order of the reduce loops.
    for (std::size_t d = 0; d < a.indices.size(); ++d) {
      if (!moves || d != last) o.order.push_back(d);
    }
    if (moves && o.constant) {
      std::stable_sort(o.order.begin(), o.order.end(), [&](std::size_t x, std::size_t y) {
        return place_in_loops(a.indices[x]) < place_in_loops(a.indices[y]);
      });
    }
    if (moves) o.order.push_back(last);
    o.moved = moves;
    return o;
  }
  std::size_t place_in_loops(const Index& index) const {
    for (const IndexTerm& t : index.terms) {
      if (t.axis < stage_.rank()) return 0;
      for (std::size_t i = 0; i < product_.reduce.size(); ++i) {
        if (product_.reduce[i] == t.axis)
          return t.axis == cut_ ? product_.reduce.size() + 1 : i + 1;
      }
    }
    return 0;
  }
  // The dimension of the rows last, if a product has one and vectors along the sum lie in memory.
  Operand turn(Operand o) const {
    const Access& a = *o.access;
    if (o.moved || o.constant || product_.reduce.size() != 1 || outer_ >= 0 || product_.row < 0 ||
        a.buffer->dtype != DType::kF32 || a.strides[cut_] != 1)
      return o;
    for (std::size_t i = 0; i + 1 < o.order.size(); ++i) {
      if (a.indices[o.order[i]].single_axis() != product_.row) continue;
      std::rotate(o.order.begin() + static_cast<std::ptrdiff_t>(i),
                  o.order.begin() + static_cast<std::ptrdiff_t>(i) + 1, o.order.end());
      o.moved = o.transposed = true;
      break;
    }
    return o;
  }
  const Operand& left(const GpuTile& tile) const {
    return tile.row_lanes > 1 ? transposed_a_ : operand_a_;
  }
  bool sharable(const Operand& o) const {
    return product_.a.buffer != product_.b.buffer && o.access->regular();
  }

  // Elements of a dimension that a block needs for some steps; `whole`: as lowering makes room.
  std::int64_t span(const Access& a, std::size_t d, const GpuTile& tile, bool whole = false) const {
    std::int64_t out = 1;
    for (const IndexTerm& t : a.indices[d].terms) {
      std::int64_t length = t.axis < stage_.rank() ? 1 : stage_.extent(t.axis);
      if (t.axis == product_.vector) length = tile.column_length();
      if (static_cast<int>(t.axis) == product_.row) length = tile.row_length();
      if (static_cast<int>(t.axis) == outer_) length = tile.outer_length();
      if (t.axis == cut_) length = tile.steps;
      if (!whole) length = at_most(length, stage_.extent(t.axis));  // else of all threads
      out += std::abs(t.coefficient) * (length - 1);
    }
    return std::min(out, std::max<std::int64_t>(1, a.buffer->shape[d]));
  }
  std::int64_t pitch(const Operand& o, const GpuTile& tile, bool whole = false) const {
    const std::int64_t row = span(*o.access, o.order.back(), tile, whole);
    if (o.transposed) return row + (kBanks + kGpuTransposedPad - row % kBanks) % kBanks;
    return pads(o, tile) ? row + kCopyBytes / size_bytes(o.access->buffer->dtype) : row;
  }
  std::int64_t bytes_of(const Operand& o, const GpuTile& tile, bool whole = false,
                        std::int64_t stages = 1) const {
    std::int64_t out = stages * size_bytes(o.access->buffer->dtype) * pitch(o, tile, whole);
    for (std::size_t i = 0; i + 1 < o.order.size(); ++i)
      out *= span(*o.access, o.order[i], tile, whole);
    return whole_gpu_banks(out);
  }
  // Rows of `a` that the threads of a warp read at once would lie in the same banks.
  bool pads(const Operand& o, const GpuTile& tile) const {
    if (&o != &operand_a_ || o.moved || o.order.size() < 2 || o.access->strides[cut_] != 1)
      return false;
    const std::int64_t columns = tile.warp_tiles() ? kGpuWarpColumns : tile.column_threads;
    const std::int64_t apart = kBanks / std::min(kBanks, columns);
    const std::int64_t bytes =
        span(*o.access, o.order.back(), tile) * size_bytes(o.access->buffer->dtype);
    return bytes % kCopyBytes == 0 && apart > 1 && apart * bytes > 4 * kBanks &&
           bytes % (4 * kBanks / 2) == 0;
  }

  std::int64_t most_threads() const {
    return std::max<std::int64_t>(1, context_.target.gpu.block_threads);
  }
  std::int64_t shared_limit() const { return limits::gpu_shared_bytes(context_.target); }

  const char* refuse_threads() const {
    return tile_.threads() > most_threads() ? "more threads than a block has" : nullptr;
  }
  // Sums of a thread, and registers of all threads of a block.
  const char* refuse_sums() const {
    const bool fits =
        tile_.outputs() <= limits::kGpuSums &&
        limits::fits_gpu_registers(context_.target, tile_.registers(), tile_.threads());
    return tile_.outputs() <= tile_.lanes || fits ? nullptr : "more sums than registers";
  }

  GpuProblem problem() const {
    GpuProblem p{.outer = extent_of(outer_),
                 .row = extent_of(product_.row),
                 .column = stage_.extent(product_.vector),
                 .reduce = stage_.extent(cut_),
                 .vectors = product_.a.strides[cut_] == 1 || operand_a_.constant};
    for (const auto* axes : {&product_.batch, &product_.rows, &product_.columns}) {
      for (const std::size_t i : *axes) p.batch *= stage_.extent(i);
    }
    for (const std::size_t r : product_.reduce) p.taps *= r == cut_ ? 1 : stage_.extent(r);
    p.step_bytes = [this](const GpuTile& tile) {
      std::int64_t bytes = 0;
      for (const Operand* o : {&left(tile), &operand_b_})
        bytes += sharable(*o) ? bytes_of(*o, tile) : 0;
      return bytes;
    };
    // Tiles that are staged have no room for other blocks beside them, which smaller tiles need.
    p.transposes = transposed_a_.transposed && !odd_results();
    p.apart = [this](const GpuTile& tile) {
      const Operand& a = left(tile);
      return GpuProblem::Apart{shared_stride(a, outer_, tile),
                               tile.row_lanes * shared_stride(a, product_.row, tile)};
    };
    return p;
  }

  // Bytes from one element of an axis to the next in the copy of an operand.
  std::int64_t shared_stride(const Operand& o, int axis, const GpuTile& tile) const {
    const Access& a = *o.access;
    std::int64_t stride = size_bytes(a.buffer->dtype), out = 0;
    for (std::size_t i = o.order.size(); i-- > 0;) {
      for (const IndexTerm& t : a.indices[o.order[i]].terms) {
        if (static_cast<int>(t.axis) == axis) out += t.coefficient * stride;
      }
      stride *= i + 1 == o.order.size() ? pitch(o, tile) : span(a, o.order[i], tile);
    }
    return std::abs(out);
  }

  void choose() {
    const GpuProblem p = problem();
    const std::int64_t lanes = p.column >= 4 ? 4 : 1;
    GpuTile preferred{.lanes = lanes};
    if (!context_.chooser.listed(name(), "column_threads"))
      preferred = choose_gpu_tile(context_.target, p, lanes);
    tile_ = GpuTile{.lanes = lanes, .steps = 1, .pipeline_stages = 1};
    const auto number = [&](const char* what, std::int64_t GpuTile::*field, std::int64_t most,
                            const std::vector<std::int64_t>& values, const auto& refusal) {
      tile_.*field = context_.chooser.number(
          name(), what, PointKind::kThread, preferred.*field,
          [&] {
            std::vector<std::int64_t> out = {1};
            for (const std::int64_t v : values) {
              if (v > 1 && v <= most) out.push_back(v);
            }
            return out;
          },
          [&](std::int64_t n) {
            const std::int64_t before = std::exchange(tile_.*field, n);
            const char* why = refusal();
            tile_.*field = before;
            return why;
          });
    };
    const auto threads = [&] { return refuse_threads(); };
    const auto sums = [&] {
      const bool used = (tile_.outer_rows - 1) * tile_.outer_threads < p.outer &&
                        (tile_.rows - 1) * tile_.row_threads < p.row &&
                        (tile_.chunks - 1) * tile_.column_threads * lanes < p.column;
      return used ? refuse_sums() : "more than the axis has";
    };
    const std::int64_t columns = parts_of(p.column, lanes);
    if (outer_ >= 0)
      number("outer_threads", &GpuTile::outer_threads, p.outer, kGpuRowThreads, threads);
    if (product_.row >= 0)
      number("row_threads", &GpuTile::row_threads, p.row, kGpuRowThreads, threads);
    number("column_threads", &GpuTile::column_threads, columns, kGpuColumnThreads, threads);
    if (outer_ >= 0) number("outer_rows", &GpuTile::outer_rows, p.outer, kGpuRows, sums);
    if (product_.row >= 0) number("rows", &GpuTile::rows, p.row, kGpuRows, sums);
    if (p.transposes) choose_turn(preferred);
    number("chunks", &GpuTile::chunks, columns, kGpuChunks, sums);
    number("steps", &GpuTile::steps, p.reduce, kGpuSteps, [] { return nullptr; });
    number("groups", &GpuTile::groups, p.reduce, kGpuGroups, [&]() -> const char* {
      if (const char* why = refuse_groups(p, tile_.steps, tile_.groups)) return why;
      if (const char* why = tile_.groups > 1 ? refuse_threads() : nullptr) return why;
      if (tile_.groups > 1 && refuse_sums()) return refuse_sums();
      return lowered().exchange_bytes > shared_limit() ? "more than the shared memory of a block"
                                                       : nullptr;
    });
    choose_copies();
    if (may_own_copies())
      tile_.own = context_.chooser.flag(name(), "own_copies", PointKind::kCache, preferred.own);
    number("places", &GpuTile::pipeline_stages, kGpuPipelineStages.back(), kGpuPipelineStages,
           [&]() -> const char* {
             return shared_bytes() > shared_limit() ? "more than the shared memory of a block"
                                                    : nullptr;
           });
    number("parts", &GpuTile::split_k, p.reduce, kGpuSplitK,
           [&] { return refuse_split_k(p, tile_.steps, tile_.groups, tile_.split_k); });
    // What reasoning prefers may not fit.
    while (tile_.pipeline_stages > 1 && shared_bytes() > shared_limit()) --tile_.pipeline_stages;
  }

  void choose_turn(const GpuTile& preferred) {
    const char* why =
        tile_.rows % kGpuRowLanes == 0 ? nullptr : "rows of a thread that are not whole vectors";
    if (context_.chooser.flag(name(), "turn_a", PointKind::kCache, !why && preferred.row_lanes > 1,
                              [&](std::int64_t v) { return v == 1 ? why : nullptr; })) {
      tile_.row_lanes = kGpuRowLanes;
      operand_a_ = transposed_a_;
    }
  }

  GpuLowered lowered() const {
    const auto extent = [&](int axis) { return axis < 0 ? 0 : extent_of(axis); };
    const std::int64_t column = stage_.extent(product_.vector);
    return lower_gpu_tile(tile_, extent(outer_), extent(product_.row), column);
  }
  // As lowering allocates it: nothing is copied ahead of the only step.
  std::int64_t shared_bytes() const {
    const GpuLowered as = lowered();
    const std::int64_t stages =
        tile_.steps * tile_.split_k < stage_.extent(cut_) ? tile_.pipeline_stages : 1;
    std::int64_t early = 0, late = as.exchange_bytes + staged_bytes();
    for (const Operand* o : {&operand_a_, &operand_b_})
      early += o->shared ? bytes_of(*o, as.tile, true, stages) : 0;
    return as.in_turn ? ir::shared_in_turn(early, late) : early + late;
  }

  void choose_copies() {
    const auto share = [&](const char* what, Operand* o) {
      if (!sharable(*o)) return;
      o->shared = true;
      const bool fits = shared_bytes() <= shared_limit();
      o->shared = context_.chooser.flag(name(), what, PointKind::kCache, fits, [&](std::int64_t v) {
        return v == 1 && !fits ? "more than the shared memory of a block" : nullptr;
      });
    };
    share("share_a", &operand_a_);
    share("share_b", &operand_b_);
  }

  // What makes the operand is computed by the copy, if that is little.
  void begin_copy(const Operand& o) {
    Writer& w = context_.writer;
    if (in_blocks(o)) {
      w.layout(o.access->buffer->name, block_layout(o));
    } else if (o.constant && o.moved) {
      w.layout(o.access->buffer->name, o.layout());
    }
    if (!o.shared) return;
    w.cache_read(o.access->buffer->name, sum_.inner, "shared");
    const int producer = context_.analysis.producer(o.access->buffer);
    if (producer < 0) return;
    const auto p = static_cast<std::size_t>(producer);
    const Stage& made = context_.stage(p);
    if (context_.done[p] || made.output || made.reduces() || made.users.size() != 1 ||
        made.op.outputs.size() != 1)
      return;
    // A transform would be repeated by all blocks beside each other.
    const bool repeated = &o == &operand_a_ && is_transform(made) &&
                          stage_.extent(product_.vector) > kFewBlocks * tile_.column_length();
    if (!context_.chooser.flag(made.op.name, "in_copy", PointKind::kLocation,
                               made.cost <= kGpuCheapCopy && !repeated))
      return;
    w.compute_inline(made.op.name);
    context_.done[p] = true;
  }

  // Rows that are not whole vectors: what a block copies is stored together, with room at the end.
  bool in_blocks(const Operand& o) const {
    const Access& a = *o.access;
    const std::size_t last = o.order.back();
    const std::int64_t lanes = kCopyBytes / size_bytes(a.buffer->dtype);
    return &o == &operand_b_ && o.constant && o.shared &&
           a.indices[last].single_axis() == static_cast<int>(product_.vector) &&
           a.buffer->shape[last] == stage_.extent(product_.vector) &&
           a.buffer->shape[last] % lanes != 0 && a.buffer->shape[last] > tile_.column_length() &&
           tile_.column_length() % lanes == 0;
  }
  schedule::Layout block_layout(const Operand& o) const {
    schedule::Layout out = o.layout();
    out.insert(out.begin(), {.dim = out.back().dim, .divisor = tile_.column_length()});
    out.back().modulus = tile_.column_length();
    return out;
  }

  std::string axis_of(std::size_t axis) const {
    return tile_.split_k > 1 || staged() ? stage_.axis_name(axis)
                                         : nest_stage_.axis_name(nest_.axis[axis]);
  }

  // Rows of the result begin anywhere, so that threads could only store single elements: large
  // tiles go through shared memory, and from there in whole rows.
  bool odd_results() const {
    const std::size_t last = nest_stage_.rank() - 1;
    return nest_.axis[product_.vector] == last &&
           nest_stage_.extent(last) * size_bytes(nest_stage_.dtype()) % kCopyBytes != 0;
  }
  bool staged() const {
    return tile_.split_k == 1 && tile_.groups == 1 && outer_ < 0 && product_.row >= 0 &&
           tile_.outputs() > kStagedOutputs && odd_results() &&
           tile_.column_length() % kBanks == 0 && tile_.threads() % kBanks == 0 &&
           tile_.row_length() % (tile_.threads() / kBanks) == 0;
  }
  std::int64_t staged_bytes() const {
    return staged() ? 4 * tile_.row_length() * (tile_.column_length() + kBanks + kGpuStagedPad) : 0;
  }
  // Lanes of a warp take neighbours of a row.
  void write_results() {
    Writer& w = context_.writer;
    const std::string& result = nest_stage_.op.name;
    const std::int64_t warps = tile_.threads() / kBanks;
    const Loops row =
        w.split(result, nest_stage_.axis_name(nest_.axis[static_cast<std::size_t>(product_.row)]),
                {tile_.row_length() / warps, warps}, schedule::Tail::kGuard);
    const Loops column = w.split(result, nest_stage_.axis_name(nest_.axis[product_.vector]),
                                 {tile_.column_length() / kBanks, kBanks}, schedule::Tail::kGuard);
    Loops blocks = gpu_block_loops(context_, product_, nest_, "");
    blocks.insert(blocks.end(), {row[0], column[0]});
    Loops order = blocks;
    order.insert(order.end(), {row[2], column[2], row[1], column[1]});
    w.reorder(result, order);
    block_ = w.fuse(result, blocks);
    w.annotate(result, block_, schedule::Annotation::kBlockX);
    w.annotate(result, w.fuse(result, {row[2], column[2]}), schedule::Annotation::kThreadX);
    for (const std::string& loop : {row[1], column[1]}) w.unroll(result, loop);
  }

  // Blocks, then virtual threads and threads, then the columns of one.
  void write_launch() {
    Writer& w = context_.writer;
    Loops blocks = staged() ? gpu_untiled_loops(context_, product_)
                            : gpu_block_loops(context_, product_, nest_, sum_.part);
    Loops virtuals, threads;
    const auto split = [&](int axis, std::vector<std::int64_t> lengths) -> Loops {
      if (axis < 0) return {};
      const bool several = lengths[0] > 1;
      Loops l = w.split(sum_.launch, axis_of(static_cast<std::size_t>(axis)), std::move(lengths),
                        schedule::Tail::kGuard);
      blocks.push_back(l[0]);
      virtuals.push_back(l[1]);
      threads.push_back(l[2]);
      if (several) w.annotate(sum_.launch, l[1], schedule::Annotation::kVThread);
      return l;
    };
    split(outer_, {tile_.outer_rows, tile_.outer_threads});
    const bool tiles = tile_.warp_tiles();
    const std::int64_t rows = tile_.rows / tile_.row_lanes;
    std::vector<std::int64_t> across = {rows, tile_.row_threads};
    std::vector<std::int64_t> along = {tile_.chunks, tile_.column_threads, tile_.lanes};
    if (tiles) {
      across = {rows, tile_.row_threads / kGpuWarpRows, kGpuWarpRows / kGpuPair, kGpuPair};
      along = {tile_.chunks, tile_.column_threads / kGpuWarpColumns, kGpuWarpColumns, tile_.lanes};
    } else if (tile_.row_pairs()) {
      across = {rows, tile_.row_threads / kGpuPair, kGpuPair};
    }
    if (tile_.row_lanes > 1) across.push_back(tile_.row_lanes);
    Loops row = split(product_.row, std::move(across));
    const Loops column = split(static_cast<int>(product_.vector), std::move(along));
    Loops lanes;
    if (tile_.row_lanes > 1) {
      lanes.push_back(row.back());
      row.pop_back();
    }
    if (tiles) threads.insert(threads.end(), {row[3], column[3]});
    if (tiles || tile_.row_pairs()) threads.push_back(row.back());
    const std::string& lane = column.back();
    Loops order = blocks;
    order.insert(order.end(), virtuals.begin(), virtuals.end());
    order.insert(order.end(), threads.begin(), threads.end());
    order.insert(order.end(), lanes.begin(), lanes.end());
    order.push_back(lane);
    w.reorder(sum_.launch, order);
    for (const std::string& loop : lanes) w.unroll(sum_.launch, loop);
    if (staged()) {
      w.compute_at(sum_.launch, nest_stage_.op.name, block_);
      w.storage_align(sum_.launch, product_.row, kBanks, kGpuStagedPad);
    } else {
      w.annotate(sum_.launch, w.fuse(sum_.launch, blocks), schedule::Annotation::kBlockX);
    }
    const std::string thread = w.fuse(sum_.launch, threads);
    w.annotate(sum_.launch, thread, schedule::Annotation::kThreadX);
    if (tile_.lanes > 1) w.vectorize(sum_.launch, lane);
    w.compute_at(sum_.inner, sum_.launch, thread);
  }

  // The accumulators of a thread, some steps at a time; returns the loop around those steps.
  std::string write_sums() {
    Writer& w = context_.writer;
    const bool vectors = problem_vectors() && tile_.steps % 4 == 0;
    const Loops steps =
        vectors ? w.split(sum_.inner, sum_.cut, {tile_.steps / 4, 4}, schedule::Tail::kGuard)
                : w.split(sum_.inner, sum_.cut, {tile_.steps}, schedule::Tail::kGuard);
    Loops order = {steps[0]};
    std::int64_t body = tile_.steps * tile_.outputs();
    Loops unrolled;
    for (std::size_t i = product_.reduce.size(); i-- > 0;) {
      const std::size_t r = product_.reduce[i];
      if (r == cut_) continue;
      body *= stage_.extent(r);
      if (body <= limits::kGpuBody) unrolled.push_back(stage_.axis_name(r));
    }
    for (const std::size_t r : product_.reduce) {
      if (r != cut_) order.push_back(stage_.axis_name(r));
    }
    order.insert(order.end(), steps.begin() + 1, steps.end());
    unrolled.insert(unrolled.end(), steps.begin() + 1, steps.end());
    if (tile_.split_k > 1) {
      order.push_back(sum_.part);
      unrolled.push_back(sum_.part);
    }
    for (std::size_t i = 0; i < stage_.rank(); ++i) {
      if (i == product_.vector) continue;
      order.push_back(stage_.axis_name(i));
      unrolled.push_back(stage_.axis_name(i));
    }
    order.push_back(stage_.axis_name(product_.vector));
    w.reorder(sum_.inner, order);
    for (const std::string& loop : unrolled) w.unroll(sum_.inner, loop);
    if (tile_.lanes > 1) {
      w.vectorize(sum_.inner, stage_.axis_name(product_.vector));
    } else {
      w.unroll(sum_.inner, stage_.axis_name(product_.vector));
    }
    return steps[0];
  }
  bool problem_vectors() const {
    return tile_.row_lanes == 1 && (product_.a.strides[cut_] == 1 || operand_a_.constant);
  }

  // The last things written: what the steps of the sum copy, several steps ahead.
  void write_copies(const std::string& step) {
    for (const Operand* o : {&operand_a_, &operand_b_}) write_copy(*o, step);
    if (tile_.pipeline_stages > 1 && (operand_a_.shared || operand_b_.shared))
      context_.writer.pragma(sum_.inner, step, "pipeline", tile_.pipeline_stages);
    context_.done[product_.stage] = true;
    context_.done[nest_.stage] = true;
  }

  // All threads of a block, as many bytes at once as lie side by side on both sides.
  void write_copy(const Operand& o, const std::string& step) {
    if (!o.shared) return;
    Writer& w = context_.writer;
    const Access& a = *o.access;
    const std::string stage = a.buffer->name + ".shared";
    w.compute_at(stage, sum_.inner, step);
    if (tile_.own) return write_own_copy(o, stage);
    if (o.moved) w.layout(stage, o.layout());
    if (o.transposed) return write_transposed_copy(o, stage);
    // What the buffer's own order does not allow is written where it belongs, one by one.
    const bool apart = o.moved && !o.constant;
    Loops dims;
    for (const std::size_t d : o.order) dims.push_back("d" + std::to_string(d));
    if (apart) std::sort(dims.begin(), dims.end());
    if (o.moved && !apart) w.reorder(stage, dims);
    if (pads(o, tile_)) {
      const std::int64_t size = size_bytes(a.buffer->dtype);
      const std::int64_t banks = kBanks * 4 / size;
      w.storage_align(stage, static_cast<int>(o.order.size()) - 2, banks,
                      (span(a, o.order.back(), tile_) + kCopyBytes / size) % banks);
    }
    const std::int64_t lanes = apart ? 1 : copy_lanes(o);
    std::int64_t elements = 1;
    for (const std::size_t d : o.order) elements *= span(a, d, tile_);
    std::vector<std::int64_t> lengths = {tile_.threads()};
    if (lanes > 1) lengths.push_back(lanes);
    const Loops parts =
        w.split(stage, w.fuse(stage, dims), std::move(lengths), schedule::Tail::kGuard);
    if (elements <= limits::kGpuCopyRounds * tile_.threads() * lanes) w.unroll(stage, parts[0]);
    w.annotate(stage, parts[1], schedule::Annotation::kThreadX);
    if (lanes > 1) w.vectorize(stage, parts[2]);
  }

  // Every group copies the steps that it adds up: of products of two matrices, where the copies of
  // a group are whole vectors.
  bool may_own_copies() const {
    const std::int64_t each = tile_.steps / tile_.groups;
    if (tile_.groups == 1 || each == 0 || outer_ >= 0 || product_.reduce.size() != 1 ||
        !operand_a_.shared || !operand_b_.shared || operand_a_.order.size() != 2 ||
        operand_b_.order.size() != 2 || copy_lanes(operand_b_) == 1)
      return false;
    const auto along = [&](const Operand& o, std::size_t d) {
      return o.access->indices[o.order[d]].single_axis() == static_cast<int>(cut_);
    };
    const bool rows = operand_a_.transposed
                          ? each % std::min(kGpuTransposedSteps, each) == 0
                          : !operand_a_.moved && along(operand_a_, 1) &&
                                copy_lanes(operand_a_) > 1 && each % copy_lanes(operand_a_) == 0;
    return rows && along(operand_b_, 0) &&
           each * tile_.column_length() % (tile_.group_threads() * copy_lanes(operand_b_)) == 0;
  }
  void write_own_copy(const Operand& o, const std::string& stage) {
    const bool by_rows = &o == &operand_a_ && !o.transposed;
    write_gpu_own_copy(context_.writer, {.stage = stage,
                                         .along = o.order[by_rows ? 1 : 0],
                                         .across = o.order[by_rows ? 0 : 1],
                                         .steps = tile_.steps / tile_.groups,
                                         .threads = tile_.group_threads(),
                                         .lanes = o.transposed ? 1 : copy_lanes(o),
                                         .by_rows = by_rows,
                                         .transposed = o.transposed});
  }

  // Threads of a warp take neighbours of a row, of some rows; each element by itself.
  void write_transposed_copy(const Operand& o, const std::string& stage) {
    Writer& w = context_.writer;
    const std::size_t row = o.order.back(), step = o.order[o.order.size() - 2];
    w.storage_align(stage, static_cast<int>(step), kBanks, kGpuTransposedPad);
    Loops dims;
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < o.order.size(); ++i) {
      elements *= span(*o.access, o.order[i], tile_);
      if (i + 2 < o.order.size()) dims.push_back("d" + std::to_string(o.order[i]));
    }
    const Loops rows = w.split(stage, "d" + std::to_string(row), {kBanks / kGpuTransposedSteps},
                               schedule::Tail::kGuard);
    const Loops steps =
        w.split(stage, "d" + std::to_string(step), {kGpuTransposedSteps}, schedule::Tail::kGuard);
    dims.insert(dims.end(), {rows[0], steps[0], rows[1], steps[1]});
    w.reorder(stage, dims);
    const Loops parts =
        w.split(stage, w.fuse(stage, dims), {tile_.threads()}, schedule::Tail::kGuard);
    if (elements <= limits::kGpuCopyRounds * tile_.threads()) w.unroll(stage, parts[0]);
    w.annotate(stage, parts[1], schedule::Annotation::kThreadX);
  }

  // Elements of one access: whole vectors in every row of the tensor and of its part in the block.
  std::int64_t copy_lanes(const Operand& o) const {
    const Access& a = *o.access;
    const std::size_t last = o.order.back();
    const std::int64_t lanes = kCopyBytes / size_bytes(a.buffer->dtype);
    const auto& terms = a.indices[last].terms;
    const bool plain = std::all_of(terms.begin(), terms.end(), [&](const IndexTerm& t) {
      return t.coefficient == 1 ? terms.size() == 1 || stage_.extent(t.axis) % lanes == 0
                                : t.coefficient % lanes == 0;
    });
    const bool whole =
        (in_blocks(o) || a.buffer->shape[last] % lanes == 0) && span(a, last, tile_) % lanes == 0;
    return plain && whole ? lanes : 1;
  }

  Context& context_;
  Contraction product_;
  Nest nest_;
  const Stage& stage_;
  const Stage& nest_stage_;
  bool self_;
  std::size_t cut_;  // reduce axis that goes through shared memory step by step
  int outer_ = -1;   // second axis of rows
  Operand operand_a_, operand_b_, transposed_a_;
  GpuTile tile_;
  GpuSum sum_;
  std::string block_;  // of the results, where they are staged
};

}  // namespace

bool schedule_gpu_contraction(Context& context, std::size_t stage) {
  auto placed = place_contraction(context, stage);
  if (!placed || placed->contraction.reduce.empty()) return false;
  // Every element of `b` is used once: as good as any row.
  const Contraction& found = placed->contraction;
  if (found.row < 0 && found.batch.empty() && found.b.strides[found.reduce.back()] == 1)
    return false;
  if (schedule_gpu_tensor(context, placed->contraction, placed->nest)) return true;
  if (!placed->nest.spread.empty()) {  // several results of a sum: in a launch of their own
    placed->nest = {.stage = stage, .axis = {}};
    for (std::size_t i = 0; i < context.stage(stage).rank(); ++i) placed->nest.axis.push_back(i);
  }
  GpuContraction(context, std::move(placed->contraction), std::move(placed->nest)).run();
  return true;
}

}  // namespace tessera::space
