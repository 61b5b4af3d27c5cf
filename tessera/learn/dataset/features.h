// A dataset as numbers, kept in files and read through memory maps: training streams from disk.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/learn/dataset/dataset.h"
#include "tessera/scheduling/feature/rows.h"

namespace tessera::dataset {

// One candidate as a network reads it, not normalised.
struct FeatureView {
  std::span<const float> rows;            // row_count * columns
  std::span<const std::int16_t> parents;  // kLoop: per row, index of its parent or -1; else empty
  std::span<const float> context;         // of its task on its machine
  std::int32_t row_count = 0;
  std::int32_t task = 0, machine = 0;  // as in the Dataset
  float seconds = 0;                   // 0: failed
  // Best seconds of (task, machine) / seconds, in (0, 1]; 0: failed. The best is that of all
  // examples, whatever part of a split they are in: labels do not change with the split, and within
  // a task training labels are relative to a time that may be one of the test part. Scores compare
  // candidates of one task, so that the common factor tells a model nothing of their order.
  float label = 0;
};

// Immutable once made; safe to read from several threads.
class FeatureStore {
 public:
  virtual ~FeatureStore() = default;
  virtual feature::Rows kind() const = 0;
  virtual std::int64_t columns() const = 0;
  virtual std::int64_t context_columns() const = 0;
  virtual std::string row_schema() const = 0;  // digests of names and version
  virtual std::string context_schema() const = 0;
  virtual std::size_t size() const = 0;  // examples, in the order of the Dataset
  virtual FeatureView operator[](std::size_t example) const = 0;
};

// Opens the store of `dataset` in `folder` (npz shards with a manifest and checksums), made first
// when it is absent or belongs to other data or another schema: `threads` extract at once and
// memory stays bounded. Numbers come from the steps, whatever spaces have today. Examples without
// steps, or with steps that no longer apply, are kept as rows of one zero row with seconds 0 and
// counted in `unreadable`.
Result<std::unique_ptr<FeatureStore>> open_features(
    const Dataset& dataset, feature::Rows kind, const std::string& folder, int threads,
    const std::function<void(std::size_t done, std::size_t total)>& progress = {},
    std::size_t* unreadable = nullptr);

}  // namespace tessera::dataset
