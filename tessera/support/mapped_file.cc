#include "tessera/support/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tessera {

namespace {

// Without O_NONBLOCK, a pipe that nobody writes would hold the program here.
constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// The pages of a file of so many bytes, and one more.
std::size_t mapped_bytes(std::size_t size) {
  return (size + page_bytes() - 1) / page_bytes() * page_bytes() + page_bytes();
}

Error unreadable(const std::string& path, const char* reason) {
  return make_error(ErrorCode::kIo, "cannot read '{}': {}", path, reason);
}

int open_beneath(int folder, const std::string& relative) {
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, folder, relative.c_str(), &how, sizeof(how));
  if (fd >= 0) return static_cast<int>(fd);
  if (errno != ENOSYS && errno != EPERM && errno != EINVAL) return -1;
  return open_without_links(folder, relative);
}

}  // namespace

int open_without_links(int folder, const std::string& relative) {
  int at = ::dup(folder);
  for (std::size_t from = 0; at >= 0 && from < relative.size();) {
    const std::size_t slash = std::min(relative.find('/', from), relative.size());
    const std::string name = relative.substr(from, slash - from);
    from = slash + 1;
    if (name.empty() || name == ".") continue;
    const bool last = from >= relative.size();
    const int next =
        name == ".." ? -1
                     : ::openat(at, name.c_str(), kFlags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
    const int error = name == ".." ? EXDEV : errno;
    ::close(at);
    at = next;
    errno = error;
  }
  return at;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), kFlags);
  if (fd < 0) return unreadable(path, std::strerror(errno));
  return map(fd, path);
}

Result<MappedFile> MappedFile::open_inside(const std::string& folder, const std::string& relative) {
  const int at = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (at < 0) return unreadable(folder, std::strerror(errno));
  const int fd = open_beneath(at, relative);
  const int error = errno;
  ::close(at);
  const std::string path = (std::filesystem::path(folder) / relative).string();
  if (fd >= 0) return map(fd, path);
  const bool leaves = error == EXDEV || error == ELOOP;
  return unreadable(path, leaves ? "a link leads out of its folder" : std::strerror(error));
}

Result<MappedFile> MappedFile::map(int fd, const std::string& path) {
  const auto failed = [&](const char* reason) { return unreadable(path, reason); };
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return failed("not a regular file");
  }
  if (info.st_size == 0) {
    ::close(fd);
    return MappedFile(nullptr, 0);
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  // The file lies over zeros, of which the last page remains.
  void* place = ::mmap(nullptr, mapped_bytes(size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* address = place == MAP_FAILED
                      ? MAP_FAILED
                      : ::mmap(place, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  const int map_errno = errno;
  ::close(fd);
  if (address == MAP_FAILED) {
    if (place != MAP_FAILED) ::munmap(place, mapped_bytes(size));
    return failed(std::strerror(map_errno));
  }
  return MappedFile(address, size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, mapped_bytes(size_));
}

}  // namespace tessera
