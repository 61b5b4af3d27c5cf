// Makes the files of a FeatureStore.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/learn/dataset/dataset.h"
#include "tessera/scheduling/feature/rows.h"

namespace tessera::dataset {

struct ShardInfo {
  std::string file;  // in the folder of the store
  std::size_t first = 0, examples = 0, rows = 0;
  std::uint64_t bytes = 0;
  std::string crc32;
};

// What the manifest of a store says.
struct StoreManifest {
  std::string kind, row_schema, context_schema, dataset;  // dataset: its digest
  std::size_t examples = 0, unreadable = 0, cut = 0;      // cut: steps left out of long schedules
  std::vector<ShardInfo> shards;
};

// Entries of a shard: "rows" f32[rows, columns], "begin" i64[examples + 1] (first row of each),
// "context" f32[pairs, columns], "pair" i32[examples] (row of "context"), "readable" u8[examples],
// and of kLoop "parents" i16[rows].

// The manifest that is due for the data, with no shards.
StoreManifest expected_manifest(const Dataset& dataset, feature::Rows kind);
std::string manifest_path(const std::string& folder, feature::Rows kind);
// kIo, kInvalidArgument: none that can be used.
Result<StoreManifest> read_manifest(const std::string& folder, feature::Rows kind);

// Writes all shards, then the manifest. Memory: a few thousand examples a thread.
Result<StoreManifest> write_store(
    const Dataset& dataset, feature::Rows kind, const std::string& folder, int threads,
    const std::function<void(std::size_t done, std::size_t total)>& progress);

}  // namespace tessera::dataset
