#include "tessera/scheduling/space/pointwise.h"

#include <algorithm>

#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"

namespace tessera::space {
namespace {

// Iterations of the innermost chunk when all axes are one loop.
constexpr std::int64_t kChunk = 4096;
constexpr std::int64_t kTransposeTile = 8;
// Operations of an exponential: chains that only many vectors side by side hide.
constexpr double kLongLatency = 10;

// The axis along which a read is contiguous although the writes are not; -1 when there is none.
int transposed_axis(const Stage& s) {
  for (const Access& read : s.reads) {
    if (s.rank() < 2 || read.conditional) continue;
    const std::int64_t last = read.strides[s.rank() - 1];
    if (last == 0 || last == 1) continue;
    for (std::size_t i = 0; i + 1 < s.rank(); ++i) {
      if (read.strides[i] == 1 && s.extent(i) >= kTransposeTile) return static_cast<int>(i);
    }
  }
  return -1;
}

bool is_staggered(const Context& c, const Stage& s) {
  const auto* call = s.op.values.size() == 1 ? s.op.values[0].as<ir::Call>() : nullptr;
  return c.core().exp_vectors > 0 && s.dtype() == DType::kF32 && call &&
         call->fn == ir::Intrinsic::kExp;
}

// Vectors per step: short expressions need several to fill the machine, long ones fill it alone.
std::int64_t preferred_vectors(const Context& c, const Stage& s) {
  if (is_staggered(c, s) && s.nodes <= 16) return c.core().exp_vectors;
  if (s.nodes > 120) return 1;
  if (s.nodes > 40) return 2;
  return s.cost >= kLongLatency ? 8 : 4;
}

// At most so many that a step ends where the parts of a concatenation along the last axis do: one
// with elements of two parts is not written in vectors.
std::int64_t vectors_of_one_part(const Stage& s, std::int64_t lanes, std::int64_t vectors) {
  if (s.rank() == 0) return vectors;
  const ir::Expr& last = s.op.axes.back().var;
  for (const ir::Expr& value : s.op.values) {
    ir::for_each_expr(value, [&](const ir::Expr& e) {
      const auto* less = e.as<ir::Binary>();
      if (!less || less->op != ir::BinaryOp::kLt) return;
      const auto* border = less->b.as<ir::IntImm>();
      if (!ir::equal(less->a, last) || !border || border->value % lanes != 0) return;
      while (vectors > 1 && border->value % (lanes * vectors) != 0) --vectors;
    });
  }
  return vectors;
}

std::int64_t choose_vectors(Context& c, const Stage& s, std::int64_t extent,
                            std::int64_t least = 1) {
  const std::int64_t lanes = c.lanes(s.dtype());
  const std::int64_t preferred =
      std::min(std::max(least, vectors_of_one_part(s, lanes, preferred_vectors(c, s))),
               schedule::kMaxVector / lanes);
  return c.chooser.number(
      s.op.name, "vectors", PointKind::kVector, preferred,
      [&] {
        std::vector<std::int64_t> out;
        if (is_staggered(c, s) && (c.core().most_exp_vectors - 1) * lanes < extent)
          out.push_back(c.core().most_exp_vectors);
        for (const std::int64_t n : {1, 2, 3, 4, 6, 8, 12, 16}) {
          if (n * lanes <= schedule::kMaxVector && (n - 1) * lanes < extent) out.push_back(n);
        }
        return out;
      },
      [&](std::int64_t n) {
        const bool fits = n <= preferred || s.nodes * n <= limits::kNodesOfVectors;
        return fits ? nullptr : "too long an expression for this many vectors";
      });
}

// Chunks of at most `length`, their number a multiple of the cores as long as each gets few.
std::int64_t even_chunk(std::int64_t length, std::int64_t total, std::int64_t cores) {
  const std::int64_t chunks = parts_of(total, length);
  return chunks >= 4 * cores ? length : parts_of(total, parts_of(chunks, cores) * cores);
}

void schedule_line(Context& c, const Stage& s) {
  Loops all;
  for (std::size_t i = 0; i < s.rank(); ++i) all.push_back(s.axis_name(i));
  const std::string loop = c.writer.fuse(s.op.name, all);
  const auto total = static_cast<std::int64_t>(s.elements());
  const std::int64_t step = at_most(c.lanes(s.dtype()) * choose_vectors(c, s, total), total);
  const double work = s.elements() * (4 + s.cost);
  bool parallel = worth_threads(work);
  if (may_share(c, s.op.name, work))
    parallel = c.chooser.flag(s.op.name, "parallel", PointKind::kParallel, parallel);
  if (!parallel) {
    const Loops parts = c.writer.split(s.op.name, loop, {step});
    c.writer.vectorize(s.op.name, parts[1]);
    return;
  }
  const std::int64_t length = c.chooser.number(s.op.name, "chunk", PointKind::kTile, kChunk, [&] {
    std::vector<std::int64_t> out;
    for (const std::int64_t n : {1024, 2048, 8192, 16384, 65536}) {
      if (n < total) out.push_back(n);
    }
    return out;
  });
  const std::int64_t chunk = parts_of(even_chunk(length, total, c.target.code_threads()), step);
  const Loops parts = c.writer.split(s.op.name, loop, {chunk, step});
  share_loops(c.writer, s.op.name, {parts[0]}, 1);
  c.writer.vectorize(s.op.name, parts[2]);
}

// The innermost axis; of narrow types, which only vectors of many are worth, the innermost one with
// several elements.
std::size_t vector_axis(const Stage& s) {
  std::size_t last = s.rank() - 1;
  while (size_bytes(s.dtype()) < 4 && last > 0 && s.extent(last) == 1) --last;
  return last;
}

// What is computed of images with few channels, whose elements stand side by side only where they
// are written: vectors lie along the image.
void schedule_across(Context& c, const Stage& s, std::size_t transposed) {
  const std::string& name = s.op.name;
  const std::size_t last = s.rank() - 1;
  std::vector<OuterLoop> outer;
  for (std::size_t i = 0; i < last; ++i) {
    if (i != transposed) outer.push_back({s.axis_name(i), s.extent(i)});
  }
  const std::size_t limit = std::max<std::size_t>(1, outer.size());
  const std::int64_t step = at_most(c.lanes(DType::kF32), s.extent(transposed));
  const Loops parts = c.writer.split(name, s.axis_name(transposed), {step});
  outer.push_back({parts[0], parts_of(s.extent(transposed), step)});
  Loops order = names_of(outer);
  order.insert(order.end(), {s.axis_name(last), parts[1]});
  c.writer.reorder(name, order);
  c.writer.unroll(name, s.axis_name(last));
  c.writer.vectorize(name, parts[1]);
  share_out(c, name, choose_sharing(c, name, s.elements() * (4 + s.cost)), outer, limit);
}

void schedule_rows(Context& c, const Stage& s) {
  const std::string& name = s.op.name;
  const std::size_t last = vector_axis(s);
  const int transposed = transposed_axis(s);
  constexpr std::int64_t kFewChannels = 4;
  const bool narrow = size_bytes(s.dtype()) < size_bytes(DType::kF32);
  if (transposed >= 0 && narrow && s.cost > 0 && s.extent(s.rank() - 1) <= kFewChannels)
    return schedule_across(c, s, static_cast<std::size_t>(transposed));
  std::vector<OuterLoop> outer;
  Loops inner;
  const std::int64_t tile =
      transposed < 0
          ? 1
          : c.chooser.number(name, "transpose_rows", PointKind::kTile, kTransposeTile, [] {
              return std::vector<std::int64_t>{4, 8, 16};
            });
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (static_cast<int>(i) != transposed && i != last)
      outer.push_back({s.axis_name(i), s.extent(i)});
  }
  if (transposed >= 0) {
    const auto t = static_cast<std::size_t>(transposed);
    const Loops parts = c.writer.split(name, s.axis_name(t), {tile});
    outer.push_back({parts[0], parts_of(s.extent(t), tile)});
    inner.push_back(parts[1]);
    c.writer.unroll(name, parts[1]);
  }
  const std::int64_t wanted =
      transposed >= 0
          ? c.chooser.number(name, "transpose_columns", PointKind::kVector, kTransposeTile,
                             [] {
                               return std::vector<std::int64_t>{4, 8, 16};
                             })
          : c.lanes(s.dtype()) * choose_vectors(c, s, s.extent(last));
  const std::int64_t step = at_most(wanted, s.extent(last));
  const Loops parts = c.writer.split(name, s.axis_name(last), {step});
  c.writer.vectorize(name, parts[1]);
  const std::size_t limit = outer.size();
  outer.push_back({parts[0], (s.extent(last) + step - 1) / step});
  inner.push_back(parts[1]);
  Loops order = names_of(outer);
  order.insert(order.end(), inner.begin(), inner.end());
  c.writer.reorder(name, order);
  share_out(c, name, choose_sharing(c, name, s.elements() * (4 + s.cost)), outer,
            limit == 0 ? 1 : limit);
}

}  // namespace

