#include "tessera/support/standard_streams.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <unistd.h>

namespace tessera {
namespace {

// Keeps a signal that a broken pipe raises from ending the process.
class WithoutBrokenPipes {
 public:
  WithoutBrokenPipes() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t waiting;
    sigpending(&waiting);
    waited_ = sigismember(&waiting, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutBrokenPipes() {
    const std::timespec at_once{};
    if (!waited_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutBrokenPipes(const WithoutBrokenPipes&) = delete;
  WithoutBrokenPipes& operator=(const WithoutBrokenPipes&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool waited_ = false;
};

ssize_t write_or_drop(void* /*cookie*/, const char* text, std::size_t size) {
  const WithoutBrokenPipes guard;
  for (std::size_t done = 0; done < size;) {
    const ssize_t written = ::write(STDERR_FILENO, text + done, size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return static_cast<ssize_t>(size);
}

}  // namespace

void guard_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    // Gets the lowest free number, which is this one.
    (void)!::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
  cookie_io_functions_t functions{};
  functions.write = write_or_drop;
  std::FILE* guarded = ::fopencookie(nullptr, "w", functions);
  if (guarded == nullptr) return;
  std::setvbuf(guarded, nullptr, _IONBF, 0);
  stderr = guarded;
}

}  // namespace tessera
