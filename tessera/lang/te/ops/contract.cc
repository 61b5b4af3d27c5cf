#include "tessera/lang/te/ops/contract.h"

#include <map>

#include "tessera/lang/te/ops/element_types.h"

namespace tessera::te {
namespace {

// Labels that are summed over, in the order of lhs, then rhs.
std::string summed_labels(std::string_view lhs, std::string_view rhs, std::string_view out) {
  std::string sums;
  for (const std::string_view labels : {lhs, rhs}) {
    for (const char label : labels) {
      const bool known =
          out.find(label) != std::string_view::npos || sums.find(label) != std::string::npos;
      if (!known) sums += label;
    }
  }
  return sums;
}

}  // namespace

Stage contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                     std::string_view lhs_labels, const ir::Buffer& rhs,
                     std::string_view rhs_labels, std::string_view out_labels, DType acc,
                     const OperandPart& lhs_part, const OperandPart& rhs_part) {
  std::map<char, std::int64_t> extents;
  const auto add_extents = [&](const ir::Buffer& buffer, std::string_view labels,
                               const OperandPart& part) {
    const Shape& shape = part.sizes.empty() ? buffer->shape : part.sizes;
    for (std::size_t d = 0; d < labels.size(); ++d) extents[labels[d]] = shape[d];
  };
  add_extents(lhs, lhs_labels, lhs_part);
  add_extents(rhs, rhs_labels, rhs_part);
  const std::string sums = summed_labels(lhs_labels, rhs_labels, out_labels);
  const auto axes_of = [&](std::string_view labels) {
    NamedAxes axes;
    for (const char label : labels) axes.emplace_back(std::string(1, label), extents.at(label));
    return axes;
  };
  Stage stage;
  stage.axes = axes_of(out_labels);
  const auto value = [&](const Indices& i, const Indices& r) {
    const auto load = [&](const ir::Buffer& buffer, std::string_view labels,
                          const OperandPart& part) {
      Indices indices;
      for (std::size_t d = 0; d < labels.size(); ++d) {
        const std::size_t kept = out_labels.find(labels[d]);
        const ir::Expr& index = kept != std::string_view::npos ? i[kept] : r[sums.find(labels[d])];
        indices.push_back(part.starts.empty() ? index : shifted(index, part.starts[d]));
      }
      return to_type(acc, at(buffer, indices));
    };
    return load(lhs, lhs_labels, lhs_part) * load(rhs, rhs_labels, rhs_part);
  };
  stage.buffer = b.reduce(name, sums.empty() ? Reducer::kNone : Reducer::kSum, stage.axes,
                          axes_of(sums), value);
  return stage;
}

