#include "tessera/trials/measure/worker_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/trials/measure/process.h"

namespace tessera::measure {
namespace {

constexpr int kForkTries = 5;

[[noreturn]] void be_worker(Channel channel, const char* name,
                            const std::function<void(Channel&)>& serve, pid_t parent) {
  die_with(parent);
  become_worker(channel.fd(), name);
  // Thrown on, an exception would reach handlers of the process that forked, with the channel
  // closed on the way: whoever reads it would take a crash for a worker that left.
  try {
    serve(channel);
  } catch (...) {
    std::abort();
  }
  _exit(0);
}

}  // namespace

pid_t fork_worker(const char* name, const std::function<void(Channel&)>& serve, Channel* channel) {
  const pid_t parent = getpid();
  for (int tries = 0; tries < kForkTries; ++tries) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
      const pid_t pid = fork();
      if (pid == 0) be_worker(Channel(ends[1]), name, serve, parent);
      close(ends[1]);
      *channel = Channel(ends[0]);
      if (pid > 0) return pid;
      channel->close();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50 << tries));
  }
  return 0;
}

int bury_worker(pid_t pid) {
  kill(pid, SIGKILL);  // it may only have closed its channel
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace tessera::measure
