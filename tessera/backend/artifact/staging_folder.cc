#include "tessera/backend/artifact/staging_folder.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/backend/artifact/cmake_config.h"
#include "tessera/backend/artifact/metadata.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string& path, const std::string& reason) {
  return make_error(ErrorCode::kIo, "cannot write {}: {}", path, reason);
}

// What a compilation writes.
bool belongs(const Metadata& m, const fs::path& entry) {
  const std::string file = entry.filename().string();
  return file == m.library || file == m.name + ".h" || file == m.name + ".json" ||
         file == cmake_config_name(m) || file == m.weights_file;
}

// Replacing removes the whole folder: it may hold nothing but one artifact.
Result<void> check_replaceable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return {};
  if (fs::is_directory(status) && fs::is_empty(path, error)) return {};
  const Result<Metadata> old = read_metadata(path.string());
  if (!fs::is_directory(status) || !old.ok()) {
    return make_error(ErrorCode::kInvalidArgument, "{} exists and is not an artifact: not replaced",
                      path.string());
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (belongs(*old, entry.path())) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{} holds more than an artifact ({}): not replaced", path.string(),
                      entry.path().filename().string());
  }
  if (error) return cannot_write(path.string(), error.message());
  return {};
}

std::string prefix_of(const fs::path& target) {
  return fmt::format(".{}.tmp.", target.filename().string());
}

// The lock ends with the process, however it ends. -1: the file system has no such locks.
int lock_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  ::close(fd);
  return -1;
}

// Removes the halves that interrupted compilations into the same place left behind.
void remove_abandoned(const fs::path& target) {
  const std::string prefix = prefix_of(target);
  std::error_code error;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path(), error)) {
    if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
  }
  for (const fs::path& folder : found) {
    const std::string rest = folder.filename().string().substr(prefix.size());
    int process = 0;
    const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), process);
    if (status != std::errc() || *end != '.' || process <= 0) continue;
    // The number alone does not tell: other containers count processes on their own.
    if (::kill(process, 0) == 0 || errno != ESRCH) continue;
    const int lock = lock_folder(folder.string());
    if (lock < 0) continue;
    fs::remove_all(folder, error);
    ::close(lock);
  }
}

}  // namespace

Result<StagingFolder> StagingFolder::make(const std::string& path) {
  std::error_code error;
  fs::path target = fs::absolute(path, error).lexically_normal();
  if (target.filename().empty()) target = target.parent_path();  // "DIR/"
  if (path.empty() || !target.has_filename()) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' cannot be the folder of an artifact",
                      path);
  }
  TESSERA_DO(check_replaceable(target));
  fs::create_directories(target.parent_path(), error);
  if (error) return cannot_write(path, error.message());
  remove_abandoned(target);
  std::string staging;
  for (int i = 0;; ++i) {
    staging =
        (target.parent_path() / fmt::format("{}{}.{}", prefix_of(target), ::getpid(), i)).string();
    if (::mkdir(staging.c_str(), 0777) == 0) break;
    if (errno != EEXIST) return cannot_write(path, std::strerror(errno));
  }
  const int lock = lock_folder(staging);
  return StagingFolder(target.string(), std::move(staging), lock);
}

StagingFolder::StagingFolder(StagingFolder&& other) noexcept
    : final_(std::move(other.final_)),
      staging_(std::move(other.staging_)),
      lock_(std::exchange(other.lock_, -1)) {
  other.staging_.clear();
}

StagingFolder::~StagingFolder() {
  std::error_code error;
  if (!staging_.empty()) fs::remove_all(staging_, error);
  if (lock_ >= 0) ::close(lock_);
}

Error StagingFolder::with_final_path(Error error) const {
  for (std::size_t at = 0; (at = error.message.find(staging_, at)) != std::string::npos;
       at += final_.size()) {
    error.message.replace(at, staging_.size(), final_);
  }
  return error;
}

Result<void> StagingFolder::publish() {
  std::error_code error;
  fs::rename(staging_, final_, error);
  if (!error) {
    staging_.clear();
    return {};
  }
  // Not empty: exchanged, so that there is a whole artifact at every moment; the destructor removes
  // the old one.
  TESSERA_DO(check_replaceable(final_));
  if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, final_.c_str(), RENAME_EXCHANGE) != 0) {
    return cannot_write(final_, std::strerror(errno));
  }
  return {};
}

}  // namespace tessera::artifact
