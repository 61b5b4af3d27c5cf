#include "tessera/learn/dataset/features.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/learn/dataset/gzip.h"
#include "tessera/learn/dataset/store_writer.h"
#include "tessera/learn/dataset/training.h"
#include "tessera/support/mapped_file.h"
#include "tessera/support/npz.h"

namespace tessera::dataset {
namespace {

// A shard in mapped memory.
struct Shard {
  MappedFile file;
  std::size_t first = 0, examples = 0;
  const float* rows = nullptr;
  const float* context = nullptr;
  const std::int64_t* begin = nullptr;
  const std::int32_t* pair = nullptr;
  const std::uint8_t* readable = nullptr;
  const std::int16_t* parents = nullptr;
};

Error damaged(const std::string& path, const std::string& what) {
  return make_error(ErrorCode::kIo, "{}: {}", path, what);
}

// An entry by name with its type and shape as they must be.
template <class T>
Result<const T*> entry(const std::vector<NpyView>& views, const char* name, DType dtype,
                       const Shape& shape) {
  for (const NpyView& view : views) {
    if (view.name != name) continue;
    if (view.dtype != dtype || view.shape != shape) break;
    return static_cast<const T*>(view.data);
  }
  return make_error(ErrorCode::kIo, "no {} of {} {}", name, tessera::to_text(dtype),
                    tessera::to_text(shape));
}

// Every index is one of what it leads to: readers trust them.
bool fits(const Shard& s, std::int64_t examples, std::int64_t rows, std::int64_t pairs) {
  if (s.begin[0] != 0 || s.begin[examples] != rows) return false;
  for (std::int64_t i = 0; i < examples; ++i) {
    const std::int64_t begin = s.begin[i], end = s.begin[i + 1];
    if (begin < 0 || begin >= end || end > rows) return false;
    if (s.pair[i] < 0 || s.pair[i] >= pairs) return false;
    for (std::int64_t r = begin; s.parents != nullptr && r < end; ++r) {
      if (s.parents[r] < -1 || s.parents[r] >= end - begin) return false;
    }
  }
  return true;
}

Result<void> locate(const ShardInfo& info, feature::Rows kind, Shard* shard) {
  TESSERA_TRY(const std::vector<NpyView> views, view_npz(shard->file.bytes()));
  const auto n = static_cast<std::int64_t>(info.examples);
  const auto rows = static_cast<std::int64_t>(info.rows);
  const auto columns = static_cast<std::int64_t>(row_names(kind).size());
  const auto width = static_cast<std::int64_t>(context_names(kind).size());
  std::int64_t pairs = 0;
  for (const NpyView& view : views) {
    if (view.name == "context" && view.shape.size() == 2) pairs = view.shape[0];
  }
  TESSERA_TRY(shard->rows, entry<float>(views, "rows", DType::kF32, {rows, columns}));
  TESSERA_TRY(shard->begin, entry<std::int64_t>(views, "begin", DType::kI64, {n + 1}));
  TESSERA_TRY(shard->context, entry<float>(views, "context", DType::kF32, {pairs, width}));
  TESSERA_TRY(shard->pair, entry<std::int32_t>(views, "pair", DType::kI32, {n}));
  TESSERA_TRY(shard->readable, entry<std::uint8_t>(views, "readable", DType::kU8, {n}));
  if (kind == feature::Rows::kLoop) {
    TESSERA_TRY(shard->parents, entry<std::int16_t>(views, "parents", DType::kI16, {rows}));
  }
  if (!fits(*shard, n, rows, pairs)) {
    return make_error(ErrorCode::kIo, "rows that do not fit together");
  }
  return {};
}

Result<Shard> open_shard(const std::string& folder, const ShardInfo& info, feature::Rows kind) {
  const std::string path = (std::filesystem::path(folder) / info.file).string();
  TESSERA_TRY(MappedFile file, MappedFile::open(path));
  const std::string_view bytes = file.bytes();
  if (bytes.size() != info.bytes || fmt::format("{:08x}", crc32_of(bytes)) != info.crc32) {
    return damaged(path, "is not what the manifest says");
  }
  Shard shard{.file = std::move(file), .first = info.first, .examples = info.examples};
  const Result<void> located = locate(info, kind, &shard);
  if (!located) return located.error().with_context(path);
  return shard;
}

class MappedStore final : public FeatureStore {
 public:
  MappedStore(const Dataset& dataset, feature::Rows kind) : kind_(kind) {
    for (const Example& e : dataset.examples) {
      facts_.push_back({e.task, e.machine, e.seconds});
    }
  }

