// Attention in one launch: a block has the scores of some queries in shared memory, from the
// product that makes them, over the softmax, to the product that uses them.
#include <algorithm>
#include <optional>

#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"
#include "tessera/scheduling/space/gpu/gpu_split_k.h"
#include "tessera/scheduling/space/gpu/gpu_tensor.h"
#include "tessera/scheduling/space/inlining.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/row_group.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

// Threads side by side along keys, keys of a thread, elements of a head or keys between copies.
constexpr std::int64_t kKeyThreads = 16, kThreadKeys = 8, kSteps = 32;
constexpr std::int64_t kMostPipelineStages = 5;
constexpr std::int64_t kWholeSum = 128, kUnrolledRows = 4;

struct Attention {
  Contraction scores, values;
  Nest scored, valued;  // what writes the scores and the output
  std::size_t weights = 0;
  std::vector<std::size_t> members;  // reductions of the softmax
  std::size_t row = 0, key = 0;      // axes of the weights
};

Nest own_nest(const Stage& s, std::size_t stage) {
  Nest nest{.stage = stage, .axis = {}};
  for (std::size_t i = 0; i < s.rank(); ++i) nest.axis.push_back(i);
  return nest;
}

// The axis of a stage that the dimension of a read is exactly; -1: none.
int dimension_of(const Access& read, int axis) {
  for (std::size_t d = 0; d < read.indices.size(); ++d) {
    if (read.indices[d].single_axis() == axis) return static_cast<int>(d);
  }
  return -1;
}

// The operand lies along the axis, element by element.
bool lies_along(const Access& a, std::size_t axis) {
  const auto& terms = a.indices.back().terms;
  return a.regular() && !a.conditional && terms.size() == 1 && terms[0].axis == axis &&
         terms[0].coefficient == 1;
}

class Matcher {
 public:
  Matcher(const Context& context, std::size_t stage) : context_(context), stage_(stage) {}

  std::optional<Attention> run() {
    if (!find_values() || !find_softmax() || !find_scores()) return std::nullopt;
    return std::move(out_);
  }

 private:
  const Analysis& analysis() const { return context_.analysis; }

  // The contraction with vectors along the last axis that its nest writes.
  bool match(std::size_t stage, const Nest& nest, Contraction* out) const {
    const Stage& s = context_.stage(stage);
    if (s.rank() < 2) return false;
    std::size_t vector = 0;
    for (std::size_t i = 0; i < s.rank(); ++i) {
      if (nest.axis[i] > nest.axis[vector]) vector = i;
    }
    auto found = match_contraction(analysis(), stage, vector);
    if (!found || found->row < 0 || found->reduce.size() != 1 || !found->columns.empty() ||
        found->a.buffer == found->b.buffer)
      return false;
    *out = std::move(*found);
    return true;
  }

  bool find_values() {
    const Stage& s = context_.stage(stage_);
    if (!is_contraction(s)) return false;
    const auto nest = find_nest(analysis(), stage_, true);
    out_.valued = nest && !context_.done[nest->stage] ? *nest : own_nest(s, stage_);
    Contraction& c = out_.values;
    if (!match(stage_, out_.valued, &c) || !lies_along(c.b, c.vector)) return false;
    const int made = analysis().producer(c.a.buffer);
    if (made < 0) return false;
    out_.weights = static_cast<std::size_t>(made);
    const Stage& p = context_.stage(out_.weights);
    if (context_.done[out_.weights] || p.output || p.reduces() || p.users.size() != 1 ||
        p.rank() < 2)
      return false;
    // Every dimension of the weights is one axis of the product.
    for (std::size_t d = 0; d < p.rank(); ++d) {
      if (c.a.indices[d].single_axis() < 0 && p.extent(d) > 1) return false;
    }
    const int row = dimension_of(c.a, c.row);
    const int key = dimension_of(c.a, static_cast<int>(c.reduce[0]));
    if (row < 0 || key != static_cast<int>(p.rank()) - 1) return false;
    out_.row = static_cast<std::size_t>(row);
    out_.key = static_cast<std::size_t>(key);
    return true;
  }