void vectorize_last(Context& c, const Stage& s, const std::string& loop, std::int64_t extent,
                    Loops* out, std::int64_t least) {
  const std::int64_t step =
      at_most(c.lanes(s.dtype()) * choose_vectors(c, s, extent, least), extent);
  const Loops parts = c.writer.split(s.op.name, loop, {step});
  c.writer.vectorize(s.op.name, parts[1]);
  out->insert(out->end(), parts.begin(), parts.end());
}

void vectorize_part(Context& c, const Stage& s, const std::string& loop, std::int64_t extent,
                    Loops* out) {
  const std::int64_t lanes = c.lanes(s.dtype());
  std::int64_t vectors = choose_vectors(c, s, extent);
  while (extent % lanes == 0 && extent / lanes % vectors != 0) --vectors;
  const Loops parts = c.writer.split(s.op.name, loop, {at_most(lanes * vectors, extent)});
  c.writer.vectorize(s.op.name, parts[1]);
  out->insert(out->end(), parts.begin(), parts.end());
}

void schedule_pointwise(Context& c, std::size_t stage) {
  const Stage& s = c.stage(stage);
  c.done[stage] = true;
  if (s.rank() == 0 || s.elements() < 2) return;
  if (s.rank() < 2 || walks_one_line(s)) {
    schedule_line(c, s);
  } else {
    schedule_rows(c, s);
  }
}

}  // namespace tessera::space
