#include "tessera/learn/train/batches.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera::train {
namespace {

// Batches are filled up to multiples of this.
constexpr std::int64_t kBatchStep = 32;

template <class T>
void shuffle(std::vector<T>& items, Rng& rng) {
  for (std::size_t i = items.size(); i > 1; --i) {
    std::swap(items[i - 1],
              items[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  }
}

bool is_unreadable(const dataset::FeatureView& view) {
  return view.seconds <= 0 && view.row_count <= 1 &&
         std::all_of(view.rows.begin(), view.rows.end(), [](float x) { return x == 0; });
}

struct List {
  std::vector<std::uint32_t> examples;
  std::int64_t rows = 0;  // padded
};

// A query's examples in lists of nearly equal size.
void cut_query(const nn::NetworkSpec& spec, std::vector<std::uint32_t> examples,
               const ExampleFacts& facts, std::int64_t list, Rng& rng, std::vector<List>& out) {
  shuffle(examples, rng);
  const std::size_t most = static_cast<std::size_t>(std::max<std::int64_t>(list, 1));
  const std::size_t count = (examples.size() + most - 1) / most;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t first = examples.size() * k / count, last = examples.size() * (k + 1) / count;
    List next;
    std::int32_t longest = 0;
    for (std::size_t i = first; i < last; ++i) {
      next.examples.push_back(examples[i]);
      longest = std::max(longest, facts.row_counts[examples[i]]);
    }
    next.rows = nn::padded_rows(spec, longest);
    out.push_back(std::move(next));
  }
}

// A query apart by what its examples are padded to.
std::vector<std::vector<std::uint32_t>> by_padding(const nn::NetworkSpec& spec,
                                                   const std::vector<std::uint32_t>& examples,
                                                   const ExampleFacts& facts) {
  std::map<std::int64_t, std::vector<std::uint32_t>> parts;
  for (const std::uint32_t i : examples) {
    parts[nn::padded_rows(spec, facts.row_counts[i])].push_back(i);
  }
  std::vector<std::vector<std::uint32_t>> out;
  for (auto& [rows, part] : parts) out.push_back(std::move(part));
  return out;
}

}  // namespace

ExampleFacts read_facts(const dataset::FeatureStore& store) {
  ExampleFacts facts;
  facts.row_counts.reserve(store.size());
  facts.timed.reserve(store.size());
  for (std::size_t i = 0; i < store.size(); ++i) {
    const dataset::FeatureView view = store[i];
    facts.row_counts.push_back(view.row_count);
    facts.timed.push_back(view.seconds > 0);
  }
  return facts;
}

std::vector<Query> queries_of(const dataset::FeatureStore& store,
                              std::span<const std::uint8_t> part, std::uint8_t wanted) {
  std::map<std::pair<std::int32_t, std::int32_t>, Query> queries;
  for (std::size_t i = 0; i < store.size(); ++i) {
    if (part[i] != wanted) continue;
    const dataset::FeatureView view = store[i];
    if (is_unreadable(view)) continue;
    Query& query = queries[{view.task, view.machine}];
    query.task = view.task;
    query.machine = view.machine;
    query.examples.push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<Query> out;
  for (auto& [key, query] : queries) out.push_back(std::move(query));
  return out;
}

std::vector<Step> plan_epoch(const nn::NetworkSpec& spec, const std::vector<Query>& queries,
                             const ExampleFacts& facts, std::int64_t batch, std::int64_t list,
                             Rng& rng) {
  const bool apart = nn::sees_padding(spec);
  std::vector<List> lists;
  for (const Query& query : queries) {
    if (!apart) {
      cut_query(spec, query.examples, facts, list, rng, lists);
      continue;
    }
    for (std::vector<std::uint32_t>& part : by_padding(spec, query.examples, facts)) {
      cut_query(spec, std::move(part), facts, list, rng, lists);
    }
  }
  shuffle(lists, rng);
  std::stable_sort(lists.begin(), lists.end(),
                   [](const List& a, const List& b) { return a.rows < b.rows; });
  std::vector<Step> steps;
  std::int64_t filled = 0;
  for (List& next : lists) {
    const auto size = static_cast<std::int64_t>(next.examples.size());
    const bool full = filled + size > batch;
    // A step that is far from full takes longer lists too, where that changes nothing.
    const bool ends =
        !steps.empty() && steps.back().rows != next.rows && (apart || 2 * filled >= batch);
    if (steps.empty() || full || ends) {
      steps.push_back({});
      filled = 0;
    }
    steps.back().rows = next.rows;
    steps.back().lists.push_back(std::move(next.examples));
    filled += size;
  }
  shuffle(steps, rng);
  return steps;
}

std::vector<Step> plan_prediction(const nn::NetworkSpec& spec,
                                  std::span<const std::uint32_t> examples,
                                  const ExampleFacts& facts, std::int64_t batch) {
  std::vector<std::uint32_t> order(examples.begin(), examples.end());
  const auto rows = [&](std::uint32_t i) { return nn::padded_rows(spec, facts.row_counts[i]); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rows(a) < rows(b); });
  std::vector<Step> steps;
  for (const std::uint32_t i : order) {
    const bool full =
        !steps.empty() && static_cast<std::int64_t>(steps.back().lists[0].size()) >= batch;
    if (steps.empty() || full || steps.back().rows != rows(i)) {
      steps.push_back({.lists = {{}}, .rows = rows(i)});
    }
    steps.back().lists[0].push_back(i);
  }
  return steps;
}

namespace {

void normalize(std::span<const float> from, const nn::Normalizer& normalizer, float* to) {
  const std::size_t columns = normalizer.shift.size();
  const float *shift = normalizer.shift.data(), *scale = normalizer.scale.data();
  for (std::size_t row = 0; row + columns <= from.size() && columns > 0; row += columns) {
    for (std::size_t c = 0; c < columns; ++c) {
      to[row + c] = (from[row + c] - shift[c]) * scale[c];
    }
  }
}

void fill_slot(const dataset::FeatureView& view, const Scaling& scaling, std::size_t slot,
               Batch& batch) {
  const std::size_t columns = scaling.rows.shift.size(), context = scaling.context.shift.size();
  const auto rows = static_cast<std::size_t>(batch.shape.rows);
  const std::size_t count = std::min(static_cast<std::size_t>(view.row_count), rows);
  normalize(view.rows.first(count * columns), scaling.rows,
            batch.rows.data() + slot * rows * columns);
  normalize(view.context, scaling.context, batch.context.data() + slot * context);
  std::fill_n(batch.mask.begin() + static_cast<std::ptrdiff_t>(slot * rows), count, 1.0F);
  for (std::size_t child = 0; child < std::min(count, view.parents.size()); ++child) {
    if (view.parents[child] < 0) continue;
    const auto parent = static_cast<std::size_t>(view.parents[child]);
    if (parent >= rows) continue;
    batch.parents[(slot * rows + parent) * rows + child] = 1;
  }
  if (view.seconds <= 0) return;
  batch.timed[slot] = 1;
  batch.log_time[slot] =
      static_cast<float>(std::log2(static_cast<double>(view.seconds)) - scaling.time_shift);
}

void resize(Batch& batch, const dataset::FeatureStore& store) {
  const auto slots = static_cast<std::size_t>(batch.shape.batch),
             rows = static_cast<std::size_t>(batch.shape.rows);
  batch.rows.resize(slots * rows * static_cast<std::size_t>(store.columns()));
  batch.mask.resize(slots * rows);
  batch.context.resize(slots * static_cast<std::size_t>(store.context_columns()));
  if (store.kind() == feature::Rows::kLoop) batch.parents.resize(slots * rows * rows);
  batch.weight.resize(slots);
  batch.timed.resize(slots);
  batch.log_time.resize(slots);
  const auto members = static_cast<std::size_t>(batch.lists * batch.length);
  batch.slots.resize(members);
  batch.labels.resize(members);
  batch.member.resize(members);
}

}  // namespace

Batch fill_batch(const dataset::FeatureStore& store, const Step& step, const Scaling& scaling) {
  Batch batch;
  for (const std::vector<std::uint32_t>& list : step.lists) {
    batch.examples.insert(batch.examples.end(), list.begin(), list.end());
    batch.length = std::max(batch.length, static_cast<std::int64_t>(list.size()));
  }
  const auto size = static_cast<std::int64_t>(batch.examples.size());
  batch.shape = {.batch = (size + kBatchStep - 1) / kBatchStep * kBatchStep, .rows = step.rows};
  batch.lists = static_cast<std::int64_t>(step.lists.size());
  resize(batch, store);
  std::size_t slot = 0;
  for (std::size_t l = 0; l < step.lists.size(); ++l) {
    std::size_t at = l * static_cast<std::size_t>(batch.length);
    for (const std::uint32_t example : step.lists[l]) {
      const dataset::FeatureView view = store[example];
      fill_slot(view, scaling, slot, batch);
      batch.weight[slot] = 1;
      if (view.seconds > 0) {
        batch.slots[at] = static_cast<std::int64_t>(slot);
        batch.labels[at] = view.label;
        batch.member[at] = 1;
        ++at;
      }
      ++slot;
    }
  }
  for (; slot < static_cast<std::size_t>(batch.shape.batch); ++slot) {
    fill_slot(store[batch.examples[0]], scaling, slot, batch);
  }
  return batch;
}

namespace {

// Values beyond this many deviations set the scale themselves.
constexpr double kFarthest = 10;

class ColumnStatistics {
 public:
  explicit ColumnStatistics(std::size_t columns)
      : pivot_(columns), sum_(columns), squares_(columns), low_(columns), high_(columns) {}

