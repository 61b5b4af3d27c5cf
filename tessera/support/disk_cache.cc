#include "tessera/support/disk_cache.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "tessera/support/cache_entry.h"
#include "tessera/support/checksum.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".entry";

struct Header {
  char magic[8] = {'T', 'S', 'R', 'C', 'A', 'C', 'H', '2'};
  std::uint64_t key_bytes = 0, answer_bytes = 0, checksum = 0;
};

// Zeros between the key and the answer.
std::size_t padding(std::size_t key_bytes) {
  const std::size_t end = sizeof(Header) + key_bytes;
  return (CacheEntry::kAlignment - end % CacheEntry::kAlignment) % CacheEntry::kAlignment;
}

// The answer in the bytes of an entry; nothing unless every part of it is as it was written.
std::optional<std::string_view> answer_in(std::string_view bytes, const std::string& key) {
  Header header;
  if (bytes.size() < sizeof(Header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(Header));
  const std::string_view rest = bytes.substr(sizeof(Header));
  const std::size_t before = key.size() + padding(key.size());
  if (std::memcmp(header.magic, Header().magic, sizeof(header.magic)) != 0 ||
      header.key_bytes != key.size() || header.answer_bytes > rest.size() ||
      rest.size() - header.answer_bytes != before || rest.substr(0, key.size()) != key) {
    return std::nullopt;
  }
  if (Checksum::of(rest).value() != header.checksum) return std::nullopt;
  return rest.substr(before);
}

struct Entry {
  fs::path path;
  std::int64_t bytes = 0;
  timespec used{};
};

bool older(const Entry& a, const Entry& b) {
  return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
}

// Entries, and with `others` also what a process that was killed left of its own.
std::vector<Entry> list_entries(const std::string& folder, bool others) {
  std::vector<Entry> entries;
  std::error_code error;
  for (const fs::directory_entry& group : fs::directory_iterator(folder, error)) {
    if (group.path().filename().string().size() != 2) continue;
    for (const fs::directory_entry& file : fs::directory_iterator(group.path(), error)) {
      const std::string name = file.path().filename().string();
      const bool is_entry = name.ends_with(kSuffix);
      const bool is_left = name.find(std::string(kSuffix) + ".tmp.") != std::string::npos;
      struct stat info {};
      if (!(is_entry || (others && is_left)) || ::stat(file.path().c_str(), &info) != 0) continue;
      entries.push_back({file.path(), info.st_size, info.st_mtim});
    }
  }
  return entries;
}

std::string entry_path(const DiskCache& cache, const std::string& key) {
  const std::string name = to_hex(hash_bytes(key, 1)) + to_hex(hash_bytes(key, 2));
  return fmt::format("{}/{}/{}{}", cache.folder(), name.substr(0, 2), name.substr(2), kSuffix);
}

}  // namespace

std::optional<CacheEntry> open_entry(const DiskCache& cache, const std::string& key) {
  const std::string path = entry_path(cache, key);
  Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return std::nullopt;
  const std::optional<std::string_view> answer = answer_in(file->bytes(), key);
  std::error_code error;
  if (!answer) {
    fs::remove(path, error);
    return std::nullopt;
  }
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return CacheEntry{std::move(*file), *answer};
}

Result<void> store_entry(const DiskCache& cache, const std::string& key,
                         const std::vector<std::string_view>& parts) {
  const std::string path = entry_path(cache, key);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) {
    return make_error(ErrorCode::kIo, "cannot make {}: {}", cache.folder(), error.message());
  }
  const std::string zeros(padding(key.size()), '\0');
  Header header;
  header.key_bytes = key.size();
  Checksum sum;
  sum.add(key);
  sum.add(zeros);
  for (const std::string_view part : parts) {
    header.answer_bytes += part.size();
    sum.add(part);
  }
  header.checksum = sum.value();
  std::vector<std::string_view> whole = {
      {reinterpret_cast<const char*>(&header), sizeof(header)}, key, zeros};
  whole.insert(whole.end(), parts.begin(), parts.end());
  return write_file(path, whole);
}

std::optional<std::string> DiskCache::find(const std::string& key) const {
  const std::optional<CacheEntry> entry = open_entry(*this, key);
  if (!entry) return std::nullopt;
  return std::string(entry->answer);
}

Result<void> DiskCache::store(const std::string& key, std::string_view answer) const {
  return store_entry(*this, key, {answer});
}

void DiskCache::trim() const {
  std::vector<Entry> entries = list_entries(folder_, true);
  std::int64_t total = 0;
  for (const Entry& e : entries) total += e.bytes;
  if (total <= limit_bytes_) return;
  std::sort(entries.begin(), entries.end(), older);
  const std::int64_t kept = limit_bytes_ / 10 * 9;
  for (const Entry& e : entries) {
    if (total <= kept) return;
    std::error_code error;
    fs::remove(e.path, error);
    total -= e.bytes;
  }
}

DiskCache::Usage DiskCache::usage() const {
  Usage usage;
  for (const Entry& e : list_entries(folder_, false)) {
    ++usage.entries;
    usage.bytes += e.bytes;
  }
  return usage;
}

Result<void> DiskCache::clear() const {
  for (const Entry& e : list_entries(folder_, true)) {
    std::error_code error;
    fs::remove(e.path, error);
    if (error) {
      return make_error(ErrorCode::kIo, "cannot remove {}: {}", e.path.string(), error.message());
    }
    fs::remove(e.path.parent_path(), error);  // fails, rightly, while something is in it
  }
  return {};
}

}  // namespace tessera
