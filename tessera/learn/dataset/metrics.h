// How good predictions are. Definitions follow TenSet where it has them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/learn/dataset/dataset.h"

namespace tessera::dataset {

// Of one task or averaged over tasks by their number of records.
struct Metrics {
  double rmse = 0, r2 = 0, mape = 0;  // of scores against labels
  double pairwise = 0;                // accuracy; pairs of equal labels are left out
  double kendall = 0;                 // tau-b
  // By k: share of the k fastest among the k chosen; mean over m <= k of the best label
  // of m chosen over the best; best seconds of k chosen over the best seconds, less 1.
  std::map<int, double> recall, peak, slowdown;
  std::int64_t records = 0;
};
inline constexpr int kTaskDepths[] = {1, 5, 10};
Metrics task_metrics(std::span<const float> scores, std::span<const float> labels,
                     std::span<const int> depths = kTaskDepths);

struct NetworkScore {
  double top1 = 0, top5 = 0, pairwise = 0, kendall = 0;
  std::size_t tasks = 0, missing = 0;  // tasks of the network without test records
};

struct Evaluation {
  Metrics average;
  std::map<std::string, NetworkScore> networks;
  double top1 = 0, top5 = 0;  // averaged over the networks
};

// `scores`: one per example; only those of `part` with a time count. Of equal scores the slower is
// chosen first. Only the named `networks` are listed and averaged (empty: all), for others may
// share a few tasks with those held out; networks without any task in that part are left out.
Evaluation evaluate(const Dataset& dataset, const Split& split, std::uint8_t part,
                    std::span<const float> scores, const std::vector<std::string>& networks = {});

}  // namespace tessera::dataset
