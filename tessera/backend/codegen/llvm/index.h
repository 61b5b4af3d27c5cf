// Buffer indices as affine forms: what address code, load grouping and stride choice work on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/lang/ir/expr.h"

namespace tessera::codegen {

// constant + sum of coef * factor. A factor is a scalar i64 expression that is not itself a sum.
struct Linear {
  struct Term {
    ir::Expr factor;
    std::int64_t coef;
  };
  std::vector<Term> terms;  // distinct factors, no zero coefficient
  std::int64_t constant = 0;
};

void add_scaled(Linear* sum, const Linear& part, std::int64_t scale);
Linear linear_form(const ir::Expr& scalar);

// Element positions of one access: lane i is at base + i * stride elements.
struct Place {
  Linear base;
  std::int64_t stride = 0;
};

// Row-major position of buffer[indices]; nothing when a vector index is not an arithmetic
// progression.
std::optional<Place> place_of(const ir::Buffer& buffer, const std::vector<ir::Expr>& indices);

// Elements between neighbours of each dimension.
std::vector<std::int64_t> row_major_strides(const ir::Buffer& buffer);

bool contains_load(const ir::Expr& e);
// True only if the value cannot be negative, taking every Var as a loop variable.
bool is_non_negative(const ir::Expr& e);

}  // namespace tessera::codegen
