#include "tessera/lang/interp/threads.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tessera/lang/ir/group_tile.h"

namespace tessera::interp {
namespace {

constexpr std::int64_t kMany = -2;

// `who` joins `member`, which is empty when `fresh`.
void join(std::int64_t* member, std::int64_t who, bool fresh) {
  if (fresh) {
    *member = who;
  } else if (*member != who) {
    *member = kMany;
  }
}

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

// The first of the threads that hold fragments of one product, and the number among them.
std::size_t warp_of(const Frame& frame) {
  constexpr auto kWidth = static_cast<std::size_t>(ir::kFragmentThreads);
  return frame.thread / kWidth * kWidth;
}
int in_warp(const Frame& frame) { return static_cast<int>(frame.thread - warp_of(frame)); }

int elements_of_piece(DType t) { return 4 / size_bytes(t); }

// What another thread of the block has for the lane.
Scalar eval_peer(const Node& node, int lane, std::size_t peer, Frame& frame) {
  TESSERA_CHECK(frame.threads, "exchange outside a launch");
  Threads& threads = *frame.threads;
  if (peer < threads.frames.size() && threads.active[peer] != 0)
    return eval(node, lane, threads.frames[peer]);
  if (!frame.error) {
    frame.error = make_error(ErrorCode::kRunFailed,
                             "exchange with thread {}, which does not take part", peer);
  }
  return of_int(0);
}

constexpr std::uint32_t kDropped = 0x1fff;  // bits of f32 that tf32 does not have

// An operand of tensor cores in the type of the sums. Halves of tf32 round away from zero.
Scalar operand(DType from, DType to, Scalar v) {
  if (from != DType::kF32 || !std::isfinite(v.f)) return convert(from, to, v);
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v.f));
  return of_float(std::bit_cast<float>((bits + (kDropped + 1) / 2) & ~kDropped));
}

// The same of tiles in shared memory: what tf32 does not have is dropped.
Scalar from_tile(DType from, DType to, Scalar v) {
  if (from != DType::kF32) return convert(from, to, v);
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v.f));
  return of_float(std::bit_cast<float>(bits & ~kDropped));
}

// A tile of shared memory, by its first element.
struct Tile {
  DType type;
  std::size_t slot = 0;
  std::int64_t first = 0;
  bool rows = false;  // the elements of a sum are side by side

  // Element `k` of the sum of row or column `side`.
  std::int64_t element(std::int64_t side, std::int64_t k) const {
    const std::int64_t row = ir::tile_row(type);
    return ir::swizzled(type, rows ? first + side * row + k
                                   : first + side / row * row * row + k * row + side % row);
  }
};

std::optional<Tile> tile_of(const Node& operand, std::int64_t sides, Frame& frame) {
  const Node& load = *operand.args[0];
  const auto first = element_of(load.slot, load.args, 0, "read", frame);
  if (!first) return std::nullopt;
  const Tile tile{operand.dtype, load.slot, *first, operand.fn == ir::Intrinsic::kMatrixRows};
  const Memory& memory = *frame.memory[load.slot];
  const std::int64_t row = ir::tile_row(operand.dtype);
  const std::int64_t end = tile.rows ? sides * row : (sides + row - 1) / row * row * row;
  if (*first + end <= memory.data.size()) return tile;
  if (!frame.error) {
    frame.error = make_error(ErrorCode::kRunFailed, "a tile of {} ends beyond its {} elements",
                             memory.buffer->name, memory.data.size());
  }
  return std::nullopt;
}