  // The reductions over the keys that the weights need.
  bool find_softmax() {
    const RowGroup group(context_, out_.weights);
    for (const std::size_t m : group.members()) {
      const Stage& s = context_.stage(m);
      if (!s.reduces()) continue;
      const bool rows = group.map(m)[out_.row] >= 0 && group.map(m)[out_.key] < 0;
      if (!rows || s.op.reduce_axes.size() != 1 || s.op.reduce_axes[0].extent != keys())
        return false;
      out_.members.push_back(m);
    }
    return !out_.members.empty();
  }

  std::int64_t keys() const { return context_.stage(out_.weights).extent(out_.key); }

  bool inside(std::size_t stage) const {
    return stage == out_.weights ||
           std::find(out_.members.begin(), out_.members.end(), stage) != out_.members.end();
  }

  // What the weights and all reductions read of one product, by row and key.
  bool find_scores() {
    for (const Access& read : context_.stage(out_.weights).reads) {
      const int made = analysis().producer(read.buffer);
      if (made < 0 || inside(static_cast<std::size_t>(made))) continue;
      if (dimension_of(read, static_cast<int>(out_.key)) !=
          static_cast<int>(read.indices.size()) - 1)
        continue;
      const int row = dimension_of(read, static_cast<int>(out_.row));
      if (row >= 0 && take_scores(static_cast<std::size_t>(made), static_cast<std::size_t>(row)))
        return true;
    }
    return false;
  }

  bool take_scores(std::size_t stored, std::size_t row) {
    const Stage& x = context_.stage(stored);
    const bool used =
        std::all_of(x.users.begin(), x.users.end(), [&](std::size_t user) { return inside(user); });
    if (context_.done[stored] || x.output || !used) return false;
    std::size_t product = stored;
    out_.scored = own_nest(x, stored);
    if (!is_contraction(x)) {
      if (x.reduces()) return false;
      const auto found = std::find_if(x.reads.begin(), x.reads.end(), [&](const Access& read) {
        const int made = analysis().producer(read.buffer);
        return made >= 0 && is_contraction(context_.stage(static_cast<std::size_t>(made)));
      });
      if (found == x.reads.end()) return false;
      product = static_cast<std::size_t>(analysis().producer(found->buffer));
      const auto nest = find_nest(analysis(), product);
      if (!nest || nest->stage != stored || context_.done[product]) return false;
      out_.scored = *nest;
    }
    Contraction& c = out_.scores;
    if (!match(product, out_.scored, &c)) return false;
    return out_.scored.axis[c.vector] == x.rank() - 1 &&
           out_.scored.axis[static_cast<std::size_t>(c.row)] == row &&
           lies_along(c.a, c.reduce[0]) && lies_along(c.b, c.reduce[0]);
  }

  const Context& context_;
  std::size_t stage_;
  Attention out_;
};

class GpuAttention {
 public:
  GpuAttention(Context& context, const Attention& a)
      : context_(context),
        attention_(a),
        score_(context.stage(a.scores.stage)),
        scored_(context.stage(a.scored.stage)),
        weight_(context.stage(a.weights)),
        value_(context.stage(a.values.stage)),
        out_(context.stage(a.valued.stage)),
        tensor_(has_tensor_cores()) {}

  std::int64_t keys() const { return weight_.extent(attention_.key); }
  std::int64_t head() const { return value_.extent(attention_.values.vector); }
  std::int64_t queries() const { return weight_.extent(attention_.row); }

  // Of a block.
  std::int64_t shared_bytes(std::int64_t rows) const {
    const std::int64_t pitch = keys() + 2 * kMmaSide;
    const std::int64_t element = size_bytes(weight_.dtype());
    const std::int64_t kept = rows * pitch * (size_bytes(scored_.dtype()) + element);
    const std::int64_t sum = score_.extent(attention_.scores.reduce[0]),
                       pad = kGpuCopyBytes / element;
    const std::int64_t values = steps_of(keys()) * (head() + kMmaSide) +
                                (copies_weights() ? rows * (steps_of(keys()) + pad) : 0);
    const std::int64_t operands =
        pipeline_stages(sum) * (rows + tile_keys()) * (steps_of(sum) + pad) +
        pipeline_stages(keys()) * values;
    return kept + operands * element + 1024;
  }
  // Of a sum between copies. Where a multiprocessor has few blocks, short sums on tensor cores are
  // copied whole (H200: 3.1 us instead of 3.7 for 12 heads of 128 words).
  std::int64_t steps_of(std::int64_t extent) const {
    return tensor_ && few_ && extent <= kWholeSum && extent % kSteps == 0 ? extent : kSteps;
  }
  // For copies of the steps of a sum. Where a multiprocessor has few blocks, each starts them all:
  // nothing else hides how long they take.
  std::int64_t pipeline_stages(std::int64_t extent) const {
    if (extent <= steps_of(extent)) return 1;
    return few_ ? std::min(parts_of(extent, kSteps) + 1, kMostPipelineStages) : 2;
  }

