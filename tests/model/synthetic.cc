#include "synthetic.h"

#include <algorithm>
#include <cmath>

#include "tessera/support/rng.h"

namespace tessera::model::testing {
namespace {

constexpr std::size_t kColumns = 12;

double row_seconds(const std::vector<float>& row) {
  const double tile = std::abs(row[0] - 3) + std::abs(row[1] - 5) * 0.5;
  const double vector = row[2] > 2 ? 1 : 2.5;
  const double cache = row[0] + row[3] > 8 ? 3 : 1;
  return (1 + tile) * vector * cache + row[4];
}

}  // namespace

TrainingSet make_synthetic(std::size_t count, std::int32_t groups, std::uint64_t seed) {
  Rng rng(seed);
  TrainingSet data;
  data.features.columns = kColumns;
  std::vector<double> seconds;
  std::vector<double> best(static_cast<std::size_t>(groups), 1e30);
  for (std::size_t i = 0; i < count; ++i) {
    const auto group = static_cast<std::int32_t>(rng.below(groups));
    const std::int64_t rows = 1 + group % 3;
    std::vector<float> values;
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::vector<float> row;
      for (std::size_t c = 0; c < kColumns; ++c) row.push_back(static_cast<float>(rng.below(8)));
      // Rows weigh differently, and the row says how much.
      row[5] = static_cast<float>(r);
      sum += row_seconds(row) / static_cast<double>(1 + 3 * r);
      values.insert(values.end(), row.begin(), row.end());
    }
    data.features.add(values);
    data.groups.push_back(group);
    const double scaled = sum * (1 + group);
    seconds.push_back(scaled);
    double& least = best[static_cast<std::size_t>(group)];
    least = std::min(least, scaled);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double least = best[static_cast<std::size_t>(data.groups[i])];
    data.labels.push_back(static_cast<float>(least / seconds[i]));
  }
  return data;
}

double pair_accuracy(const TrainingSet& data, const std::vector<float>& scores) {
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const float gap = data.labels[i] - data.labels[j];
      if (data.groups[i] != data.groups[j] || std::abs(gap) < 0.05f) continue;
      right += (gap > 0) == (scores[i] > scores[j]) ? 1 : 0;
      pairs += 1;
    }
  }
  return pairs > 0 ? right / pairs : 0;
}

}  // namespace tessera::model::testing
