#include "tessera/artifact/staging_folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/artifact/metadata.h"

namespace tessera::artifact {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string& path, const std::string& reason) {
  return make_error(ErrorCode::kIo, "cannot write {}: {}", path, reason);
}

Result<void> check_replaceable(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return {};
  if (fs::is_directory(status) && (fs::is_empty(path, error) || is_artifact(path.string()))) {
    return {};
  }
  return make_error(ErrorCode::kInvalidArgument, "{} exists and is not an artifact: not replaced",
                    path.string());
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
  std::string staging;
  for (int i = 0;; ++i) {
    staging = (target.parent_path() /
               fmt::format(".{}.tmp.{}.{}", target.filename().string(), ::getpid(), i))
                  .string();
    if (::mkdir(staging.c_str(), 0777) == 0) break;
    if (errno != EEXIST) return cannot_write(path, std::strerror(errno));
  }
  return StagingFolder(target.string(), std::move(staging));
}

StagingFolder::StagingFolder(StagingFolder&& other) noexcept
    : final_(std::move(other.final_)), staging_(std::move(other.staging_)) {
  other.staging_.clear();
}

StagingFolder::~StagingFolder() {
  if (staging_.empty()) return;
  std::error_code error;
  fs::remove_all(staging_, error);
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