  void add(std::span<const float> values) {
    const std::size_t columns = sum_.size();
    for (std::size_t row = 0; row + columns <= values.size() && columns > 0; row += columns) {
      if (count_ == 0) std::copy_n(values.begin(), columns, pivot_.begin());
      for (std::size_t c = 0; c < columns; ++c) {
        const double d = static_cast<double>(values[row + c]) - static_cast<double>(pivot_[c]);
        sum_[c] += d;
        squares_[c] += d * d;
        low_[c] = std::min(low_[c], d);
        high_[c] = std::max(high_[c], d);
      }
      ++count_;
    }
  }

  nn::Normalizer normalizer() const {
    nn::Normalizer out;
    const double n = std::max(static_cast<double>(count_), 1.0);
    for (std::size_t c = 0; c < sum_.size(); ++c) {
      const double mean = sum_[c] / n, variance = squares_[c] / n - mean * mean;
      const double reach = std::max(high_[c] - mean, mean - low_[c]);
      const double deviation = std::max(std::sqrt(std::max(variance, 0.0)), reach / kFarthest);
      const bool constant = high_[c] == low_[c];
      out.shift.push_back(static_cast<float>(static_cast<double>(pivot_[c]) + mean));
      out.scale.push_back(constant ? 0.0F : static_cast<float>(1 / deviation));
    }
    return out;
  }

 private:
  std::int64_t count_ = 0;
  std::vector<float> pivot_;  // the first row: sums of distances from it keep their digits
  std::vector<double> sum_, squares_, low_, high_;
};

}  // namespace

Scaling fit_scaling(const dataset::FeatureStore& store, const std::vector<Query>& queries) {
  ColumnStatistics rows(static_cast<std::size_t>(store.columns()));
  ColumnStatistics context(static_cast<std::size_t>(store.context_columns()));
  double log_times = 0, timed = 0;
  for (const Query& query : queries) {
    for (const std::uint32_t example : query.examples) {
      const dataset::FeatureView view = store[example];
      rows.add(view.rows);
      context.add(view.context);
      if (view.seconds <= 0) continue;
      log_times += std::log2(static_cast<double>(view.seconds));
      timed += 1;
    }
  }
  return {.rows = rows.normalizer(),
          .context = context.normalizer(),
          .time_shift = timed > 0 ? log_times / timed : 0};
}

}  // namespace tessera::train
