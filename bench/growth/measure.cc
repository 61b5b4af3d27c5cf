#include "bench/growth/measure.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::growth {
namespace {

using Clock = std::chrono::steady_clock;

// How much longer than its processor time a command may take on a busy machine.
constexpr double kIdle = 10;

double seconds_of(const timeval& t) {
  return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
}

double anonymous_mb(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::atof(line.c_str() + 8) * 1024e-6;
  }
  return 0;
}

pid_t start(const std::vector<std::string>& command, const std::string& log, double limit_s) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  const auto seconds = static_cast<rlim_t>(std::ceil(limit_s));
  const rlimit cpu{seconds, seconds + 1};
  ::setrlimit(RLIMIT_CPU, &cpu);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

std::string last_line(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return text->substr(text->rfind('\n') + 1);
}

}  // namespace

Result<Cost> run_command(const std::vector<std::string>& command, double limit_s,
                         const std::vector<int>& accepted) {
  TESSERA_TRY(const TemporaryFolder folder, TemporaryFolder::make("growth"));
  const std::string log = folder.path() + "/log";
  const Clock::time_point begin = Clock::now();
  const pid_t child = start(command, log, limit_s);
  if (child < 0) return make_error(ErrorCode::kUnavailable, "cannot start {}", command[0]);
  Cost cost;
  int status = 0;
  rusage usage{};
  bool late = false;
  while (::wait4(child, &status, WNOHANG, &usage) == 0) {
    cost.own_mb = std::max(cost.own_mb, anonymous_mb(child));
    cost.wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
    if (cost.wall_s > kIdle * limit_s && !std::exchange(late, true)) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  cost.wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
  cost.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  cost.peak_mb = static_cast<double>(usage.ru_maxrss) * 1024e-6;
  late = late || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU);
  if (late) return make_error(ErrorCode::kBuildFailed, "stopped after {:.0f} s", limit_s);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (std::find(accepted.begin(), accepted.end(), code) != accepted.end()) return cost;
  return make_error(ErrorCode::kBuildFailed, "exit code {}: {}", code, last_line(log));
}

Result<void> run_apart(const std::function<Result<void>()>& work) {
  TESSERA_TRY(const TemporaryFolder folder, TemporaryFolder::make("growth"));
  const std::string reason = folder.path() + "/reason";
  const pid_t child = ::fork();
  if (child < 0) return make_error(ErrorCode::kUnavailable, "cannot start a process");
  if (child == 0) {
    const Result<void> done = work();
    if (!done) (void)write_file(reason, {done.error().message});
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const std::string why = last_line(reason);
  return make_error(ErrorCode::kBuildFailed, "{}",
                    why.empty() ? "the process that made the files was killed" : why);
}

double exponent(const std::vector<double>& sizes, const std::vector<double>& costs, double floor) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!(costs[i] > floor)) continue;
    const double a = std::log(sizes[i]), b = std::log(costs[i]);
    n += 1;
    x += a;
    y += b;
    xx += a * a;
    xy += a * b;
  }
  const double spread = n * xx - x * x;
  if (n < 2 || !(spread > 0)) return std::numeric_limits<double>::quiet_NaN();
  return (n * xy - x * y) / spread;
}

std::vector<std::string> steeper(const std::map<std::string, double>& exponents, double most) {
  std::vector<std::string> out;
  for (const auto& [name, e] : exponents)
    if (e > most) out.push_back(fmt::format("{}: {:.2f}", name, e));
  return out;
}

}  // namespace tessera::growth
