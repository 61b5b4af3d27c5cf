#include "tessera/te/ops/float_parts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "tessera/te/ops/element_types.h"

namespace tessera::te {
namespace {

constexpr std::int64_t kGroups = 2, kTerms = 3;
constexpr std::uint32_t kHalf = 0x8000, kKept = 0xffff0000;
// Whatever is larger would round to infinity.
constexpr float kMost = std::bit_cast<float>(std::uint32_t{0x7f7f0000});

// Rounded to the eight bits of bf16, as f32. Not by casts: those between the operations of a kernel
// need not round.
ir::Expr rounded(const ir::Expr& x) {
  const auto bits = [](std::uint32_t v) { return ir::int_like(ir::Type{DType::kU32}, v); };
  const ir::Expr most = ir::imm(DType::kF32, kMost), least = ir::imm(DType::kF32, -kMost);
  const ir::Expr whole =
      ir::Call::make_bitcast(DType::kU32, ir::max(ir::min(x, most), least)) + bits(kHalf);
  return ir::Call::make_bitcast(DType::kF32,
                                ir::Binary::make(ir::BinaryOp::kAnd, whole, bits(kKept)));
}

float rounded(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(std::clamp(x, -kMost, kMost));
  return std::bit_cast<float>((bits + kHalf) & kKept);
}

std::uint16_t as_bf16(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16U);
}

NamedAxes labelled(std::string_view labels, const std::map<char, std::int64_t>& extents) {
  NamedAxes axes;
  for (const char label : labels) axes.emplace_back(std::string(1, label), extents.at(label));
  return axes;
}

}  // namespace

const std::vector<std::int64_t>& part_places(Side side) {
  static const std::vector<std::int64_t> left = {0, 0, 1, 2, 0}, right = {2, 1, 0, 0};
  return side == Side::kLeft ? left : right;
}

Shape parts_shape(const Shape& x, const std::vector<std::int64_t>& places) {
  Shape out = {static_cast<std::int64_t>(places.size())};
  out.insert(out.end(), x.begin(), x.end());
  return out;
}

ir::Buffer parts_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x,
                       const std::vector<std::int64_t>& places) {
  NamedAxes axes = {{"place", static_cast<std::int64_t>(places.size())}};
  for (std::size_t d = 0; d < x->shape.size(); ++d)
    axes.emplace_back("d" + std::to_string(d), x->shape[d]);
  return b.compute(name, axes, [&](const Indices& i) {
    const ir::Expr value = at(x, Indices(i.begin() + 1, i.end()));
    const ir::Expr first = rounded(value), rest = value - first;
    const ir::Expr second = rounded(rest);
    const std::array<ir::Expr, 3> parts = {first, second, rest - second};
    ir::Expr out = parts[static_cast<std::size_t>(places.back())];
    for (std::size_t p = places.size() - 1; p-- > 0;) {
      if (places[p] == places[p + 1]) continue;
      out = ir::select(ir::le(i[0], ir::int_imm(static_cast<std::int64_t>(p))),
                       parts[static_cast<std::size_t>(places[p])], out);
    }
    return ir::cast(DType::kBF16, out);
  });
}

HostTensor float_parts(const HostTensor& x, const std::vector<std::int64_t>& places) {
  HostTensor out(DType::kBF16, parts_shape(x.shape(), places));
  const std::int64_t size = x.size();
  const auto* from = x.as<float>();
  auto* to = out.as<std::uint16_t>();
  for (std::int64_t i = 0; i < size; ++i) {
    const float first = rounded(from[i]), rest = from[i] - first, second = rounded(rest);
    const std::array<std::uint16_t, 3> parts = {as_bf16(first), as_bf16(second),
                                                as_bf16(rest - second)};
    for (std::size_t p = 0; p < places.size(); ++p)
      to[static_cast<std::int64_t>(p) * size + i] = parts[static_cast<std::size_t>(places[p])];
  }
  return out;
}

Stage contract_parts_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                           std::string_view lhs_labels, const ir::Buffer& rhs,
                           std::string_view rhs_labels, std::string_view out_labels) {
  std::map<char, std::int64_t> extents;
  std::string sums;
  const auto read = [&](const ir::Buffer& buffer, std::string_view labels) {
    for (std::size_t d = 0; d < labels.size(); ++d) {
      extents[labels[d]] = buffer->shape[d + 1];
      if ((std::string(out_labels) + sums).find(labels[d]) == std::string::npos) sums += labels[d];
    }
  };
  read(lhs, lhs_labels);
  read(rhs, rhs_labels);
  NamedAxes reduce = labelled(sums, extents);
  // Outermost: the largest term is added last, to sums as long as those of one product.
  reduce.insert(reduce.begin(), {{"group", kGroups}, {"term", kTerms}});
  Stage stage;
  stage.axes = labelled(out_labels, extents);
  const auto value = [&](const Indices& i, const Indices& r) {
    const auto load = [&](const ir::Buffer& buffer, std::string_view labels,
                          const ir::Expr& place) {
      Indices indices = {place};
      for (const char label : labels) {
        const std::size_t kept = out_labels.find(label);
        indices.push_back(kept != std::string_view::npos ? i[kept] : r[2 + sums.find(label)]);
      }
      return to_type(DType::kF32, at(buffer, indices));
    };
    return load(lhs, lhs_labels, scaled(r[0], 2) + r[1]) * load(rhs, rhs_labels, r[0] + r[1]);
  };
  stage.buffer = b.reduce(name, Reducer::kSum, stage.axes, reduce, value);
  return stage;
}

}  // namespace tessera::te
