// Answers of earlier runs in a folder, each by the whole text of its question.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera {

// Any number of threads and processes may use one folder at a time. Entries may hold code that is
// run as it is: folders and entries that belong to another user, or that others may write, are
// passed over, and take_cache_notes() says so. What it makes is for this user alone (0700).
class DiskCache {
 public:
  // The folder is made with the first entry.
  DiskCache(std::string folder, std::int64_t limit_bytes)
      : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

  const std::string& folder() const { return folder_; }
  std::int64_t limit_bytes() const { return limit_bytes_; }

  // Nothing when there is no entry, and when it is damaged: it is then removed. An entry that was
  // found counts as used now.
  std::optional<std::string> find(const std::string& key) const;
  // Replaces what is there in one step; a reader sees the old entry or the new one.
  Result<void> store(const std::string& key, std::string_view answer) const;
  // Removes the entries that were used least recently until the rest takes at most nine tenths of
  // the limit; nothing while all of them are below it.
  void trim() const;

  struct Usage {
    std::int64_t entries = 0, bytes = 0;
  };
  Usage usage() const;
  // Removes the entries, and nothing that is none.
  Result<void> clear() const;

 private:
  std::string folder_;
  std::int64_t limit_bytes_;
};

// What was passed over since the last call, a line for each cache and reason that was not told yet.
std::vector<std::string> take_cache_notes();

}  // namespace tessera
