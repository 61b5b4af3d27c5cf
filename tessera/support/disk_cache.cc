#include "tessera/support/disk_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/support/cache_entry.h"
#include "tessera/support/checksum.h"
#include "tessera/support/descriptor.h"
#include "tessera/support/file_writer.h"
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

class Notes {
 public:
  // About `what` in the cache of `folder`.
  void add(const std::string& folder, const std::string& what, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!told_.emplace(folder, why).second) return;
    waiting_.push_back(fmt::format("cache: {} {} and is passed over", what, why));
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<std::string, std::string>> told_;  // folder, why
  std::vector<std::string> waiting_;
};

Notes& notes() {
  static Notes all;
  return all;
}

// Why its content may be another user's; empty: it is ours alone.
std::string distrusted(const struct stat& info) {
  if (info.st_uid != ::geteuid()) return "belongs to another user";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) == 0) return "";
  return fmt::format("can be written by others (mode {:04o})", info.st_mode & 07777);
}

// False, with a note about `what`, where it is not ours alone; false where it is not open.
bool trusted(const Descriptor& file, const DiskCache& cache, const std::string& what) {
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) return false;
  const std::string why = distrusted(info);
  if (!why.empty()) notes().add(cache.folder(), what, why);
  return why.empty();
}

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// A folder that only this user can reach; an absent one is made.
Result<void> own_folder(const DiskCache& cache, const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return make_error(ErrorCode::kIo, "cannot make {}: {}", path, std::strerror(errno));
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return make_error(ErrorCode::kIo, "cannot make {}: it is not a folder", path);
  }
  const std::string why = distrusted(info);
  if (why.empty()) return {};
  notes().add(cache.folder(), path, why);
  return make_error(ErrorCode::kIo, "{} {}", path, why);
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

// Of the folder of an entry in that of the cache, and of its file in that.
struct EntryName {
  std::string group, file;
};

EntryName entry_name(const std::string& key) {
  const std::string name = to_hex(hash_bytes(key, 1)) + to_hex(hash_bytes(key, 2));
  return {name.substr(0, 2), name.substr(2) + std::string(kSuffix)};
}

}  // namespace

std::vector<std::string> take_cache_notes() { return notes().take(); }

// By descriptors: what was checked is what is read. Once a folder is known to be ours alone nobody
// else can change what is in it.
std::optional<CacheEntry> open_entry(const DiskCache& cache, const std::string& key) {
  const EntryName name = entry_name(key);
  const Descriptor folder(::open(cache.folder().c_str(), kFolder));
  if (!trusted(folder, cache, cache.folder())) return std::nullopt;
  const std::string group_path = fmt::format("{}/{}", cache.folder(), name.group);
  const Descriptor group(::openat(folder.get(), name.group.c_str(), kFolder | O_NOFOLLOW));
  if (!trusted(group, cache, group_path)) return std::nullopt;
  const std::string path = fmt::format("{}/{}", group_path, name.file);
  Descriptor opened(
      ::openat(group.get(), name.file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!trusted(opened, cache, path)) return std::nullopt;
  Result<MappedFile> file = MappedFile::map(opened.release(), path);
  if (!file.ok()) return std::nullopt;
  const std::optional<std::string_view> answer = answer_in(file->bytes(), key);
  if (!answer) {
    ::unlinkat(group.get(), name.file.c_str(), 0);
    return std::nullopt;
  }
  ::utimensat(group.get(), name.file.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  return CacheEntry{std::move(*file), *answer};
}

Result<void> store_entry(const DiskCache& cache, const std::string& key,
                         const std::vector<std::string_view>& parts) {
  const EntryName name = entry_name(key);
  std::error_code error;
  const fs::path parent = fs::path(cache.folder()).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) {
    return make_error(ErrorCode::kIo, "cannot make {}: {}", cache.folder(), error.message());
  }
  const std::string group = fmt::format("{}/{}", cache.folder(), name.group);
  TESSERA_DO(own_folder(cache, cache.folder()));
  TESSERA_DO(own_folder(cache, group));
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
  TESSERA_TRY(FileWriter file, FileWriter::create(fmt::format("{}/{}", group, name.file), 0600));
  TESSERA_DO(file.write({reinterpret_cast<const char*>(&header), sizeof(header)}));
  TESSERA_DO(file.write(key));
  TESSERA_DO(file.write(zeros));
  for (const std::string_view part : parts) TESSERA_DO(file.write(part));
  return file.finish();
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