  bool fits() const {
    return (!tensor_ || queries() >= kMmaSide) && shared_bytes(least_rows()) <= shared_limit() &&
           warps_ * warp() <= context_.target.gpu.block_threads;
  }

  void run() {
    choose();
    Writer& w = context_.writer;
    const std::string& weights = weight_.op.name;
    const bool apart =
        attention_.scored.stage != attention_.scores.stage;  // the sums have an epilogue
    inner_scores_ = apart ? score_.op.name : w.cache_write(score_.op.name, "local");
    scores_ = w.cache_write(scored_.op.name, "shared");
    w.compute_inline(scored_.op.name);
    weights_ = w.cache_write(weights, "shared");
    w.compute_inline(weights);
    if (copies_weights()) {
      copied_ = weights_;
      weights_ = w.cache_write(copied_, "shared");
    }
    launch_ = out_.op.name;
    inner_values_ = attention_.valued.stage == attention_.values.stage
                        ? w.cache_write(launch_, "local")
                        : value_.op.name;
    write_launch();
    write_product(attention_.values, value_, inner_values_, true);
    write_weights();
    write_scores();
    write_product(attention_.scores, score_, inner_scores_, false);
    for (const std::size_t s :
         {attention_.scores.stage, attention_.scored.stage, attention_.weights,
          attention_.values.stage, attention_.valued.stage})
      context_.done[s] = true;
    for (const std::size_t m : attention_.members) context_.done[m] = true;
  }

 private:
  bool has_tensor_cores() const {
    const DType type = attention_.scores.a.buffer->dtype;
    if (type != attention_.scores.b.buffer->dtype || type != weight_.dtype() ||
        type != attention_.values.b.buffer->dtype || size_bytes(type) != 2)
      return false;
    return target::find_matrix(context_.target, target::Operands::kFragments, type, type) !=
           nullptr;
  }

  std::int64_t warp() const { return context_.target.gpu.warp; }
  std::int64_t shared_limit() const { return limits::gpu_shared_bytes(context_.target); }
  std::int64_t least_rows() const { return tensor_ ? kMmaSide : kMmaSide / 2; }
  // Tensor cores read whole steps: weights past the last key must be zeros, which copies have.
  bool copies_weights() const { return tensor_ && keys() % kSteps != 0; }

  // Keys whose scores a block computes at once.
  std::int64_t tile_keys() const {
    if (tensor_) return warps_ * kMmaSide * tiles_of_warp();
    return kKeyThreads * keys_of_thread();
  }
  std::int64_t tiles_of_warp() const {
    const std::int64_t tiles = parts_of(keys(), kMmaSide * warps_);
    return parts_of(tiles, parts_of(tiles, 4));
  }
  std::int64_t keys_of_thread() const {
    const std::int64_t each = parts_of(keys(), kKeyThreads);
    return parts_of(each, parts_of(each, kThreadKeys));
  }

  void choose() {
    std::int64_t others = 1;
    for (const std::size_t i : attention_.values.batch) others *= value_.extent(i);
    for (const std::size_t i : attention_.values.rows) others *= value_.extent(i);
    // Larger tiles read keys and values less often, as long as all multiprocessors have blocks.
    std::int64_t preferred = least_rows();
    const auto blocks = [&](std::int64_t rows) { return others * parts_of(queries(), rows); };
    while (preferred < 32 && 3 * blocks(2 * preferred) >= std::int64_t{2} * context_.target.cores &&
           shared_bytes(2 * preferred) <= shared_limit() / 2)
      preferred *= 2;
    rows_ = context_.chooser.number(
        launch_name(), "queries", PointKind::kThread, preferred,
        [&] {
          return tensor_ ? std::vector<std::int64_t>{16, 32, 64}
                         : std::vector<std::int64_t>{8, 16, 32, 64};
        },
        [&](std::int64_t n) {
          return n > least_rows() && shared_bytes(n) > shared_limit()
                     ? "more than the shared memory of a block"
                     : nullptr;
        });
    const std::int64_t each = parts_of(blocks(rows_), std::max(1, context_.target.cores));
    few_ = each <= 2;
    if (shared_bytes(rows_) > shared_limit() / each) few_ = false;
  }
  const std::string& launch_name() const { return value_.op.name; }