// One sum of a product of a group: threads hold of its 64 rows what those of a warp hold of 16.
Scalar eval_group(const Node& node, int lane, Frame& frame) {
  const auto t = static_cast<int>(frame.thread % static_cast<std::size_t>(ir::kGroupThreads));
  const int row = t / 32 * 16 + lane % 4 / 2 * 8 + t % 32 / 4;
  const int column = lane / 4 * 8 + t % 4 * 2 + lane % 2;
  const auto a = tile_of(*node.args[1], ir::kGroupRows, frame);
  const auto b = tile_of(*node.args[2], std::int64_t{2} * node.lanes, frame);
  const Node& sums = *node.args[0];
  const auto old = element_of(sums.slot, sums.args, lane, "read", frame);
  if (!a || !b || !old) return of_int(0);
  Scalar sum = frame.memory[sums.slot]->get(*old);
  for (std::int64_t k = 0; k < ir::tile_row(a->type); ++k) {
    const Scalar x = frame.memory[a->slot]->get(a->element(row, k));
    const Scalar y = frame.memory[b->slot]->get(b->element(column, k));
    const Scalar product =
        binary(ir::BinaryOp::kMul, node.dtype, from_tile(node.args[1]->dtype, node.dtype, x),
               from_tile(node.args[2]->dtype, node.dtype, y));
    sum = binary(ir::BinaryOp::kAdd, node.dtype, sum, product);
  }
  return sum;
}

}  // namespace

bool is_group_product(const Node& node) {
  return node.kind == ir::ExprKind::kCall && node.fn == ir::Intrinsic::kMma &&
         node.args[1]->lanes == 1;
}

Threads::Product start_product(const Node& node, Frame& frame) {
  Threads::Product out;
  const Node& sums = *node.args[0];
  for (int lane = 0; lane < node.lanes; ++lane) {
    if (const auto e = element_of(sums.slot, sums.args, lane, "read", frame))
      out.sums.push_back({sums.slot, *e});
  }
  const auto t = static_cast<std::int64_t>(frame.thread) % ir::kGroupThreads;
  for (const std::size_t i : {1u, 2u}) {
    const std::int64_t sides = i == 1 ? ir::kGroupRows : std::int64_t{2} * node.lanes;
    const auto tile = tile_of(*node.args[i], sides, frame);
    if (!tile) return out;
    const std::int64_t depth = ir::tile_row(tile->type);
    for (std::int64_t n = t; n < sides * depth; n += ir::kGroupThreads) {
      const std::int64_t element = tile->element(n / depth, n % depth);
      const Memory& memory = *frame.memory[tile->slot];
      note_access(frame, memory, element, false);
      if (memory.defined[static_cast<std::size_t>(element)] == 0 && !frame.error) {
        frame.error = make_error(ErrorCode::kRunFailed, "read of undefined element {} of {}",
                                 element, memory.buffer->name);
      }
      out.operands.push_back({tile->slot, element});
    }
  }
  return out;
}

void finish_products(std::size_t left, Frame& frame) {
  auto& products = frame.threads->queues[frame.thread].products;
  while (products.size() > left) {
    for (const Threads::Use& u : products.front().sums)
      --frame.memory[u.slot]->in_flight[static_cast<std::size_t>(u.element)];
    // Until now the tiles were in use.
    for (const Threads::Use& u : products.front().operands)
      note_access(frame, *frame.memory[u.slot], u.element, false);
    products.erase(products.begin());
  }
}

void AccessLog::Members::add(const Members& other) {
  if (other.empty()) return;
  first = empty() ? other.first : std::min(first, other.first);
  last = std::max(last, other.last);
}

std::optional<std::int64_t> AccessLog::Kind::racing(const Time& now, std::int64_t thread) const {
  if (phase != now.phase) return std::nullopt;
  const auto other = [](const Members& m) { return m.first == m.last ? m.first : kMany; };
  Members ordered = before;
  if (moment != now.moment) {
    ordered.add(at_moment);
  } else if (!at_moment.empty() && (at_moment.first != thread || at_moment.last != thread)) {
    return other(at_moment);
  }
  // Threads of other groups may be anywhere in the phase.
  if (ordered.empty() || (ordered.first == thread && ordered.last == thread)) return std::nullopt;
  const std::int64_t group = thread / now.group;
  if (ordered.first / now.group == group && ordered.last / now.group == group) return std::nullopt;
  return other(ordered);
}

void AccessLog::Kind::add(const Time& now, std::int64_t thread) {
  if (phase != now.phase) before = at_moment = {};
  if (phase == now.phase && moment != now.moment) {
    before.add(at_moment);
    at_moment = {};
  }
  phase = now.phase;
  moment = now.moment;
  at_moment.add({thread, thread});
}

