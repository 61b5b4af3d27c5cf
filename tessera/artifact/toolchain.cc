#include "tessera/artifact/toolchain.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace tessera::artifact {
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

// A folder of our own below the system's for temporary files; gone with the object.
class ProbeFolder {
 public:
  ProbeFolder() {
    std::error_code error;
    path_ = (std::filesystem::temp_directory_path(error) / "tessera-probe-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ProbeFolder(const ProbeFolder&) = delete;
  ProbeFolder& operator=(const ProbeFolder&) = delete;
  ~ProbeFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Makes an empty library: a compiler that starts may still lack the target's headers or linker.
Result<void> probe(const std::vector<std::string>& cc) {
  const ProbeFolder folder;
  if (folder.path().empty()) {
    return make_error(ErrorCode::kIo, "no temporary folder: {}", std::strerror(errno));
  }
  std::vector<std::string> command = cc;
  for (const char* word : {"-shared", "-fPIC", "-pthread", "-x", "c", "-include", "stdio.h",
                           "-include", "pthread.h", "/dev/null", "-o", "probe.so", "-lm"}) {
    command.emplace_back(word);
  }
  const Result<std::string> done = run_tool(command, folder.path());
  if (!done.ok()) return done.error();
  return {};
}

// The first line that names an error; compilers say where it was included from above it.
std::string error_line(const std::string& output) {
  std::string first;
  for (std::size_t at = 0; at < output.size();) {
    const std::size_t end = std::min(output.find('\n', at), output.size());
    std::string line = output.substr(at, end - at);
    if (line.find("error") != std::string::npos) return line;
    if (first.empty() && !line.ends_with("failed:")) first = line;
    at = end + 1;
  }
  return first;
}

// Those of Debian and Ubuntu.
std::string packages_for(const target::Target& target) {
  if (target.arch == target::host().arch) return "gcc libc6-dev";
  return target.arch == target::Arch::kAArch64 ? "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
                                               : "gcc-x86-64-linux-gnu libc6-dev-amd64-cross";
}

std::vector<std::vector<std::string>> candidates(const target::Target& target) {
  if (target.arch == target::host().arch) return {{"cc"}, {"gcc"}, {"clang"}};
  const std::string arch = target.arch == target::Arch::kAArch64 ? "aarch64" : "x86_64";
  return {{arch + "-linux-gnu-gcc"}, {"clang", "--target=" + target.triple}};
}

// A relative path would be looked up in the folder where the tool runs.
std::string absolute_program(const std::string& program) {
  if (program.find('/') == std::string::npos) return program;
  std::error_code error;
  return std::filesystem::absolute(program, error).string();
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

Result<Toolchain> find_toolchain(const target::Target& target, const std::string& cc) {
  std::vector<std::vector<std::string>> tried = candidates(target);
  if (!cc.empty()) tried = {{absolute_program(cc)}};
  std::string reasons;
  for (const std::vector<std::string>& candidate : tried) {
    if (const Result<void> made = probe(candidate); !made.ok()) {
      reasons +=
          fmt::format("\n  {}: {}", fmt::join(candidate, " "), error_line(made.error().message));
      continue;
    }
    Toolchain found{candidate, "ar"};
    std::vector<std::string> ask = candidate;
    ask.push_back("-print-prog-name=ar");
    if (const Result<std::string> ar = run_tool(ask, "/"); ar.ok() && !ar->empty()) {
      found.ar = ar->substr(0, ar->find('\n'));
    }
    return found;
  }
  return make_error(
      ErrorCode::kUnavailable,
      "no C compiler for {}; install one (Debian, Ubuntu: {}) or name it with --cc:{}",
      target.triple, packages_for(target), reasons);
}

}  // namespace tessera::artifact