  static void append(Loops* to, const Loops& more) {
    to->insert(to->end(), more.begin(), more.end());
  }

  // Threads of a tile in warps: bound to y and x, the innermost loop of which is returned.
  std::string bind(const std::string& stage, const Loops& loops) {
    Writer& w = context_.writer;
    const Loops parts = w.split(stage, w.fuse(stage, loops), {warp()}, schedule::Tail::kGuard);
    w.annotate(stage, parts[0], schedule::Annotation::kThreadY);
    w.annotate(stage, parts[1], schedule::Annotation::kThreadX);
    return parts[1];
  }

  struct Tile {
    std::int64_t row_threads, rows, chunks, column_threads, lanes;
  };
  // A tile of results in registers: of threads, or of warps on tensor cores. `blocks`: bound to
  // the blocks of a launch, where there are. Returns the loop that the sums are computed at.
  std::string write_tile(const std::string& stage, Loops outer, const std::string& row,
                         const std::string& column, const Tile& tile, bool blocks,
                         const Loops& spread = {}) {
    Writer& w = context_.writer;
    Loops order, threads;
    std::string sums;
    if (tensor_) {
      const Loops r = w.split(stage, row, {1, rows_ / kMmaSide, 2, 8}, schedule::Tail::kGuard);
      const Loops c =
          w.split(stage, column, {warps_, tile.chunks * 2, 4, 2}, schedule::Tail::kGuard);
      append(&outer, {r[0], c[0]});
      order = outer;
      append(&order, {r[1], c[1], r[4], c[3], r[2], r[3]});
      append(&order, spread);
      append(&order, {c[2], c[4]});
      w.reorder(stage, order);
      block_ = blocks ? w.fuse(stage, outer) : block_;
      sums = w.fuse(stage, {r[1], c[1]});
      w.annotate(stage, sums, schedule::Annotation::kThreadY);
      w.annotate(stage, w.fuse(stage, {r[4], c[3]}), schedule::Annotation::kThreadX);
      for (const std::string& loop : {r[2], r[3], c[2]}) w.unroll(stage, loop);
      w.vectorize(stage, c[4]);
    } else {
      const Loops r = w.split(stage, row, {tile.row_threads, tile.rows}, schedule::Tail::kGuard);
      const Loops c = w.split(stage, column, {tile.chunks, tile.column_threads, tile.lanes},
                              schedule::Tail::kGuard);
      append(&outer, {r[0], c[0]});
      order = outer;
      append(&order, {c[1], r[1], c[2], r[2]});
      append(&order, spread);
      append(&order, {c[3]});
      w.reorder(stage, order);
      block_ = blocks ? w.fuse(stage, outer) : block_;
      if (tile.chunks > 1) w.annotate(stage, c[1], schedule::Annotation::kVThread);
      sums = bind(stage, {r[1], c[2]});
      w.unroll(stage, r[2]);
      if (tile.lanes > 1) {
        w.vectorize(stage, c[3]);
      } else {
        w.unroll(stage, c[3]);
      }
    }
    for (const std::string& loop : spread) w.unroll(stage, loop);
    if (blocks) w.annotate(stage, block_, schedule::Annotation::kBlockX);
    return sums;
  }

  Tile scores_tile() const {
    if (tensor_) return {.row_threads = 1, .rows = 1, .chunks = tiles_of_warp()};
    const std::int64_t row_threads = warps_ * warp() / kKeyThreads;
    Tile t{.row_threads = row_threads,
           .rows = parts_of(rows_, row_threads),
           .chunks = keys_of_thread(),
           .column_threads = kKeyThreads,
           .lanes = 1};
    t.row_threads = parts_of(rows_, t.rows);
    return t;
  }
  Tile values_tile() const {
    if (tensor_)
      return {.row_threads = 1, .rows = 1, .chunks = parts_of(head(), kMmaSide * warps_)};
    Tile t{.lanes = head() % 4 == 0 ? 4 : 1};
    t.column_threads = kKeyThreads;
    while (t.column_threads > 1 && t.column_threads * t.lanes / 2 >= head()) t.column_threads /= 2;
    t.chunks = parts_of(head(), t.column_threads * t.lanes);
    t.row_threads = warps_ * warp() / t.column_threads;
    t.rows = parts_of(rows_, t.row_threads);
    t.row_threads = parts_of(rows_, t.rows);
    return t;
  }

