#include "tessera/support/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace tessera {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::make(std::string_view purpose) {
  std::error_code error;
  const fs::path place = fs::temp_directory_path(error);
  std::string path = (place / fmt::format("tessera-{}-XXXXXX", purpose)).string();
  if (error || ::mkdtemp(path.data()) == nullptr) {
    return make_error(ErrorCode::kIo, "no temporary folder (TMPDIR): {}",
                      error ? error.message() : std::strerror(errno));
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace tessera
