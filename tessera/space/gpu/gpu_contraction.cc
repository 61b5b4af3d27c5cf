#include <algorithm>
#include <array>

#include "tessera/space/contraction.h"
#include "tessera/space/gpu/gpu.h"
#include "tessera/space/tile.h"

namespace tessera::space {
namespace {

// What launches get without asking for more, and what a thread needs beside its sums.
constexpr std::int64_t kSharedBytes = 48 << 10;
constexpr std::int64_t kOtherRegisters = 32;
constexpr std::int64_t kMaxSums = 64;

struct GpuTile {
  std::int64_t thread_rows = 8, thread_columns = 16;  // threads of a block
  std::int64_t rows = 4, columns = 4;                 // sums of a thread
  std::int64_t steps = 8;                             // of the reduction in shared memory at once

  std::int64_t threads() const { return thread_rows * thread_columns; }
};

class GpuContraction {
 public:
  GpuContraction(Context& context, Contraction c, Host host)
      : x_(context),
        c_(std::move(c)),
        host_(std::move(host)),
        s_(context.stage(c_.stage)),
        h_(context.stage(host_.stage)),
        self_(host_.stage == c_.stage),
        block_axis_(longest_reduce()) {}

  void run() {
    choose();
    Writer& w = x_.writer;
    const std::string& outer = h_.op.name;
    inner_ = self_ ? w.cache_write(s_.op.name, "local") : s_.op.name;
    std::vector<std::string> copies;
    for (const Access* a : {&c_.a, &c_.b}) {
      if (shares(*a)) copies.push_back(copy(*a));
    }
    const Loops threads = write_outer(outer);
    w.compute_at(inner_, outer, threads.back());
    const std::string step = write_inner();
    for (const std::string& name : copies) w.compute_at(name, inner_, step);
    for (const Access* a : {&c_.a, &c_.b}) {
      if (shares(*a)) write_copy(*a);
    }
    x_.done[c_.stage] = true;
    x_.done[host_.stage] = true;
  }

 private:
  const std::string& name() const { return s_.op.name; }
  std::int64_t row_extent() const {
    return c_.row < 0 ? 1 : s_.extent(static_cast<std::size_t>(c_.row));
  }
  std::size_t longest_reduce() const {
    std::size_t out = c_.reduce.back();
    for (const std::size_t r : c_.reduce) {
      if (s_.extent(r) > s_.extent(out)) out = r;
    }
    return out;
  }
  bool shares(const Access& a) const { return &a == &c_.a ? share_a_ : share_b_; }

  std::int64_t most_threads() const {
    return std::max<std::int64_t>(1, x_.target.gpu.block_threads);
  }
  std::int64_t shared_limit() const {
    const std::int64_t own = x_.target.gpu.block_shared_bytes;
    return own > 0 ? std::min(own, kSharedBytes) : kSharedBytes;
  }

  const char* refuse_threads(std::int64_t threads) const {
    return threads > most_threads() ? "more threads than a block has" : nullptr;
  }
  // Sums of a thread, and registers of all threads of a block.
  const char* refuse_sums(std::int64_t sums) const {
    const std::int64_t registers = sums + kOtherRegisters;
    const bool fits = sums <= kMaxSums && registers <= x_.target.vector_registers &&
                      registers * tile_.threads() <= x_.target.gpu.core_registers;
    return fits ? nullptr : "more sums than registers";
  }