std::optional<AccessLog::Race> AccessLog::note(std::size_t element, bool write, const Time& now,
                                               std::int64_t thread, std::int64_t block) {
  Touch& t = touches_[element];
  std::optional<Race> race;
  if (const auto other = t.write.racing(now, thread)) race = Race{false, *other};
  if (const auto other = write ? t.read.racing(now, thread) : std::nullopt)
    race = Race{false, *other};
  if (t.write_block >= 0 && t.write_block != block) race = Race{true, t.write_block};
  if (write && t.read_block != -1 && t.read_block != block) race = Race{true, t.read_block};
  if (write) {
    t.write.add(now, thread);
    t.write_block = block;
  } else {
    t.read.add(now, thread);
    join(&t.read_block, block, t.read_block == -1);
  }
  return race;
}

void note_access(Frame& frame, const Memory& memory, std::int64_t element, bool write) {
  const Threads& threads = *frame.threads;
  const auto at = static_cast<std::size_t>(element);
  std::optional<AccessLog::Race> race;
  for (std::size_t i = 0; i < memory.log_width; ++i) {
    const auto found =
        memory.log->note(memory.log_begin + at * memory.log_width + i, write, threads.now,
                         static_cast<std::int64_t>(frame.thread), threads.block);
    if (found) race = found;
  }
  if (frame.error) return;
  if (race) {
    frame.error = make_error(
        ErrorCode::kRunFailed, "race: {} of element {} of {}, which {} {} also touches",
        write ? "store" : "read", element, memory.buffer->name, race->blocks ? "block" : "thread",
        race->other == kMany ? std::string("of several") : std::to_string(race->other));
  } else if (!memory.in_flight.empty() && memory.in_flight[at] != 0) {
    frame.error = make_error(ErrorCode::kRunFailed,
                             "{} of element {} of {} before the copy to it was waited for",
                             write ? "store" : "read", element, memory.buffer->name);
  }
}

Scalar eval_shuffle(const Node& node, int lane, Frame& frame) {
  const std::size_t peer = frame.thread ^ static_cast<std::size_t>(node.args[1]->value.i);
  return eval_peer(*node.args[0], lane, peer, frame);
}

Scalar eval_matrix(const Node& node, int lane, Frame& frame) {
  const int e = elements_of_piece(node.dtype);
  const int t = in_warp(frame), q = lane / e, j = lane % e;
  if (node.fn == ir::Intrinsic::kMatrixColumns)
    return eval_peer(*node.args[0], t / 4, warp_of(frame) + idx(8 * q + t % 4 * 2 + j), frame);
  return eval_peer(*node.args[0], t % 4 * e + j, warp_of(frame) + idx(8 * q + t / 4), frame);
}

Scalar eval_mma(const Node& node, int lane, Frame& frame) {
  if (is_group_product(node)) return eval_group(node, lane, frame);
  const Node& a = *node.args[1];
  const Node& b = *node.args[2];
  const int e = elements_of_piece(a.dtype);
  const int t = in_warp(frame);
  const int row = t / 4 + lane / 2 * 8, column = t % 4 * 2 + lane % 2;
  Scalar sum = eval(*node.args[0], lane, frame);
  for (int k = 0; k < 8 * e; ++k) {
    const int piece = k / (4 * e), inside = k % (4 * e);  // which half of k, and where there
    const std::size_t a_holder = warp_of(frame) + idx(row % 8 * 4 + inside / e);
    const std::size_t b_holder = warp_of(frame) + idx(column * 4 + inside / e);
    const Scalar x = eval_peer(a, (2 * piece + row / 8) * e + k % e, a_holder, frame);
    const Scalar y = eval_peer(b, piece * e + k % e, b_holder, frame);
    const Scalar product = binary(ir::BinaryOp::kMul, node.dtype, operand(a.dtype, node.dtype, x),
                                  operand(b.dtype, node.dtype, y));
    sum = binary(ir::BinaryOp::kAdd, node.dtype, sum, product);
  }
  return sum;
}

}  // namespace tessera::interp
