#include "tests/cli/process.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/support/check.h"

namespace tessera::cli {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    TESSERA_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2 failed");
    read_end = ends[0];
    write_end = ends[1];
  }
};

// Replaces this child of fork by the program; never returns.
[[noreturn]] void exec_child(const std::vector<std::string>& command, const Pipe& out,
                             const Pipe& err) {
  ::signal(SIGINT, SIG_DFL);  // a test runner in the background ignores it
  ::dup2(out.write_end, STDOUT_FILENO);
  ::dup2(err.write_end, STDERR_FILENO);
  if (::chdir(TESSERA_ROOT) != 0) ::_exit(127);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

// Reads both streams to their ends, so that neither can block the program.
void drain(const Pipe& out, const Pipe& err, pid_t child, bool interrupt, Finished* result) {
  std::array<pollfd, 2> streams = {pollfd{out.read_end, POLLIN, 0},
                                   pollfd{err.read_end, POLLIN, 0}};
  std::array<std::string*, 2> texts = {&result->out, &result->err};
  int open = 2;
  while (open > 0) {
    ::poll(streams.data(), streams.size(), -1);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].revents == 0) continue;
      std::array<char, 4096> block{};
      const ssize_t count = ::read(streams[i].fd, block.data(), block.size());
      if (count > 0) {
        texts[i]->append(block.data(), static_cast<std::size_t>(count));
        if (interrupt && i == 0) ::kill(child, SIGINT);
        continue;
      }
      ::close(streams[i].fd);
      streams[i].fd = -1;
      --open;
    }
  }
}

Finished execute(const std::vector<std::string>& command, bool interrupt) {
  // Commands in the documents say `tessera`; set before fork, where allocating is still allowed.
  const std::string folder = std::filesystem::path(TESSERA_BINARY).parent_path().string();
  static const std::string path = folder + ":" + (std::getenv("PATH") ? std::getenv("PATH") : "");
  ::setenv("PATH", path.c_str(), 1);
  ::setenv("TESSERA_CACHE", "off", 0);  // not the user's
  const Pipe out;
  const Pipe err;
  const pid_t child = ::fork();
  TESSERA_CHECK(child >= 0, "fork failed");
  if (child == 0) exec_child(command, out, err);
  ::close(out.write_end);
  ::close(err.write_end);
  Finished result;
  drain(out, err, child, interrupt, &result);
  int status = 0;
  rusage usage{};
  TESSERA_CHECK(::wait4(child, &status, 0, &usage) == child, "wait4 failed");
  result.peak_kib = usage.ru_maxrss;
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

std::vector<std::string> with_program(const std::vector<std::string>& args) {
  std::vector<std::string> command = {TESSERA_BINARY};
  command.insert(command.end(), args.begin(), args.end());
  return command;
}

}  // namespace

Finished run(const std::vector<std::string>& args) { return execute(with_program(args), false); }

Finished run_shell(const std::string& command) { return execute({"sh", "-c", command}, false); }

Finished run_interrupted(const std::vector<std::string>& args) {
  return execute(with_program(args), true);
}

Background::Background(const std::vector<std::string>& args) {
  static int count = 0;
  files_ = write_file("background" + std::to_string(++count), "");
  const std::vector<std::string> command = with_program(args);
  ::setenv("TESSERA_CACHE", "off", 0);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::string out = files_ + ".out", err = files_ + ".err";
  process_ = ::fork();
  TESSERA_CHECK(process_ >= 0, "fork failed");
  if (process_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGINT, SIG_DFL);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
  if (::chdir(TESSERA_ROOT) != 0) ::_exit(127);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

Background::~Background() {
  signal(SIGKILL);
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

void Background::signal(int number) const {
  if (process_ > 0) ::kill(process_, number);
}

bool Background::runs() const {
  siginfo_t info{};
  return process_ > 0 &&
         ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

std::string Background::said() const { return read_file(files_ + ".err"); }

Finished Background::wait() {
  Finished result;
  int status = 0;
  if (process_ > 0) ::waitpid(process_, &status, 0);
  process_ = 0;
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = read_file(files_ + ".out");
  result.err = read_file(files_ + ".err");
  return result;
}

std::vector<std::string> quick_bench(const std::vector<std::string>& args) {
  std::vector<std::string> all = {"bench", "--samples", "1", "--time-limit", "0.05"};
  // One thread has a core to itself more often than all of them have.
  if (std::find(args.begin(), args.end(), "--threads") == args.end())
    all.insert(all.end(), {"--threads", "1"});
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

std::string write_file(const std::string& name, const std::string& text) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("tessera_cli_") + test->test_suite_name() + "_" + test->name());
  const std::filesystem::path file = folder / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
  return file.string();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace tessera::cli