  void write_launch() {
    Loops blocks = gpu_block_loops(context_, attention_.values, attention_.valued, "");
    const auto axis = [&](std::size_t i) { return out_.axis_name(attention_.valued.axis[i]); };
    const std::string sums =
        write_tile(launch_, blocks, axis(static_cast<std::size_t>(attention_.values.row)),
                   axis(attention_.values.vector), values_tile(), true,
                   gpu_spread_loops(context_, attention_.valued, ""));
    context_.writer.compute_at(inner_values_, launch_, sums);
  }

  // Other axes of a stage: of one iteration in every block.
  static Loops others(const Stage& s, std::size_t row, std::size_t column) {
    Loops out;
    for (std::size_t i = 0; i < s.rank(); ++i) {
      if (i != row && i != column) out.push_back(s.axis_name(i));
    }
    return out;
  }

  void write_scores() {
    const Stage& s = scored_;
    const std::size_t row = attention_.scored.axis[static_cast<std::size_t>(attention_.scores.row)];
    const std::size_t key = attention_.scored.axis[attention_.scores.vector];
    context_.writer.compute_at(scores_, launch_, block_);
    const std::string sums = write_tile(scores_, others(s, row, key), s.axis_name(row),
                                        s.axis_name(key), scores_tile(), false);
    align(scores_, s.rank(), s.dtype());
    context_.writer.compute_at(inner_scores_, scores_, sums);
  }

  // Rows begin in different banks, at a multiple of 16 bytes.
  void align(const std::string& stage, std::size_t rank, DType type) {
    const auto dim = static_cast<int>(rank) - 2;
    if (dim < 0) return;
    const std::int64_t most = kGpuCopyBytes / size_bytes(type);
    if (tensor_ && size_bytes(type) == 2) {
      context_.writer.storage_align(stage, dim, 2 * most, most);
    } else {
      context_.writer.storage_align(stage, dim, kGpuBanks, most);
    }
  }

  // A warp has a row: its reductions, then its weights.
  void write_weights() {
    Writer& w = context_.writer;
    const Stage& s = weight_;
    w.compute_at(weights_, launch_, block_);
    const Loops row =
        w.split(weights_, s.axis_name(attention_.row), {warps_}, schedule::Tail::kGuard);
    const Loops key =
        w.split(weights_, s.axis_name(attention_.key), {warp()}, schedule::Tail::kGuard);
    Loops order = others(s, attention_.row, attention_.key);
    append(&order, {row[0], row[1], key[0], key[1]});
    w.reorder(weights_, order);
    w.annotate(weights_, row[1], schedule::Annotation::kThreadY);
    w.annotate(weights_, key[1], schedule::Annotation::kThreadX);
    const bool few = keys() <= limits::kGpuRowRounds * warp();
    if (few) w.unroll(weights_, key[0]);
    if (few && few_ && tensor_ && rows_ <= kUnrolledRows * warps_) w.unroll(weights_, row[0]);
    align(weights_, s.rank(), s.dtype());
    for (const std::size_t m : attention_.members) {
      const Stage& r = context_.stage(m);
      const std::string& name = r.op.name;
      w.compute_at(name, weights_, row[1]);
      const Loops parts = w.split(name, r.axis_name(r.rank()), {warp()}, schedule::Tail::kGuard);
      w.annotate(name, parts[1], schedule::Annotation::kThreadX);
      if (few) w.unroll(name, parts[0]);
    }
  }