namespace {

// Where the element at `at`, in elements, finds its scale or zero point.
Indices shared_index(const ir::Buffer& shared, const Storage& storage, const Indices& at) {
  Indices out;
  for (std::size_t d = 0; d < at.size(); ++d) {
    const bool grouped = d == storage.axis && storage.group > 1;
    const ir::Expr index = grouped ? ir::floor_div(at[d], ir::int_imm(storage.group)) : at[d];
    out.push_back(shared->shape[d] == 1 ? ir::int_imm(0) : index);
  }
  return out;
}

// Element `inside` of a word as 1 + q / 2^bits: its bits, turned to the top of the mantissa of a
// float, need no conversion.
ir::Expr unpacked(const ir::Expr& word, const ir::Expr& inside, int bits) {
  constexpr int kMantissa = 23, kWord = 32;
  constexpr std::int64_t kOne = 0x3f800000;  // the bits of 1
  const auto number = [](std::int64_t v) { return ir::int_like({DType::kU32}, v); };
  const ir::Expr w = ir::cast(DType::kU32, word);
  // Never 0, as no width of an element divides 23: shifts by all bits of a word are not defined.
  const ir::Expr turn = ir::cast(
      DType::kU32, ir::floor_mod(inside * bits + (kWord - kMantissa + bits), ir::int_imm(kWord)));
  const auto binary = [](ir::BinaryOp op, const ir::Expr& a, const ir::Expr& b) {
    return ir::Binary::make(op, a, b);
  };
  const ir::Expr turned = binary(ir::BinaryOp::kOr, binary(ir::BinaryOp::kShr, w, turn),
                                 binary(ir::BinaryOp::kShl, w, number(kWord) - turn));
  const std::int64_t mask = ((std::int64_t{1} << bits) - 1) << (kMantissa - bits);
  return ir::Call::make_bitcast(
      DType::kF32,
      binary(ir::BinaryOp::kOr, binary(ir::BinaryOp::kAnd, turned, number(mask)), number(kOne)));
}

// What element `inside` of the word at `at` stands for.
ir::Expr stored_element(const ir::Buffer& data, const Storage& storage, const Indices& at,
                        const ir::Expr& inside, DType acc) {
  const ir::Expr q = te::at(data, at);
  if (!storage.scale) return to_type(acc, q);
  Storage shared = storage;
  Indices elements = at;
  if (storage.group % storage.per_word() == 0) {
    shared.group = storage.group / storage.per_word();
  } else if (storage.bits > 0) {
    elements[storage.axis] = at[storage.axis] * storage.per_word() + inside;
  }
  const auto shared_at = [&](const ir::Buffer& buffer) {
    return to_type(acc, te::at(buffer, shared_index(buffer, shared, elements)));
  };
  const ir::Expr scale = shared_at(storage.scale);
  const auto steps = static_cast<double>(storage.bits > 0 ? 1 << storage.bits : 0);
  const double offset = static_cast<double>(storage.offset) + steps;
  const ir::Expr value = storage.bits > 0 ? to_type(acc, unpacked(q, inside, storage.bits)) *
                                                (scale * ir::imm(acc, steps))
                                          : to_type(acc, q) * scale;
  if (!storage.zero && offset == 0) return value;
  // The second part does not change within a group: a multiply-add for each element.
  if (storage.adds && storage.zero) {
    const ir::Expr added = shared_at(storage.zero);
    return value + (offset == 0 ? added : added - ir::imm(acc, offset) * scale);
  }
  ir::Expr zero = ir::imm(acc, offset);
  if (storage.zero) zero = offset == 0 ? shared_at(storage.zero) : shared_at(storage.zero) + zero;
  return value - zero * scale;
}

}  // namespace

Stage stored_contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                            std::string_view lhs_labels, const ir::Buffer& rhs,
                            std::string_view rhs_labels, std::string_view out_labels, DType acc,
                            const Storage& storage) {
  const std::string sums = summed_labels(lhs_labels, rhs_labels, out_labels);
  const char packed = storage.bits > 0 ? rhs_labels[storage.axis] : ' ';
  const auto extent = [&](char label) {
    const std::size_t d = rhs_labels.find(label);
    return d != std::string_view::npos ? rhs->shape[d] : lhs->shape[lhs_labels.find(label)];
  };
  const auto axes_of = [&](std::string_view labels) {
    NamedAxes axes;
    for (const char label : labels) axes.emplace_back(std::string(1, label), extent(label));
    return axes;
  };
  Stage stage;
  stage.axes = axes_of(out_labels);
  NamedAxes reduced = axes_of(sums);
  if (storage.bits > 0) reduced.emplace_back(std::string(1, packed) + "q", storage.per_word());
  const auto value = [&](const Indices& i, const Indices& r) {
    const auto index = [&](char label) {
      const std::size_t kept = out_labels.find(label);
      return kept != std::string_view::npos ? i[kept] : r[sums.find(label)];
    };
    Indices left, right;
    for (const char label : lhs_labels)
      left.push_back(label == packed ? index(label) * storage.per_word() + r.back() : index(label));
    for (const char label : rhs_labels) right.push_back(index(label));
    return to_type(acc, at(lhs, left)) * stored_element(rhs, storage, right, r.back(), acc);
  };
  stage.buffer = b.reduce(name, Reducer::kSum, stage.axes, reduced, value);
  return stage;
}

}  // namespace tessera::te
