#include "tessera/lang/te/ops/rounded_product.h"

#include <fmt/format.h>

#include "tessera/lang/te/ops/element_types.h"

namespace tessera::te {
namespace {

constexpr double kMostByte = 127;
constexpr double kLeastStep = 1e-30;  // its reciprocal is a number

Indices joined(Indices a, std::initializer_list<ir::Expr> more) {
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

NamedAxes joined(NamedAxes a, const NamedAxes& more) {
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

ir::Expr f32(const ir::Expr& v) { return to_type(DType::kF32, v); }

// The left operand in bytes.
struct Rounded {
  NamedAxes rows;
  ir::Buffer bytes;       // [rows.., blocks, elements]
  ir::Buffer step, sums;  // [rows.., blocks]: what a byte of 1 stands for, and the sum of the bytes
};

Rounded rounded(DagBuilder& b, const std::string& name, const ir::Buffer& x, std::int64_t block) {
  Rounded out;
  const std::size_t rank = x->shape.size() - 1;
  for (std::size_t d = 0; d < rank; ++d) out.rows.emplace_back(fmt::format("i{}", d), x->shape[d]);
  const NamedAxes blocks = joined(out.rows, {{"g", x->shape.back() / block}});
  const NamedAxes elements = {{"e", block}};
  const auto element = [&](const Indices& i, const ir::Expr& e) {
    Indices at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(rank));
    at.push_back(i[rank] * block + e);
    return f32(te::at(x, at));
  };
  out.step = b.reduce(name + ".step", Reducer::kMax, blocks, elements,
                      [&](const Indices& i, const Indices& r) {
                        return ir::call(ir::Intrinsic::kAbs, {element(i, r[0])}) *
                               ir::imm(DType::kF32, 1 / kMostByte);
                      });
  out.bytes = b.compute(name + ".bytes", joined(blocks, elements), [&](const Indices& i) {
    const ir::Expr step = at(out.step, Indices(i.begin(), i.end() - 1));
    const ir::Expr scale =
        ir::select(ir::gt(step, ir::imm(DType::kF32, kLeastStep)),
                   ir::div(ir::imm(DType::kF32, 1), step), ir::imm(DType::kF32, 0));
    return ir::cast(DType::kI8, ir::call(ir::Intrinsic::kRound, {element(i, i.back()) * scale}));
  });
  out.sums = b.reduce(
      name + ".sums", Reducer::kSum, blocks, elements,
      [&](const Indices& i, const Indices& r) { return f32(at(out.bytes, joined(i, {r[0]}))); });
  return out;
}

// dots[g, rows.., j], the columns innermost.
ir::Buffer dots_stage(DagBuilder& b, const std::string& name, const Rounded& x,
                      const RoundedWeights& w) {
  const std::int64_t bytes = w.data->shape[2], parts = 8 / w.bits;
  NamedAxes axes = joined(NamedAxes{{"g", w.blocks()}}, x.rows);
  axes.emplace_back("j", w.columns());
  NamedAxes sums = {{"e", bytes}};
  if (parts > 1) sums.insert(sums.begin(), {"h", parts});
  const auto value = [&](const Indices& i, const Indices& r) {
    const Indices rows(i.begin() + 1, i.end() - 1);
    const ir::Expr& e = r.back();
    ir::Expr q = at(w.data, {i.back(), i[0], e});
    if (parts > 1) {
      const auto number = [](std::int64_t v) { return ir::int_like({DType::kU8}, v); };
      const ir::Expr shift = ir::cast(DType::kU8, r[0] * w.bits);
      q = ir::Binary::make(ir::BinaryOp::kAnd, ir::Binary::make(ir::BinaryOp::kShr, q, shift),
                           number((1 << w.bits) - 1));
    }
    const ir::Expr within = parts > 1 ? r[0] * bytes + e : e;
    return ir::cast(DType::kI32, at(x.bytes, joined(rows, {i[0], within}))) *
           ir::cast(DType::kI32, q);
  };
  return b.reduce(name + ".dots", Reducer::kSum, axes, sums, value);
}

}  // namespace

Stage rounded_product_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                            const RoundedWeights& w) {
  const Rounded left = rounded(b, name, x, w.block());
  const ir::Buffer dots = dots_stage(b, name, left, w);
  const std::int64_t per_group = w.blocks() / w.scale->shape[1];
  Stage stage;
  stage.axes = joined(left.rows, {{"j", w.columns()}});
  const auto value = [&](const Indices& i, const Indices& r) {
    const Indices rows(i.begin(), i.end() - 1), block = joined(rows, {r[0]});
    const ir::Expr group = per_group > 1 ? ir::floor_div(r[0], ir::int_imm(per_group)) : r[0];
    const auto shared = [&](const ir::Buffer& of) { return f32(at(of, {i.back(), group})); };
    Indices place = {r[0]};
    place.insert(place.end(), i.begin(), i.end());
    const ir::Expr sums = at(left.sums, block);
    ir::Expr sum = f32(at(dots, place));
    if (w.offset != 0) sum = sum - sums * ir::imm(DType::kF32, static_cast<double>(w.offset));
    if (w.zero && !w.adds) sum = sum - sums * shared(w.zero);
    sum = sum * shared(w.scale);
    if (w.zero && w.adds) sum = sum + sums * shared(w.zero);
    return sum * at(left.step, block);
  };
  stage.buffer = b.reduce(name, Reducer::kSum, stage.axes, {{"g", w.blocks()}}, value);
  return stage;
}

}  // namespace tessera::te