  Result<void> open(const std::string& folder, const StoreManifest& manifest) {
    for (const ShardInfo& info : manifest.shards) {
      TESSERA_TRY(Shard shard, open_shard(folder, info, kind_));
      const std::size_t next = shards_.empty() ? 0 : shards_.back().first + shards_.back().examples;
      if (shard.first != next) return damaged(folder, "a shard is missing");
      shards_.push_back(std::move(shard));
    }
    const std::size_t end = shards_.empty() ? 0 : shards_.back().first + shards_.back().examples;
    if (end != facts_.size()) return damaged(folder, "examples are missing");
    set_labels();
    return {};
  }

  feature::Rows kind() const override { return kind_; }
  std::int64_t columns() const override {
    return static_cast<std::int64_t>(row_names(kind_).size());
  }
  std::int64_t context_columns() const override {
    return static_cast<std::int64_t>(context_names(kind_).size());
  }
  std::string row_schema() const override { return dataset::row_schema(kind_); }
  std::string context_schema() const override { return dataset::context_schema(kind_); }
  std::size_t size() const override { return facts_.size(); }

  FeatureView operator[](std::size_t example) const override {
    TESSERA_CHECK(example < facts_.size(), "example {} of {}", example, facts_.size());
    const auto after = std::upper_bound(shards_.begin(), shards_.end(), example,
                                        [](std::size_t i, const Shard& s) { return i < s.first; });
    const Shard& s = *(after - 1);
    const std::size_t i = example - s.first;
    const auto begin = static_cast<std::size_t>(s.begin[i]);
    const auto count = static_cast<std::size_t>(s.begin[i + 1]) - begin;
    const auto width = static_cast<std::size_t>(columns());
    const auto context = static_cast<std::size_t>(context_columns());
    const Timed& f = facts_[example];
    FeatureView v;
    v.rows = {s.rows + begin * width, count * width};
    if (s.parents != nullptr) v.parents = {s.parents + begin, count};
    v.context = {s.context + static_cast<std::size_t>(s.pair[i]) * context, context};
    v.row_count = static_cast<std::int32_t>(count);
    v.task = f.task;
    v.machine = f.machine;
    v.seconds = f.seconds;
    v.label = labels_[example];
    return v;
  }

 private:
  void set_labels() {
    for (const Shard& s : shards_) {
      for (std::size_t i = 0; i < s.examples; ++i) {
        if (s.readable[i] == 0) facts_[s.first + i].seconds = 0;
      }
    }
    labels_ = labels_of(facts_);
  }

  feature::Rows kind_;
  std::vector<Timed> facts_;
  std::vector<float> labels_;
  std::vector<Shard> shards_;
};

bool same_data(const StoreManifest& a, const StoreManifest& b) {
  return a.kind == b.kind && a.row_schema == b.row_schema && a.context_schema == b.context_schema &&
         a.dataset == b.dataset && a.examples == b.examples;
}

}  // namespace

Result<std::unique_ptr<FeatureStore>> open_features(
    const Dataset& dataset, feature::Rows kind, const std::string& folder, int threads,
    const std::function<void(std::size_t, std::size_t)>& progress, std::size_t* unreadable) {
  const Result<StoreManifest> known = read_manifest(folder, kind);
  if (known && same_data(*known, expected_manifest(dataset, kind))) {
    auto store = std::make_unique<MappedStore>(dataset, kind);
    if (store->open(folder, *known)) {
      if (unreadable != nullptr) *unreadable = known->unreadable;
      return std::unique_ptr<FeatureStore>(std::move(store));
    }
  }
  TESSERA_TRY(const StoreManifest made, write_store(dataset, kind, folder, threads, progress));
  auto store = std::make_unique<MappedStore>(dataset, kind);
  TESSERA_DO(store->open(folder, made));
  if (unreadable != nullptr) *unreadable = made.unreadable;
  return std::unique_ptr<FeatureStore>(std::move(store));
}

}  // namespace tessera::dataset
