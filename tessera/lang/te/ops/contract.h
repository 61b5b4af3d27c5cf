// Sums of products of two tensors by labels, as einsum writes them: matrix products and the like.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/lang/te/ops/window.h"

namespace tessera::te {

// The part of an operand that is read, by dimension; empty: all of it.
struct OperandPart {
  std::vector<std::int64_t> starts, sizes;
};

// How the right operand lies in memory where that is narrower than what it stands for: an element q
// of the data means (q - zero) * scale, or q * scale + zero where it `adds`.
struct Storage {
  int bits = 0;            // of an element, several in a word of i32, the first lowest; 0: one each
  std::size_t axis = 0;    // of the operand: along which words lie, and neighbours share scales
  std::int64_t group = 1;  // neighbours with a scale and a zero point in common
  // As many dimensions as the operand, of extent 1 where all elements share them. Null: 1 and 0.
  ir::Buffer scale, zero;
  bool adds = false;
  std::int64_t offset = 0;  // of q: the data hold q + offset

  std::int64_t per_word() const { return bits == 0 ? 1 : 32 / bits; }
};

// Stage `name`: out = sum over the labels that `out_labels` lacks of lhs * rhs, accumulated in
// `acc`. One letter per dimension, none twice within an operand, every letter of the output in an
// operand, equal letters of equal extent. Axes are named by the letters; reduce axes in the order
// of lhs, then rhs.
Stage contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                     std::string_view lhs_labels, const ir::Buffer& rhs,
                     std::string_view rhs_labels, std::string_view out_labels, DType acc,
                     const OperandPart& lhs_part = {}, const OperandPart& rhs_part = {});

// The same of a right operand in storage. The label of storage.axis is summed over; where words
// hold several elements, its axis counts words, and another one, innermost, the elements of a word:
// the first operand has per_word() times as many.
Stage stored_contract_stage(DagBuilder& b, const std::string& name, const ir::Buffer& lhs,
                            std::string_view lhs_labels, const ir::Buffer& rhs,
                            std::string_view rhs_labels, std::string_view out_labels, DType acc,
                            const Storage& storage);

}  // namespace tessera::te
