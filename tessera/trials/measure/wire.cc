#include "tessera/trials/measure/wire.h"

#include <cerrno>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tessera::measure {
namespace {

// Kind and length before each body.
constexpr std::size_t kHeader = 1 + sizeof(std::uint64_t);

std::string frame_bytes(Kind kind, const std::string& body) {
  std::string bytes;
  bytes.reserve(kHeader + body.size());
  bytes.push_back(static_cast<char>(kind));
  const std::uint64_t size = body.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  bytes += body;
  return bytes;
}

// Bytes written; 0 when the socket takes none now, -1 when the peer is gone.
ssize_t write_some(int fd, std::string_view bytes, int flags) {
  for (;;) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), flags | MSG_NOSIGNAL);
    if (n >= 0) return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return -1;
  }
}

}  // namespace

Channel::Channel(Channel&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      consumed_(std::exchange(other.consumed_, 0)) {}

Channel& Channel::operator=(Channel&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  in_ = std::move(other.in_);
  out_ = std::move(other.out_);
  consumed_ = std::exchange(other.consumed_, 0);
  return *this;
}

void Channel::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  in_.clear();
  out_.clear();
  consumed_ = 0;
}

bool Channel::send(Kind kind, const std::string& body) {
  if (!open()) return false;
  const std::string bytes = frame_bytes(kind, body);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t n = write_some(fd_, rest, 0);
    if (n < 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::optional<Frame> Channel::receive() {
  for (;;) {
    if (std::optional<Frame> frame = next()) return frame;
    bool would_block = false;
    if (!open() || !read_some(0, &would_block)) return std::nullopt;
  }
}

bool Channel::enqueue(Kind kind, const std::string& body) {
  out_ += frame_bytes(kind, body);
  return flush();
}

bool Channel::flush() {
  if (!open()) return false;
  while (!out_.empty()) {
    const ssize_t n = write_some(fd_, out_, MSG_DONTWAIT);
    if (n < 0) return false;
    if (n == 0) return true;
    out_.erase(0, static_cast<std::size_t>(n));
  }
  return true;
}

bool Channel::fill() {
  bool would_block = false;
  while (open() && !would_block) {
    if (!read_some(MSG_DONTWAIT, &would_block)) return false;
  }
  return open();
}

bool Channel::read_some(int flags, bool* would_block) {
  char chunk[1 << 16];
  for (;;) {
    const ssize_t n = recv(fd_, chunk, sizeof(chunk), flags);
    if (n > 0) {
      in_.append(chunk, static_cast<std::size_t>(n));
      return true;
    }
    if (n == 0) return false;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      *would_block = true;
      return true;
    }
    if (errno != EINTR) return false;
  }
}

std::optional<Frame> Channel::next() {
  const std::size_t available = in_.size() - consumed_;
  if (available < kHeader) return std::nullopt;
  std::uint64_t size = 0;
  std::memcpy(&size, in_.data() + consumed_ + 1, sizeof(size));
  if (available - kHeader < size) return std::nullopt;
  Frame frame{static_cast<Kind>(in_[consumed_]), in_.substr(consumed_ + kHeader, size)};
  consumed_ += kHeader + size;
  if (consumed_ == in_.size()) {
    in_.clear();
    consumed_ = 0;
  }
  return frame;
}

}  // namespace tessera::measure
