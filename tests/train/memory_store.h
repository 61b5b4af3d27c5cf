// A feature store in memory with candidates whose speed follows from their features.
#pragma once

#include <cmath>
#include <vector>

#include "tessera/learn/dataset/features.h"
#include "tessera/support/rng.h"

namespace tessera::train {

class MemoryStore : public dataset::FeatureStore {
 public:
  struct Item {
    std::vector<float> rows;
    std::vector<std::int16_t> parents;
    std::int32_t row_count = 0, task = 0, machine = 0;
    float seconds = 0, label = 0;
  };

  MemoryStore(feature::Rows kind, std::int64_t columns, std::int64_t context)
      : kind_(kind), columns_(columns), context_columns_(context) {}

  // `tasks` tasks of `per_task` candidates with 1 to `most_rows` rows. A row costs
  // 2^(its first column) more or less, every seventh candidate fails, which its last column says.
  static MemoryStore make(feature::Rows kind, int tasks, int per_task, int most_rows,
                          std::uint64_t seed) {
    MemoryStore store(kind, 4, 2);
    Rng rng(seed);
    for (std::int32_t task = 0; task < tasks; ++task) {
      store.contexts.push_back({static_cast<float>(task % 5), static_cast<float>(task % 3)});
      float best = INFINITY;
      for (int i = 0; i < per_task; ++i) {
        Item item = store.random_item(rng, task, most_rows, i % 7 == 3);
        if (item.seconds > 0) best = std::min(best, item.seconds);
        store.items.push_back(std::move(item));
      }
      for (Item& item : store.items) {
        if (item.task == task && item.seconds > 0) item.label = best / item.seconds;
      }
    }
    return store;
  }

  feature::Rows kind() const override { return kind_; }
  std::int64_t columns() const override { return columns_; }
  std::int64_t context_columns() const override { return context_columns_; }
  std::string row_schema() const override { return "rows"; }
  std::string context_schema() const override { return "context"; }
  std::size_t size() const override { return items.size(); }
  dataset::FeatureView operator[](std::size_t example) const override {
    const Item& item = items[example];
    return {.rows = item.rows,
            .parents = item.parents,
            .context = contexts[static_cast<std::size_t>(item.task)],
            .row_count = item.row_count,
            .task = item.task,
            .machine = item.machine,
            .seconds = item.seconds,
            .label = item.label};
  }

  std::vector<Item> items;
  std::vector<std::vector<float>> contexts;  // by task

 private:
  Item random_item(Rng& rng, std::int32_t task, int most_rows, bool fails) const {
    Item item;
    item.task = task;
    item.row_count = static_cast<std::int32_t>(rng.between(1, most_rows));
    double cost = 0;
    for (int r = 0; r < item.row_count; ++r) {
      const double x = 2 * rng.uniform() - 1;
      cost += std::exp2(2 * x);
      item.rows.insert(item.rows.end(), {static_cast<float>(x), static_cast<float>(rng.uniform()),
                                         7.0F, fails ? 1.0F : 0.0F});
      if (kind_ == feature::Rows::kLoop) item.parents.push_back(static_cast<std::int16_t>(r - 1));
    }
    if (!fails) item.seconds = static_cast<float>(1e-4 * (1 + task) * cost);
    return item;
  }

  feature::Rows kind_;
  std::int64_t columns_, context_columns_;
};

}  // namespace tessera::train
