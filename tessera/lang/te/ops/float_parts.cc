#include "tessera/lang/te/ops/float_parts.h"

#include <algorithm>
#include <bit>
#include <map>

#include "tessera/lang/te/ops/element_types.h"

namespace tessera::te {
namespace {

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

// The part that a term takes of one side.
ir::Expr part_of(const ir::Expr& term, std::int64_t PartTerm::*side) {
  ir::Expr out = ir::int_imm(kPartTerms.back().*side);
  for (std::size_t t = kPartTerms.size() - 1; t-- > 0;) {
    if (kPartTerms[t].*side == kPartTerms[t + 1].*side) continue;
    out = ir::select(ir::le(term, ir::int_imm(static_cast<std::int64_t>(t))),
                     ir::int_imm(kPartTerms[t].*side), out);
  }
  return out;
}

NamedAxes labelled(std::string_view labels, const std::map<char, std::int64_t>& extents) {
  NamedAxes axes;
  for (const char label : labels) axes.emplace_back(std::string(1, label), extents.at(label));
  return axes;
}

}  // namespace

Shape parts_shape(const Shape& x) {
  Shape out = {kFloatParts};
  out.insert(out.end(), x.begin(), x.end());
  return out;
}

ir::Buffer parts_stage(DagBuilder& b, const std::string& name, const ir::Buffer& x) {
  NamedAxes axes = {{"part", kFloatParts}};
  for (std::size_t d = 0; d < x->shape.size(); ++d)
    axes.emplace_back("d" + std::to_string(d), x->shape[d]);
  return b.compute(name, axes, [&](const Indices& i) {
    const ir::Expr value = at(x, Indices(i.begin() + 1, i.end()));
    const ir::Expr first = rounded(value), rest = value - first;
    const ir::Expr second = rounded(rest);
    const auto before = [&](std::int64_t part) { return ir::lt(i[0], ir::int_imm(part)); };
    return ir::cast(DType::kBF16,
                    ir::select(before(1), first, ir::select(before(2), second, rest - second)));
  });
}

ir::Buffer whole_stage(DagBuilder& b, const std::string& name, const ir::Buffer& parts) {
  NamedAxes axes;
  for (std::size_t d = 1; d < parts->shape.size(); ++d)
    axes.emplace_back("d" + std::to_string(d - 1), parts->shape[d]);
  return b.compute(name, axes, [&](const Indices& i) {
    const auto part = [&](std::int64_t p) {
      Indices indices = {ir::int_imm(p)};
      indices.insert(indices.end(), i.begin(), i.end());
      return to_type(DType::kF32, at(parts, indices));
    };
    return part(2) + part(1) + part(0);  // each sum is exact
  });
}

HostTensor float_parts(const HostTensor& x) {
  HostTensor out(DType::kBF16, parts_shape(x.shape()));
  const std::int64_t size = x.size();
  const auto* from = x.as<float>();
  auto* to = out.as<std::uint16_t>();
  for (std::int64_t i = 0; i < size; ++i) {
    const float first = rounded(from[i]), rest = from[i] - first, second = rounded(rest);
    to[i] = as_bf16(first);
    to[size + i] = as_bf16(second);
    to[2 * size + i] = as_bf16(rest - second);
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
  reduce.insert(reduce.begin(), {"term", static_cast<std::int64_t>(kPartTerms.size())});
  Stage stage;
  stage.axes = labelled(out_labels, extents);
  const auto value = [&](const Indices& i, const Indices& r) {
    const auto load = [&](const ir::Buffer& buffer, std::string_view labels,
                          std::int64_t PartTerm::*side) {
      Indices indices = {part_of(r[0], side)};
      for (const char label : labels) {
        const std::size_t kept = out_labels.find(label);
        indices.push_back(kept != std::string_view::npos ? i[kept] : r[1 + sums.find(label)]);
      }
      return to_type(DType::kF32, at(buffer, indices));
    };
    return load(lhs, lhs_labels, &PartTerm::left) * load(rhs, rhs_labels, &PartTerm::right);
  };
  stage.buffer = b.reduce(name, Reducer::kSum, stage.axes, reduce, value);
  return stage;
}

}  // namespace tessera::te
