#include "tessera/learn/model/models/forest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <nlohmann/json.hpp>

namespace tessera::model {
namespace {

// Rows that go down a tree side by side: their steps do not wait for each other.
constexpr std::size_t kLanes = 8;
// Rows whose values stay in the cache while all trees are walked.
constexpr std::size_t kBlock = 64;
constexpr int kDeepest = 64;

// One tree as XGBoost stores it.
struct Source {
  std::vector<std::int32_t> left, right, column;
  std::vector<float> value;       // thresholds, and values of leaves
  std::vector<int> default_left;  // where missing values go

  static Source read(const nlohmann::json& tree) {
    return {tree.at("left_children"), tree.at("right_children"), tree.at("split_indices"),
            tree.at("split_conditions"), tree.at("default_left")};
  }
  bool consistent() const {
    const std::size_t n = left.size();
    if (n == 0 || right.size() != n || column.size() != n || value.size() != n ||
        default_left.size() != n) {
      return false;
    }
    const auto child = [&](std::int32_t c, std::size_t parent) {
      return c > static_cast<std::int32_t>(parent) && c < static_cast<std::int32_t>(n);
    };
    for (std::size_t i = 0; i < n; ++i) {
      if (left[i] < 0) continue;
      if (!child(left[i], i) || !child(right[i], i) || column[i] < 0) return false;
      if (std::isnan(value[i])) return false;
    }
    return true;
  }
};

Error foreign(const std::string& why) {
  return make_error(ErrorCode::kInvalidArgument, "not a model of regression trees: {}", why);
}

}  // namespace

Result<Forest> Forest::from_ubjson(const std::string& bytes) {
  Forest out;
  try {
    const nlohmann::json model = nlohmann::json::from_ubjson(bytes);
    const nlohmann::json& learner = model.at("learner");
    const std::string base = learner.at("learner_model_param").at("base_score");
    out.base_ = std::strtof(base.c_str(), nullptr);
    for (const nlohmann::json& tree : learner.at("gradient_booster").at("model").at("trees")) {
      const Source source = Source::read(tree);
      if (!source.consistent()) return foreign("a tree whose nodes do not fit together");
      const std::size_t first = out.nodes_.size();
      // Breadth first, the children of a node beside each other.
      std::vector<std::pair<std::int32_t, int>> order = {{0, 0}};
      int depth = 0;
      for (std::size_t at = 0; at < order.size(); ++at) {
        const auto [id, level] = order[at];
        const auto n = static_cast<std::size_t>(id);
        depth = std::max(depth, level);
        if (level > kDeepest) return foreign("a tree that is too deep");
        const auto self = static_cast<std::int32_t>(first + at);
        if (source.left[n] < 0) {
          out.nodes_.push_back({std::numeric_limits<float>::quiet_NaN(), 0, self, 0});
          out.values_.push_back(source.value[n]);
          continue;
        }
        out.nodes_.push_back({source.value[n], source.column[n],
                              static_cast<std::int32_t>(first + order.size()),
                              source.default_left[n] != 0 ? 0 : 1});
        out.values_.push_back(0);
        out.columns_ = std::max(out.columns_, static_cast<std::size_t>(source.column[n]) + 1);
        order.emplace_back(source.left[n], level + 1);
        order.emplace_back(source.right[n], level + 1);
      }
      out.trees_.push_back({first, depth});
    }
  } catch (const nlohmann::json::exception& e) {
    return foreign(e.what());
  }
  return out;
}

template <std::size_t kWide>
void Forest::walk(const Tree& tree, const float* rows, std::size_t columns, float* out) const {
  std::array<std::size_t, kWide> at;
  at.fill(tree.first);
  for (int step = 0; step < tree.depth; ++step) {
    for (std::size_t l = 0; l < kWide; ++l) {
      const Node& node = nodes_[at[l]];
      const float x = rows[l * columns + static_cast<std::size_t>(node.column)];
      const int behind =
          static_cast<int>(x >= node.threshold) | (static_cast<int>(std::isnan(x)) & node.missing);
      at[l] = static_cast<std::size_t>(node.left + behind);
    }
  }
  for (std::size_t l = 0; l < kWide; ++l) out[l] += values_[at[l]];
}

void Forest::predict(const float* rows, std::size_t count, std::size_t columns, float* out) const {
  TESSERA_CHECK(columns >= columns_, "{} columns, the trees read {}", columns, columns_);
  std::fill_n(out, count, base_);
  for (std::size_t block = 0; block < count; block += kBlock) {
    const std::size_t end = std::min(count, block + kBlock);
    for (const Tree& tree : trees_) {
      std::size_t r = block;
      for (; r + kLanes <= end; r += kLanes)
        walk<kLanes>(tree, rows + r * columns, columns, out + r);
      for (; r < end; ++r) walk<1>(tree, rows + r * columns, columns, out + r);
    }
  }
}

}  // namespace tessera::model
