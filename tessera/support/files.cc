#include "tessera/support/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tessera {
namespace {

// Linux transfers less than 2 GiB in one call.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

Error io_error(const char* what, const std::string& path, int error) {
  return make_error(ErrorCode::kIo, "cannot {} {}: {}", what, path, std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Some file systems report a full disk only here.
  bool close() {
    const int result = ::close(fd_);
    fd_ = -1;
    return result == 0;
  }

 private:
  int fd_;
};

// 0, or the errno of the first failure.
int write_all(Descriptor& file, const std::vector<std::string_view>& parts) {
  for (std::string_view part : parts) {
    while (!part.empty()) {
      const ssize_t count = ::write(file.get(), part.data(), std::min(part.size(), kMostBytes));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno;
      part.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  return file.close() ? 0 : errno;
}

Result<void> write_in_place(const std::string& path, const std::vector<std::string_view>& parts) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file.valid()) return io_error("write", path, errno);
  if (const int error = write_all(file, parts); error != 0) return io_error("write", path, error);
  return {};
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
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return write_in_place(path, parts);
  }
  std::string name;
  int fd = -1;
  for (int i = 0; fd < 0; ++i) {
    name = fmt::format("{}.tmp.{}.{}", path, ::getpid(), i);
    fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) return io_error("write", path, errno);
  }
  Descriptor file(fd);
  int error = write_all(file, parts);
  if (error == 0 && ::rename(name.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(name.c_str());
  return io_error("write", path, error);
}

}  // namespace tessera
