#include "tessera/learn/dataset/replace_folder.h"

#include <unistd.h>

namespace tessera::dataset {

namespace fs = std::filesystem;

Result<void> replace_folder(const fs::path& staged, const fs::path& folder) {
  const auto failed = [&](const std::error_code& error) {
    return make_error(ErrorCode::kIo, "{}: {}", folder.string(), error.message());
  };
  std::error_code error;
  const bool exists = fs::exists(folder, error);
  const fs::path old = fmt::format("{}.old.{}", folder.string(), ::getpid());
  if (exists) fs::rename(folder, old, error);
  if (error) return failed(error);
  fs::rename(staged, folder, error);
  if (!error) {
    fs::remove_all(old, error);
    return {};
  }
  std::error_code lost;
  if (exists) fs::rename(old, folder, lost);
  if (!lost) return failed(error);
  return make_error(ErrorCode::kIo, "{}: {}; what was there is now {}", folder.string(),
                    error.message(), old.string());
}

}  // namespace tessera::dataset
