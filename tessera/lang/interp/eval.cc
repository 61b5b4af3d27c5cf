#include <fmt/ranges.h>

#include "tessera/lang/interp/program.h"
#include "tessera/lang/interp/threads.h"

namespace tessera::interp {
namespace {

using ir::BinaryOp;
using ir::ExprKind;
using ir::Intrinsic;

// Scalars stand for every lane.
Scalar eval_arg(const Node& node, std::size_t arg, int lane, Frame& frame) {
  const Node& child = *node.args[arg];
  return eval(child, child.lanes == 1 ? 0 : lane, frame);
}

Scalar eval_load(const Node& node, int lane, Frame& frame) {
  const std::optional<std::int64_t> element = element_of(node.slot, node.args, lane, "read", frame);
  if (!element) return of_int(0);
  const Memory& memory = *frame.memory[node.slot];
  if (memory.log) {
    note_access(frame, memory, *element, false);
  } else if (!memory.in_flight.empty() &&
             memory.in_flight[static_cast<std::size_t>(*element)] != 0 && !frame.error) {
    frame.error =
        make_error(ErrorCode::kRunFailed, "read of element {} of {} before its product ended",
                   *element, memory.buffer->name);
  }
  const bool defined =
      memory.defined.empty() || memory.defined[static_cast<std::size_t>(*element)] != 0;
  if (!defined && frame.demand) {
    frame.demand(node.slot, *element);
  } else if (!defined && !frame.error) {
    frame.error = make_error(ErrorCode::kRunFailed, "read of undefined element {} of {}", *element,
                             memory.buffer->name);
  }
  return memory.get(*element);
}

// acc + sum_q a[a_first + q] * b[b_first + q], in order, in the type of the accumulator.
Scalar dot(const Node& node, int lane, int a_first, int b_first, int count, Frame& frame) {
  Scalar acc = eval(*node.args[0], lane, frame);
  for (int q = 0; q < count; ++q) {
    const Scalar a =
        convert(node.args[1]->dtype, node.dtype, eval(*node.args[1], a_first + q, frame));
    const Scalar b =
        convert(node.args[2]->dtype, node.dtype, eval(*node.args[2], b_first + q, frame));
    acc = binary(BinaryOp::kAdd, node.dtype, acc, binary(BinaryOp::kMul, node.dtype, a, b));
  }
  return acc;
}

Scalar eval_call(const Node& node, int lane, Frame& frame) {
  switch (node.fn) {
    case Intrinsic::kPrefetch:
    case Intrinsic::kAsyncCopy:  // their effects are those of the statement
    case Intrinsic::kAsyncCommit:
    case Intrinsic::kAsyncWait:
    case Intrinsic::kProductsWait:
      return of_int(0);
    case Intrinsic::kShuffleXor:
      return eval_shuffle(node, lane, frame);
    case Intrinsic::kMatrixRows:
    case Intrinsic::kMatrixColumns:
      return eval_matrix(node, lane, frame);
    case Intrinsic::kMma:
      return eval_mma(node, lane, frame);
    case Intrinsic::kTileZero:
    case Intrinsic::kTileLoad:
    case Intrinsic::kTileDot:
    case Intrinsic::kTileStore:
      run_tile(node, frame);
      return of_int(0);
    case Intrinsic::kDot4:
      return dot(node, lane, 4 * lane, 4 * lane, 4, frame);
    case Intrinsic::kDot2:
      return dot(node, lane, 2 * lane, 2 * lane, 2, frame);
    case Intrinsic::kMma2x8:
      return dot(node, lane, 8 * (lane / 2), 8 * (lane % 2), 8, frame);
    case Intrinsic::kMma2x4:
      return dot(node, lane, 4 * (lane / 2), 4 * (lane % 2), 4, frame);
    default:
      break;
  }
  const DType from = node.args[0]->dtype;
  const Scalar a = eval_arg(node, 0, lane, frame);
  if (node.fn == Intrinsic::kBitcast) return bitcast(from, node.dtype, a);
  if (node.args.size() == 1) return unary(node.fn, from, a);
  const Scalar b = eval_arg(node, 1, lane, frame);
  if (node.fn == Intrinsic::kPow) return power(from, a, b);
  TESSERA_CHECK(node.fn == Intrinsic::kFma, "interp: intrinsic {} has no definition",
                ir::to_text(node.fn));
  return fused_multiply_add(from, a, b, eval_arg(node, 2, lane, frame));
}

}  // namespace

Scalar Memory::get(std::int64_t element) const {
  return is_float(data.dtype()) ? of_float(data.get_float(element)) : of_int(data.get_int(element));
}

void Memory::set(std::int64_t element, Scalar v) {
  if (is_float(data.dtype())) {
    data.set_float(element, v.f);
  } else {
    data.set_int(element, v.i);
  }
  if (!defined.empty()) defined[static_cast<std::size_t>(element)] = 1;
}

std::optional<std::int64_t> element_of(std::size_t slot, const std::vector<const Node*>& indices,
                                       int lane, const char* access, Frame& frame) {
  const Memory& memory = *frame.memory[slot];
  const std::vector<std::int64_t>& shape = memory.buffer->shape;
  std::int64_t element = 0;
  bool inside = true;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const std::int64_t index = eval(*indices[d], indices[d]->lanes == 1 ? 0 : lane, frame).i;
    inside = inside && index >= 0 && index < shape[d];
    if (inside) element = element * shape[d] + index;
  }
  if (inside) return element;
  if (!frame.error) {
    std::vector<std::int64_t> where;
    for (const Node* index : indices)
      where.push_back(eval(*index, index->lanes == 1 ? 0 : lane, frame).i);
    frame.error = make_error(ErrorCode::kRunFailed, "out-of-bounds {} of {}[{}], shape {}", access,
                             memory.buffer->name, fmt::join(where, ", "), to_text(shape));
  }
  return std::nullopt;
}

Scalar eval(const Node& node, int lane, Frame& frame) {
  switch (node.kind) {
    case ExprKind::kIntImm:
    case ExprKind::kFloatImm:
      return node.value;
    case ExprKind::kVar:
      return of_int(frame.vars[node.slot]);
    case ExprKind::kBinary: {
      const Scalar a = eval_arg(node, 0, lane, frame);
      return binary(node.op, node.args[0]->dtype, a, eval_arg(node, 1, lane, frame));
    }
    case ExprKind::kSelect:
      return eval_arg(node, eval_arg(node, 0, lane, frame).i != 0 ? 1 : 2, lane, frame);
    case ExprKind::kCast:
      return convert(node.args[0]->dtype, node.dtype, eval_arg(node, 0, lane, frame));
    case ExprKind::kLoad:
      return eval_load(node, lane, frame);
    case ExprKind::kRamp: {
      const Scalar offset = binary(BinaryOp::kMul, DType::kI64, node.value, of_int(lane));
      return binary(BinaryOp::kAdd, DType::kI64, eval(*node.args[0], 0, frame), offset);
    }
    case ExprKind::kBroadcast:
      return eval(*node.args[0], lane % node.args[0]->lanes, frame);
    case ExprKind::kShuffle:
      return eval(*node.args[0], node.picks[static_cast<std::size_t>(lane)], frame);
    case ExprKind::kCall:
      return eval_call(node, lane, frame);
  }
  return of_int(0);
}

}  // namespace tessera::interp
