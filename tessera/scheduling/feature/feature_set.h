// Features of many candidates, as models take them: one matrix, several rows a candidate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::feature {

struct FeatureSet {
  std::size_t columns = 0;
  std::vector<float> values;            // rows * columns, row-major
  std::vector<std::int32_t> row_count;  // per candidate, in order; at least 1
  // What only some models read; empty where none of them does.
  std::size_t context_columns = 0;
  std::vector<float> context;         // candidates * context_columns: of the candidate's task
  std::vector<std::int16_t> parents;  // per row: its parent among the rows of the candidate, or -1

  std::size_t candidates() const { return row_count.size(); }
  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  // Appends one candidate; its values must be a positive multiple of `columns` long.
  void add(std::span<const float> candidate);
  // Appends all of `other`, which has the same columns and the same optional parts.
  void append(const FeatureSet& other);
  void clear();
};

}  // namespace tessera::feature
