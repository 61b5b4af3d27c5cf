#include "tessera/learn/dataset/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::dataset {
namespace {

constexpr double kLeastVariance = 1e-6;

// Scores that are NaN are worse than all others.
float worth(float score) {
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

// Pairs by how scores and labels order them.
struct Pairs {
  double same = 0, opposite = 0, tied_scores = 0;  // among pairs of unequal labels
  double equal_labels = 0, equal_scores = 0;       // among all pairs
};

double pairs_of(std::size_t n) {
  const auto count = static_cast<double>(n);
  return count * (count - 1) / 2;
}

// Numbers of equal values, largest values last.
template <class F>
void for_runs(const std::vector<float>& sorted, F&& f) {
  for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    while (end < sorted.size() && sorted[end] == sorted[begin]) ++end;
    f(begin, end);
  }
}

// How many of the ranks added so far are below a rank, in logarithmic time.
class RankCounts {
 public:
  explicit RankCounts(std::size_t ranks) : counts_(ranks + 1, 0) {}
  void add(std::size_t rank) {
    for (std::size_t i = rank + 1; i < counts_.size(); i += i & (~i + 1)) ++counts_[i];
  }
  double below(std::size_t rank) const {
    std::int64_t sum = 0;
    for (std::size_t i = rank; i > 0; i -= i & (~i + 1)) sum += counts_[i];
    return static_cast<double>(sum);
  }

 private:
  std::vector<std::int64_t> counts_;
};

Pairs count_pairs(std::span<const float> scores, std::span<const float> labels) {
  const std::size_t n = scores.size();
  Pairs out;
  std::vector<float> sorted;
  for (const float s : scores) sorted.push_back(worth(s));
  std::sort(sorted.begin(), sorted.end());
  for_runs(sorted, [&](std::size_t b, std::size_t e) { out.equal_scores += pairs_of(e - b); });
  const auto rank = [&](std::size_t i) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), worth(scores[i]));
    return static_cast<std::size_t>(at - sorted.begin());
  };
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return labels[a] < labels[b]; });
  std::vector<float> by_label;
  for (const std::size_t i : order) by_label.push_back(labels[i]);
  RankCounts slower(n);  // ranks of the scores of those with smaller labels
  for_runs(by_label, [&](std::size_t begin, std::size_t end) {
    out.equal_labels += pairs_of(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t r = rank(order[i]);
      const double below = slower.below(r), up_to = slower.below(r + 1);
      out.same += below;
      out.tied_scores += up_to - below;
      out.opposite += static_cast<double>(begin) - up_to;
    }
    for (std::size_t i = begin; i < end; ++i) slower.add(rank(order[i]));
  });
  return out;
}

// The first are those that a search would measure. Of equal scores the slower comes first: models
// that cannot tell candidates apart are not helped by the order of the records.
std::vector<std::size_t> chosen_order(std::span<const float> scores,
                                      std::span<const float> labels) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const float left = worth(scores[a]), right = worth(scores[b]);
    return left != right ? left > right : labels[a] < labels[b];
  });
  return order;
}

// The best label of the first k, and of all with k = their number.
float best_of(const std::vector<std::size_t>& order, std::span<const float> labels, std::size_t k) {
  float best = 0;
  for (std::size_t i = 0; i < std::min(k, order.size()); ++i) {
    best = std::max(best, labels[order[i]]);
  }
  return best;
}

void choose(std::span<const float> scores, std::span<const float> labels,
            std::span<const int> depths, Metrics* out) {
  const std::vector<std::size_t> order = chosen_order(scores, labels);
  const std::size_t n = order.size();
  const double best = best_of(order, labels, n);
  std::vector<float> fastest(labels.begin(), labels.end());
  std::sort(fastest.begin(), fastest.end(), std::greater<>());
  for (const int depth : depths) {
    const std::size_t k = std::min(n, static_cast<std::size_t>(depth));
    double found = 0, running = 0;
    for (std::size_t m = 0; m < k; ++m) {
      if (labels[order[m]] >= fastest[k - 1]) ++found;
      running += best > 0 ? best_of(order, labels, m + 1) / best : 1;
    }
    const double reached = best_of(order, labels, k);
    out->recall[depth] = found / static_cast<double>(k);
    out->peak[depth] = running / static_cast<double>(k);
    out->slowdown[depth] = reached > 0 ? best / reached - 1 : 0;
  }
}

void compare_values(std::span<const float> scores, std::span<const float> labels, Metrics* out) {
  const auto n = static_cast<double>(scores.size());
  const double mean = std::accumulate(labels.begin(), labels.end(), 0.0) / n;
  double squares = 0, variance = 0, relative = 0, positive = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double y = labels[i], error = y - static_cast<double>(scores[i]);
    squares += error * error;
    variance += (y - mean) * (y - mean);
    if (y > 0) {
      relative += std::abs(error) / y;
      ++positive;
    }
  }
  out->rmse = std::sqrt(squares / n);
  out->r2 = variance < kLeastVariance ? 1 : 1 - squares / variance;
  out->mape = positive > 0 ? relative / positive : 0;
}

// Examples of one task on one machine that count.
struct Query {
  std::vector<float> scores, labels, seconds;
  double best_s = std::numeric_limits<double>::infinity();  // of those here
  double chosen1_s = 0, chosen5_s = 0;                      // the best of the 1 and 5 chosen
  Metrics metrics;
};
using Queries = std::map<std::pair<std::int32_t, std::int32_t>, Query>;

