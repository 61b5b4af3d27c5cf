#include "tessera/interp/threads.h"

#include <bit>
#include <cmath>

#include "tessera/ir/launch.h"

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

// The first thread of the warp, and the number in it.
std::size_t warp_of(const Frame& frame) {
  constexpr auto kWidth = static_cast<std::size_t>(ir::kWarpThreads);
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

// An operand of tensor cores in the type of the sums. Halves of tf32 round away from zero.
Scalar operand(DType from, DType to, Scalar v) {
  if (from != DType::kF32 || !std::isfinite(v.f)) return convert(from, to, v);
  constexpr std::uint32_t kDropped = 0x1fff;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v.f));
  return of_float(std::bit_cast<float>((bits + (kDropped + 1) / 2) & ~kDropped));
}

}  // namespace

std::optional<AccessLog::Race> AccessLog::note(std::size_t element, bool write, std::int64_t phase,
                                               std::int64_t thread, std::int64_t block) {
  Touch& t = touches_[element];
  std::optional<Race> race;
  if (t.write_phase == phase && t.writer != thread) race = Race{false, t.writer};
  if (write && t.read_phase == phase && t.reader != thread) race = Race{false, t.reader};
  if (t.write_block >= 0 && t.write_block != block) race = Race{true, t.write_block};
  if (write && t.read_block != -1 && t.read_block != block) race = Race{true, t.read_block};
  if (write) {
    join(&t.writer, thread, t.write_phase != phase);
    t.write_phase = phase;
    t.write_block = block;
  } else {
    join(&t.reader, thread, t.read_phase != phase);
    t.read_phase = phase;
    join(&t.read_block, block, t.read_block == -1);
  }
  return race;
}

void note_access(Frame& frame, const Memory& memory, std::int64_t element, bool write) {
  const Threads& threads = *frame.threads;
  const auto at = static_cast<std::size_t>(element);
  const auto race = memory.log->note(at, write, threads.phase,
                                     static_cast<std::int64_t>(frame.thread), threads.block);
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

Scalar eval_shuffle(const Node& node, Frame& frame) {
  const std::size_t peer = frame.thread ^ static_cast<std::size_t>(node.args[1]->value.i);
  return eval_peer(*node.args[0], 0, peer, frame);
}

Scalar eval_matrix(const Node& node, int lane, Frame& frame) {
  const int e = elements_of_piece(node.dtype);
  const int t = in_warp(frame), q = lane / e, j = lane % e;
  if (node.fn == ir::Intrinsic::kMatrixColumns)
    return eval_peer(*node.args[0], t / 4, warp_of(frame) + idx(8 * q + t % 4 * 2 + j), frame);
  return eval_peer(*node.args[0], t % 4 * e + j, warp_of(frame) + idx(8 * q + t / 4), frame);
}

Scalar eval_mma(const Node& node, int lane, Frame& frame) {
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
