#include "tessera/app/cli/common/outputs.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/backend/artifact/model_program.h"
#include "tessera/backend/artifact/staging_folder.h"
#include "tessera/backend/artifact/toolchain.h"

namespace tessera::cli {

Result<void> check_output_file(const std::string& path) {
  const auto refuse = [&](int error) {
    return make_error(ErrorCode::kIo, "cannot write {}: {}", path, std::strerror(error));
  };
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) return refuse(EISDIR);
    if (::access(path.c_str(), W_OK) != 0) return refuse(errno);
    return {};
  }
  // It is written beside its place and renamed: what counts is whether a file can be made there.
  const std::string probe = fmt::format("{}.tmp.{}.check", path, ::getpid());
  const int file = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return refuse(errno);
  ::close(file);
  ::unlink(probe.c_str());
  return {};
}

Result<void> check_output_artifact(const std::string& folder, const target::Target& target) {
  TESSERA_TRY(const artifact::StagingFolder staging, artifact::StagingFolder::make(folder));
  TESSERA_TRY([[maybe_unused]] const auto found,
              artifact::find_linker(artifact::library_target(target), ""));
  return {};
}

}  // namespace tessera::cli
