#include "tessera/support/line_program.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/support/clock.h"

extern char** environ;

namespace tessera {
namespace {

constexpr double kFarewellS = 0.5;
// Codes as shells say them: of what is not found; of a signal, less its number.
constexpr int kNotFound = 127;
constexpr int kSignalled = 128;

// Milliseconds for poll().
int until(Clock::time_point deadline) {
  return static_cast<int>(std::clamp(seconds_until(deadline) * 1e3, 0.0, 1e9));
}

int spawn_shell(const std::string& command, int socket, pid_t* child) {
  std::array<char*, 4> argv = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                               const_cast<char*>(command.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int error = ::posix_spawn(child, "/bin/sh", &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Result<std::unique_ptr<LineProgram>> LineProgram::start(const std::string& command,
                                                        const LineProgramLimits& limits) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return make_error(ErrorCode::kUnavailable, "{}: socketpair: {}", command, std::strerror(errno));
  pid_t child = 0;
  const int error = spawn_shell(command, ends[1], &child);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return make_error(ErrorCode::kUnavailable, "cannot run {}: {}", command, std::strerror(error));
  }
  return std::unique_ptr<LineProgram>(new LineProgram(command, limits, child, ends[0]));
}

LineProgram::~LineProgram() {
  if (child_ > 0) {
    ::shutdown(socket_, SHUT_WR);
    wait_a_moment(nullptr);
    end_program();
  }
  ::close(socket_);
}

void LineProgram::end_program() {
  if (child_ <= 0) return;
  ::kill(-child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  child_ = 0;
}

bool LineProgram::wait_a_moment(int* status) {
  const Clock::time_point deadline = seconds_from_now(kFarewellS);
  while (::waitpid(child_, status, WNOHANG) == 0) {
    if (seconds_until(deadline) < 0) return false;
    ::usleep(1000);
  }
  child_ = 0;
  return true;
}

// After it closed its end: most programs do that by ending.
std::string LineProgram::how_it_ended() {
  int status = 0;
  if (!wait_a_moment(&status)) return "it closed its output";
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (code > kSignalled && code < kSignalled + NSIG) signal = code - kSignalled;
  if (signal != 0) return fmt::format("it ended: {}", ::strsignal(signal));
  if (code == kNotFound) return "it cannot be started";
  return fmt::format("it ended with code {}", code);
}

bool LineProgram::send_line(const std::string& line, Clock::time_point deadline) {
  std::string_view left = line;
  while (!left.empty()) {
    pollfd wait{socket_, POLLOUT, 0};
    if (::poll(&wait, 1, until(deadline)) == 0) return false;
    const ssize_t n = ::send(socket_, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return true;  // it has ended, which reading finds out with the reason
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

Result<std::string> LineProgram::ask_locked(const std::string& line) {
  if (!error_.empty()) return Error{ErrorCode::kRunFailed, error_};
  const Clock::time_point deadline = seconds_from_now(limits_.reply_s);
  const std::string late = fmt::format("no answer within {:g} s", limits_.reply_s);
  if (!send_line(line + "\n", deadline)) return fail_locked(late);
  std::size_t looked = 0;
  while (true) {
    const std::size_t end = received_.find('\n', looked);
    if (end != std::string::npos) {
      std::string reply = received_.substr(0, end);
      received_.erase(0, end + 1);
      return reply;
    }
    looked = received_.size();
    if (looked > limits_.most_bytes)
      return fail_locked(fmt::format("an answer of more than {} bytes", limits_.most_bytes));
    pollfd wait{socket_, POLLIN, 0};
    const int ready = ::poll(&wait, 1, until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return fail_locked(late);
    std::array<char, 65536> block{};
    const ssize_t n = ::recv(socket_, block.data(), block.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_locked(how_it_ended());
    received_.append(block.data(), static_cast<std::size_t>(n));
  }
}

Error LineProgram::fail_locked(const std::string& reason) {
  if (error_.empty()) error_ = fmt::format("{}: {}", command_, reason);
  end_program();
  return Error{ErrorCode::kRunFailed, error_};
}

Result<std::string> LineProgram::ask(const std::string& line) {
  const std::lock_guard lock(mutex_);
  return ask_locked(line);
}

Error LineProgram::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  return fail_locked(reason);
}

std::string LineProgram::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace tessera
