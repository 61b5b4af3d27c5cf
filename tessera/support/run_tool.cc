#include "tessera/support/run_tool.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace tessera {
namespace {

constexpr std::size_t kShownOutput = 4000;

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> block{};
  for (;;) {
    const ssize_t count = ::read(descriptor, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
}

int start(const std::vector<std::string>& command, const std::string& folder, int output,
          pid_t* child) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  const int error = ::posix_spawnp(child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

Result<std::string> run_tool(const std::vector<std::string>& command, const std::string& folder) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return make_error(ErrorCode::kIo, "pipe: {}", std::strerror(errno));
  }
  pid_t child = 0;
  const int error = start(command, folder, ends[1], &child);
  ::close(ends[1]);
  const std::string output = error == 0 ? read_all(ends[0]) : std::string();
  ::close(ends[0]);
  if (error != 0) {
    return make_error(ErrorCode::kUnavailable, "cannot run {}: {}", command[0],
                      std::strerror(error));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  const std::string shown =
      output.size() > kShownOutput ? "..." + output.substr(output.size() - kShownOutput) : output;
  return make_error(ErrorCode::kBuildFailed, "{} failed:\n{}", command[0], shown);
}

}  // namespace tessera
