// Boosted trees laid out for scoring: XGBoost fits them, this walks many rows down at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::model {

class Forest {
 public:
  // The bytes of XGBoosterSaveModelToBuffer in the format "ubj". kInvalidArgument when they are not
  // a model of plain regression trees.
  static Result<Forest> from_ubjson(const std::string& bytes);

  // One sum a row of `columns` values, which must be as many as the trees read. NaN goes where
  // XGBoost sends missing values.
  void predict(const float* rows, std::size_t count, std::size_t columns, float* out) const;
  std::size_t trees() const { return trees_.size(); }
  std::size_t columns() const { return columns_; }  // at least so many are read

 private:
  // A row goes behind `left` when its value is at least the threshold, or missing and `missing` is
  // 1; else to `left`. Leaves lead to themselves whatever the value (no number is at least NaN), so
  // that all rows walk as many steps as the tree is deep.
  struct Node {
    float threshold = 0;
    std::int32_t column = 0;
    std::int32_t left = 0;
    std::int32_t missing = 0;
  };
  struct Tree {
    std::size_t first = 0;  // index of the root
    int depth = 0;
  };

  // Adds what the tree says of kWide rows.
  template <std::size_t kWide>
  void walk(const Tree& tree, const float* rows, std::size_t columns, float* out) const;

  std::vector<Node> nodes_;
  std::vector<float> values_;  // by node: of leaves
  std::vector<Tree> trees_;
  float base_ = 0;
  std::size_t columns_ = 0;
};

}  // namespace tessera::model
