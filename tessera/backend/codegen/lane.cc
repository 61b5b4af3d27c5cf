#include "tessera/backend/codegen/lane.h"

#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Expr;

std::optional<std::vector<Expr>> lanes_of(const std::vector<Expr>& all, int lane) {
  std::vector<Expr> out;
  for (const Expr& e : all) {
    std::optional<Expr> one = e.lanes() == 1 ? e : lane_of(e, lane);
    if (!one) return std::nullopt;
    out.push_back(*std::move(one));
  }
  return out;
}

std::optional<Expr> lane_of_call(const ir::Call& call, int lane) {
  switch (call.fn) {
    case ir::Intrinsic::kDot4:
    case ir::Intrinsic::kDot2:
    case ir::Intrinsic::kMma2x8:
    case ir::Intrinsic::kMma2x4:
    case ir::Intrinsic::kPrefetch:
    case ir::Intrinsic::kMatrixRows:
    case ir::Intrinsic::kMatrixColumns:
    case ir::Intrinsic::kMma:
      return std::nullopt;
    default:
      break;
  }
  std::optional<std::vector<Expr>> args = lanes_of(call.args, lane);
  if (!args) return std::nullopt;
  if (call.fn == ir::Intrinsic::kBitcast)
    return ir::Call::make_bitcast(call.type.dtype, args->front());
  return ir::Call::make(call.fn, *std::move(args));
}

}  // namespace

std::optional<Expr> lane_of(const Expr& e, int lane) {
  if (e.lanes() == 1) return e;
  if (const auto* ramp = e.as<ir::Ramp>())
    return ir::add(ramp->base, ir::int_imm(lane * ramp->stride));
  if (const auto* copy = e.as<ir::Broadcast>())
    return lane_of(copy->value, lane % copy->value.lanes());
  if (const auto* shuffle = e.as<ir::Shuffle>()) {
    return lane_of(shuffle->value, shuffle->picks[static_cast<std::size_t>(lane)]);
  }
  if (const auto* call = e.as<ir::Call>()) return lane_of_call(*call, lane);
  if (const auto* load = e.as<ir::Load>()) {
    auto indices = lanes_of(load->indices, lane);
    if (!indices) return std::nullopt;
    return ir::Load::make(load->buffer, *std::move(indices));
  }
  std::vector<Expr> parts;
  if (const auto* binary = e.as<ir::Binary>()) parts = {binary->a, binary->b};
  if (const auto* select = e.as<ir::Select>())
    parts = {select->cond, select->on_true, select->on_false};
  if (const auto* cast = e.as<ir::Cast>()) parts = {cast->value};
  const auto lanes = lanes_of(parts, lane);
  if (!lanes || lanes->empty()) return std::nullopt;
  if (const auto* binary = e.as<ir::Binary>())
    return ir::Binary::make(binary->op, (*lanes)[0], (*lanes)[1]);
  if (e.as<ir::Select>()) return ir::Select::make((*lanes)[0], (*lanes)[1], (*lanes)[2]);
  return ir::Cast::make(e.dtype(), (*lanes)[0]);
}

}  // namespace tessera::codegen