Queries collect_queries(const Dataset& dataset, const Split& split, std::uint8_t part,
                        std::span<const float> scores) {
  std::map<std::pair<std::int32_t, std::int32_t>, float> best;  // of the whole dataset: labels
  for (const Example& e : dataset.examples) {
    if (!(e.seconds > 0)) continue;
    const auto at = best.emplace(std::pair(e.task, e.machine), e.seconds).first;
    at->second = std::min(at->second, e.seconds);
  }
  Queries queries;
  for (std::size_t i = 0; i < dataset.examples.size(); ++i) {
    const Example& e = dataset.examples[i];
    if (split.part[i] != part || !(e.seconds > 0)) continue;
    Query& query = queries[{e.task, e.machine}];
    query.scores.push_back(scores[i]);
    query.labels.push_back(best.at({e.task, e.machine}) / e.seconds);
    query.seconds.push_back(e.seconds);
    query.best_s = std::min(query.best_s, static_cast<double>(e.seconds));
  }
  return queries;
}

void finish_query(Query* query) {
  query->metrics = task_metrics(query->scores, query->labels);
  const std::vector<std::size_t> order = chosen_order(query->scores, query->labels);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min<std::size_t>(5, order.size()); ++i) {
    least = std::min(least, static_cast<double>(query->seconds[order[i]]));
    if (i == 0) query->chosen1_s = least;
  }
  query->chosen5_s = least;
}

Metrics average_of(const Queries& queries) {
  Metrics out;
  double total = 0, squares = 0;
  for (const auto& [key, query] : queries) {
    const Metrics& m = query.metrics;
    const auto weight = static_cast<double>(m.records);
    total += weight;
    out.records += m.records;
    squares += weight * m.rmse * m.rmse;
    out.r2 += weight * m.r2;
    out.mape += weight * m.mape;
    out.pairwise += weight * m.pairwise;
    out.kendall += weight * m.kendall;
    for (const auto& [k, value] : m.recall) out.recall[k] += weight * value;
    for (const auto& [k, value] : m.peak) out.peak[k] += weight * value;
    for (const auto& [k, value] : m.slowdown) out.slowdown[k] += weight * value;
  }
  if (total == 0) return out;
  out.rmse = std::sqrt(squares / total);
  for (double* value : {&out.r2, &out.mape, &out.pairwise, &out.kendall}) *value /= total;
  for (auto* by_depth : {&out.recall, &out.peak, &out.slowdown}) {
    for (auto& [k, value] : *by_depth) value /= total;
  }
  return out;
}

// Tasks by key with their queries, one per machine.
using TaskQueries = std::map<std::string, std::vector<const Query*>>;

NetworkScore network_score(const NetworkInfo& network, const TaskQueries& tasks) {
  NetworkScore out;
  double best = 0, chosen1 = 0, chosen5 = 0, records = 0;
  for (const auto& [key, count] : network.weights) {
    if (count == 0) continue;
    const auto found = tasks.find(key);
    if (found == tasks.end()) {
      ++out.missing;
      continue;
    }
    ++out.tasks;
    for (const Query* query : found->second) {
      best += count * query->best_s;
      chosen1 += count * query->chosen1_s;
      chosen5 += count * query->chosen5_s;
      const auto n = static_cast<double>(query->metrics.records);
      records += n;
      out.pairwise += n * query->metrics.pairwise;
      out.kendall += n * query->metrics.kendall;
    }
  }
  if (records > 0) {
    out.pairwise /= records;
    out.kendall /= records;
  }
  // Weights may all be 0: nothing that a choice could slow down.
  out.top1 = chosen1 > 0 ? best / chosen1 : 1;
  out.top5 = chosen5 > 0 ? best / chosen5 : 1;
  return out;
}

}  // namespace

Metrics task_metrics(std::span<const float> scores, std::span<const float> labels,
                     std::span<const int> depths) {
  TESSERA_CHECK(scores.size() == labels.size(), "{} scores of {} records", scores.size(),
                labels.size());
  Metrics out;
  out.records = static_cast<std::int64_t>(scores.size());
  if (scores.empty()) return out;
  compare_values(scores, labels, &out);
  const Pairs pairs = count_pairs(scores, labels);
  const double all = pairs_of(scores.size());
  const double unequal = all - pairs.equal_labels;
  // A guess is right half of the time.
  out.pairwise = unequal > 0 ? (pairs.same + pairs.tied_scores / 2) / unequal : 0.5;
  const double norm = std::sqrt(unequal * (all - pairs.equal_scores));
  out.kendall = norm > 0 ? (pairs.same - pairs.opposite) / norm : 0;
  choose(scores, labels, depths, &out);
  return out;
}

Evaluation evaluate(const Dataset& dataset, const Split& split, std::uint8_t part,
                    std::span<const float> scores, const std::vector<std::string>& networks) {
  TESSERA_CHECK(
      scores.size() == dataset.examples.size() && split.part.size() == dataset.examples.size(),
      "{} scores and {} parts of {} examples", scores.size(), split.part.size(),
      dataset.examples.size());
  Queries queries = collect_queries(dataset, split, part, scores);
  TaskQueries tasks;
  for (auto& [key, query] : queries) {
    finish_query(&query);
    tasks[dataset.tasks[static_cast<std::size_t>(key.first)].key].push_back(&query);
  }
  Evaluation out;
  out.average = average_of(queries);
  for (const NetworkInfo& network : dataset.networks) {
    const bool wanted = networks.empty() ||
                        std::find(networks.begin(), networks.end(), network.name) != networks.end();
    if (!wanted) continue;
    const NetworkScore score = network_score(network, tasks);
    if (score.tasks > 0) out.networks[network.name] = score;
  }
  for (const auto& [name, score] : out.networks) {
    out.top1 += score.top1 / static_cast<double>(out.networks.size());
    out.top5 += score.top5 / static_cast<double>(out.networks.size());
  }
  return out;
}

}  // namespace tessera::dataset