  // Elements of an operand that a block needs for some steps.
  std::int64_t shared_bytes(const Access& a) const {
    const auto length = [&](std::size_t axis) -> std::int64_t {
      if (axis == c_.vector) return at_most(tile_.thread_columns * tile_.columns, s_.extent(axis));
      if (static_cast<int>(axis) == c_.row)
        return at_most(tile_.thread_rows * tile_.rows, s_.extent(axis));
      if (axis == block_axis_) return at_most(tile_.steps, s_.extent(axis));
      return axis < s_.rank() ? 1 : s_.extent(axis);
    };
    std::int64_t out = size_bytes(a.buffer->dtype);
    for (std::size_t d = 0; d < a.indices.size(); ++d) {
      std::int64_t span = 1;
      for (const IndexTerm& t : a.indices[d].terms)
        span += std::abs(t.coefficient) * (length(t.axis) - 1);
      if (!a.indices[d].irregular.empty()) span = a.buffer->shape[d];
      out *= std::min(span, std::max<std::int64_t>(1, a.buffer->shape[d]));
    }
    return out;
  }

  void choose() {
    GpuTile preferred;
    preferred.thread_rows = c_.row < 0 ? 1 : preferred.thread_rows;
    preferred.rows = c_.row < 0 ? 1 : preferred.rows;
    while (preferred.rows > 1 && preferred.thread_rows * preferred.rows > row_extent())
      preferred.rows /= 2;
    while (preferred.columns > 1 &&
           preferred.thread_columns * preferred.columns > s_.extent(c_.vector))
      preferred.columns /= 2;
    const auto number = [&](const char* what, std::int64_t value, std::int64_t most,
                            std::initializer_list<std::int64_t> values, const auto& refusal) {
      return x_.chooser.number(
          name(), what, DecisionKind::kThread, value,
          [&] {
            std::vector<std::int64_t> out = {1};
            for (const std::int64_t v : values) {
              if (v < 2 * most) out.push_back(v);
            }
            return out;
          },
          refusal);
    };
    tile_ = {.thread_rows = 1, .thread_columns = 1, .rows = 1, .columns = 1};
    tile_.thread_rows =
        number("thread_rows", preferred.thread_rows, row_extent(), {2, 4, 8, 16, 32},
               [&](std::int64_t n) { return refuse_threads(n); });
    tile_.thread_columns =
        number("thread_columns", preferred.thread_columns, s_.extent(c_.vector), {4, 8, 16, 32, 64},
               [&](std::int64_t n) { return refuse_threads(n * tile_.thread_rows); });
    tile_.rows = number("rows", preferred.rows, row_extent(), {2, 4, 6, 8},
                        [&](std::int64_t n) { return refuse_sums(n); });
    tile_.columns = number("columns", preferred.columns, s_.extent(c_.vector), {2, 4, 8},
                           [&](std::int64_t n) { return refuse_sums(n * tile_.rows); });
    tile_.steps = number("steps", preferred.steps, s_.extent(block_axis_), {2, 4, 8, 16, 32},
                         [](std::int64_t) -> const char* { return nullptr; });
    choose_copies();
  }

  // An operand that is used by one row of threads alone gains nothing.
  void choose_copies() {
    const bool same = c_.a.buffer == c_.b.buffer;
    std::int64_t used = 0;
    const auto share = [&](const char* what, const Access& a, std::int64_t users) {
      const std::int64_t bytes = shared_bytes(a);
      const bool fits = used + bytes <= shared_limit();
      const bool yes =
          !same && a.regular() &&
          x_.chooser.flag(
              name(), what, DecisionKind::kCache, users > 1 && fits, [&](std::int64_t value) {
                return value == 1 && !fits ? "more than the shared memory of a block" : nullptr;
              });
      if (yes) used += bytes;
      return yes;
    };
    share_a_ = share("share_a", c_.a, tile_.thread_columns);
    share_b_ = share("share_b", c_.b, tile_.thread_rows);
    // What does not fit although reasoning prefers it.
    if (used > shared_limit()) share_a_ = share_b_ = false;
  }

  std::string copy(const Access& a) {
    return x_.writer.cache_read(a.buffer->name, inner_, "shared");
  }

  std::string host_axis(std::size_t axis) const { return h_.axis_name(host_.axis[axis]); }