  // Sums of a thread or a warp, some steps at a time, and the copies of the operands.
  void write_product(const Contraction& c, const Stage& s, const std::string& inner, bool values) {
    Writer& w = context_.writer;
    const std::string &cut = s.axis_name(c.reduce[0]), &column = s.axis_name(c.vector);
    const std::string& row = s.axis_name(static_cast<std::size_t>(c.row));
    const bool copies = values && !copied_.empty();
    if (!values) w.cache_read(c.a.buffer->name, inner, "shared");
    w.cache_read(c.b.buffer->name, inner, "shared");
    Loops order, unrolled = others(s, static_cast<std::size_t>(c.row), c.vector);
    Loops steps;
    const std::int64_t extent = s.extent(c.reduce[0]);
    if (tensor_) {
      steps = w.split(inner, cut, {steps_of(extent) / kMmaSide, kMmaSide}, schedule::Tail::kGuard);
      const Loops r = w.split(inner, row, {kMmaSide}, schedule::Tail::kGuard);
      const Loops k = w.split(inner, column, {kMmaSide}, schedule::Tail::kGuard);
      order = {steps[0], steps[1]};
      append(&order, unrolled);
      append(&order, {r[0], k[0], r[1], k[1], steps[2]});
      append(&unrolled, {steps[1], r[0], k[0]});
      w.reorder(inner, order);
      for (const std::string& loop : unrolled) w.unroll(inner, loop);
      w.tensorize(inner, r[1], "mma16x16x16");
    } else {
      steps = w.split(inner, cut, {kSteps / 4, 4}, schedule::Tail::kGuard);
      order = steps;
      append(&order, unrolled);
      append(&order, {row, column});
      append(&unrolled, {steps[2], row});
      const Tile tile = values ? values_tile() : scores_tile();
      if (tile.rows * tile.chunks * tile.lanes * kSteps <= limits::kGpuBody)
        unrolled.push_back(steps[1]);
      w.reorder(inner, order);
      const bool vectors = tile.lanes > 1;
      if (!vectors) unrolled.push_back(column);
      for (const std::string& loop : unrolled) w.unroll(inner, loop);
      if (vectors) w.vectorize(inner, column);
    }
    if (copies) {
      Loops dims;
      for (std::size_t d = 0; d < weight_.rank(); ++d) dims.push_back(weight_.axis_name(d));
      write_copy(copied_, dims, inner, steps[0], weight_.dtype(), 1);
    }
    if (!values) write_operand(c.a, inner, steps[0]);
    write_operand(c.b, inner, steps[0]);
    if (pipeline_stages(extent) > 1 && !copies)
      w.pragma(inner, steps[0], "pipeline", pipeline_stages(extent));
  }

  void write_operand(const Access& a, const std::string& inner, const std::string& step) {
    const std::int64_t most = kGpuCopyBytes / size_bytes(a.buffer->dtype);
    std::int64_t lanes = most;
    while (lanes > 1 && a.buffer->shape.back() % lanes != 0) lanes /= 2;
    Loops dims;
    for (std::size_t d = 0; d < a.indices.size(); ++d) dims.push_back("d" + std::to_string(d));
    write_copy(a.buffer->name + ".shared", dims, inner, step, a.buffer->dtype, lanes);
  }

  void write_copy(const std::string& stage, const Loops& dims, const std::string& inner,
                  const std::string& step, DType type, std::int64_t lanes) {
    Writer& w = context_.writer;
    w.compute_at(stage, inner, step);
    align(stage, dims.size(), type);
    std::vector<std::int64_t> lengths = {warps_, warp()};
    if (lanes > 1) lengths.push_back(lanes);
    const Loops parts =
        w.split(stage, w.fuse(stage, dims), std::move(lengths), schedule::Tail::kGuard);
    w.annotate(stage, parts[1], schedule::Annotation::kThreadY);
    w.annotate(stage, parts[2], schedule::Annotation::kThreadX);
    if (lanes > 1) w.vectorize(stage, parts[3]);
  }

  Context& context_;
  const Attention& attention_;
  const Stage &score_, &scored_, &weight_, &value_, &out_;
  bool tensor_;
  std::int64_t warps_ = 4, rows_ = kMmaSide;
  bool few_ = false;  // blocks of a multiprocessor
  // Names: stages in shared memory, those of the sums, the launch and the loop of its blocks.
  std::string scores_, weights_, copied_, inner_scores_, inner_values_, launch_, block_;
};

}  // namespace

bool schedule_gpu_attention(Context& context, std::size_t stage) {
  const auto found = Matcher(context, stage).run();
  if (!found) return false;
  GpuAttention attention(context, *found);
  if (!attention.fits()) return false;
  static constexpr const char* kWords[] = {"apart", "together"};
  const std::string& name = context.stage(stage).op.name;
  if (context.chooser.word(name, "attention", PointKind::kLocation, 1, kWords) == 0) return false;
  attention.run();
  return true;
}

}  // namespace tessera::space
