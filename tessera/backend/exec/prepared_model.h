// Compiled models that the next process maps from disk: nothing of them is parsed, folded, packed
// or built again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/backend/exec/compile_model.h"
#include "tessera/support/cache_entry.h"

namespace tessera::exec {

struct PreparedModel {
  // A file beside the model that it was made of.
  struct Source {
    std::string path, digest;
  };

  // Of this process. Small constants of one that was found lie in `entry`.
  CompiledModel model;
  std::vector<std::string> warnings;  // that making it gave
  std::vector<Source> sources;
  std::unique_ptr<const CacheEntry> entry;  // outlives the model's runners; null: it was made
};

// compile_model for this process; `code`: of the kernels of the model. Who gives the graph away
// need not hold its constants twice.
Result<CompiledModel> compile_with_code(graph::Graph graph, const task::TaskGraph& tasks,
                                        const target::Target& target, const ModelOptions& options,
                                        std::vector<runtime::Binary>* code);

// The largest entry, in parts of the limit of the cache and of what is free on its disk: the rest
// stays for kernels and for others.
inline constexpr std::int64_t kPartOfCache = 2, kPartOfDisk = 4;

// What became of a model that was to be kept.
struct Kept {
  std::int64_t bytes = 0;                  // that it takes
  std::int64_t of_cache = 0, of_disk = 0;  // that the cache and its disk have for it
  bool kept() const { return bytes <= of_cache && bytes <= of_disk; }
};

// Keeps a model that compile_with_code gave, unless it is too large; its large constants in entries
// of their own, which all models of the same `owner` share: only who made the weights can make two
// constants that are taken for each other. A cache that cannot be written is as good as none: kIo,
// and no part of an entry is left.
Result<Kept> store_prepared(const DiskCache& cache, const std::string& key,
                            const std::string& owner, const PreparedModel& prepared,
                            const std::vector<runtime::Binary>& code);

// Nothing where there is none, where it or a constant is damaged or gone, and where its code does
// not load. It reads the constants in their files, or those of other models of this process.
std::optional<PreparedModel> find_prepared(const DiskCache& cache, const std::string& key,
                                           const std::string& owner, const target::Target& target);

}  // namespace tessera::exec