  // Blocks, then threads, then the sums of one; returns the loops of blocks and of threads.
  Loops write_outer(const std::string& outer) {
    Writer& w = x_.writer;
    Loops blocks, threads, sums;
    std::vector<bool> mapped(h_.rank(), false);
    for (const std::size_t a : host_.axis) mapped[a] = true;
    for (std::size_t i = 0; i < h_.rank(); ++i) {
      if (!mapped[i]) blocks.push_back(h_.axis_name(i));
    }
    for (const auto* axes : {&c_.units, &c_.batch, &c_.rows, &c_.columns}) {
      for (const std::size_t i : *axes) blocks.push_back(host_axis(i));
    }
    const auto split = [&](std::size_t axis, std::int64_t of_threads, std::int64_t of_sums) {
      const Loops l =
          w.split(outer, host_axis(axis), {of_threads, of_sums}, schedule::Tail::kGuard);
      blocks.push_back(l[0]);
      threads.push_back(l[1]);
      sums.push_back(l[2]);
    };
    if (c_.row >= 0) split(static_cast<std::size_t>(c_.row), tile_.thread_rows, tile_.rows);
    split(c_.vector, tile_.thread_columns, tile_.columns);
    Loops order = blocks;
    order.insert(order.end(), threads.begin(), threads.end());
    order.insert(order.end(), sums.begin(), sums.end());
    w.reorder(outer, order);
    const std::string block = w.fuse(outer, blocks), thread = w.fuse(outer, threads);
    w.annotate(outer, block, schedule::Annotation::kBlockX);
    w.annotate(outer, thread, schedule::Annotation::kThreadX);
    for (const std::string& loop : sums) w.unroll(outer, loop);
    return {block, thread};
  }

  // The sums of a thread, some steps at a time; returns the loop around those steps.
  std::string write_inner() {
    Writer& w = x_.writer;
    const Loops steps =
        w.split(inner_, s_.axis_name(block_axis_), {tile_.steps}, schedule::Tail::kGuard);
    Loops order = {steps[0]};
    for (const std::size_t r : c_.reduce) {
      if (r != block_axis_) order.push_back(s_.axis_name(r));
    }
    order.push_back(steps[1]);
    for (std::size_t i = 0; i < s_.rank(); ++i) {
      if (i != c_.vector && static_cast<int>(i) != c_.row) order.push_back(s_.axis_name(i));
    }
    Loops sums;
    if (c_.row >= 0) sums.push_back(s_.axis_name(static_cast<std::size_t>(c_.row)));
    sums.push_back(s_.axis_name(c_.vector));
    order.insert(order.end(), sums.begin(), sums.end());
    w.reorder(inner_, order);
    for (const std::string& loop : sums) w.unroll(inner_, loop);
    return steps[0];
  }

  // All threads of a block, element after element.
  void write_copy(const Access& a) {
    Writer& w = x_.writer;
    const std::string stage = a.buffer->name + ".shared";
    Loops dims;
    for (std::size_t d = 0; d < a.indices.size(); ++d) dims.push_back("d" + std::to_string(d));
    const Loops parts =
        w.split(stage, w.fuse(stage, dims), {tile_.threads()}, schedule::Tail::kGuard);
    w.annotate(stage, parts[1], schedule::Annotation::kThreadX);
  }

  Context& x_;
  Contraction c_;
  Host host_;
  const Stage& s_;
  const Stage& h_;
  bool self_;
  std::size_t block_axis_;  // reduce axis that goes through shared memory step by step
  GpuTile tile_;
  bool share_a_ = false, share_b_ = false;
  std::string inner_;  // stage of the sums
};

}  // namespace

bool schedule_gpu_contraction(Context& context, std::size_t stage) {
  auto placed = place_contraction(context, stage);
  if (!placed || placed->contraction.reduce.empty()) return false;
  GpuContraction(context, std::move(placed->contraction), std::move(placed->host)).run();
  return true;
}

}  // namespace tessera::space
