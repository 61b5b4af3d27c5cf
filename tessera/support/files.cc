#include "tessera/support/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/support/descriptor.h"
#include "tessera/support/file_writer.h"

namespace tessera {
namespace {

// Linux transfers less than 2 GiB in one call.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::size_t kGathered = std::size_t{1} << 16;

Error io_error(const char* what, const std::string& path, int error) {
  return make_error(ErrorCode::kIo, "cannot {} {}: {}", what, path, std::strerror(error));
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return io_error("read", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return io_error("read", path, errno);
  std::string bytes;
  if (S_ISREG(info.st_mode)) bytes.reserve(static_cast<std::size_t>(info.st_size));
  std::string block(std::size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("read", path, errno);
    if (count == 0) return bytes;
    bytes.append(block.data(), static_cast<std::size_t>(count));
  }
}

Result<void> write_file(const std::string& path, const std::vector<std::string_view>& parts) {
  TESSERA_TRY(FileWriter file, FileWriter::create(path));
  for (const std::string_view part : parts) TESSERA_DO(file.write(part));
  return file.finish();
}

Result<FileWriter> FileWriter::create(const std::string& path, unsigned mode) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return io_error("write", path, errno);
    return FileWriter(fd, path, "");
  }
  for (int i = 0;; ++i) {
    std::string staged = fmt::format("{}.tmp.{}.{}", path, ::getpid(), i);
    const int fd = ::open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0) return FileWriter(fd, path, std::move(staged));
    if (errno != EEXIST) return io_error("write", path, errno);
  }
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      staged_(std::exchange(other.staged_, "")),
      pending_(std::move(other.pending_)) {}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!staged_.empty()) ::unlink(staged_.c_str());
}

Result<void> FileWriter::write(std::string_view bytes) {
  if (pending_.size() + bytes.size() <= kGathered) {
    pending_ += bytes;
    return {};
  }
  TESSERA_DO(put(pending_));
  pending_.clear();
  return put(bytes);
}

Result<void> FileWriter::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), std::min(bytes.size(), kMostBytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("write", path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> FileWriter::finish() {
  TESSERA_DO(put(pending_));
  pending_.clear();
  // Some file systems report a full disk only here.
  if (::close(std::exchange(fd_, -1)) != 0) return io_error("write", path_, errno);
  if (staged_.empty()) return {};
  if (::rename(staged_.c_str(), path_.c_str()) != 0) return io_error("write", path_, errno);
  staged_.clear();
  return {};
}

}  // namespace tessera
