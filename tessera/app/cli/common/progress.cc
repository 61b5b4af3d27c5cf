#include "tessera/app/cli/common/progress.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tessera/support/clock.h"

namespace tessera::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0, first_signal = 0, all_saved = 1;

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  (void)::raise(signal);
}

void note_interrupt(int signal) {
  if (interrupts == 0) first_signal = signal;
  interrupts = interrupts + 1;
  if (interrupts > (all_saved != 0 ? 1 : 2)) end_by(signal);
}

double now_s() { return seconds_between({}, Clock::now()); }

std::size_t terminal_width() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79u;
}

}  // namespace

ProgressLine::ProgressLine(double plain_s)
    : terminal_(::isatty(STDERR_FILENO) != 0),
      plain_s_(plain_s),
      last_s_(-std::numeric_limits<double>::infinity()) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::show(const std::string& line, bool important) {
  if (!terminal_) {
    if (!important && now_s() - last_s_ < plain_s_) return;
    last_s_ = now_s();
    fmt::print(stderr, "{}\n", line);
    std::fflush(stderr);
    return;
  }
  shown_ = fitted(line, terminal_width());
  fmt::print(stderr, "\r\033[K{}", shown_);
  std::fflush(stderr);
}

std::size_t ProgressLine::width() const {
  return terminal_ ? terminal_width() : std::numeric_limits<std::size_t>::max();
}

void ProgressLine::say(const std::string& line) {
  const std::string live = shown_;
  if (terminal_ && !live.empty()) fmt::print(stderr, "\r\033[K");
  fmt::print(stderr, "{}\n", line);
  if (terminal_ && !live.empty()) fmt::print(stderr, "{}", live);
  std::fflush(stderr);
}

void ProgressLine::finish() {
  if (terminal_ && !shown_.empty()) fmt::print(stderr, "\n");
  shown_.clear();
  std::fflush(stderr);
}

void catch_interrupt(OnInterrupt state) {
  all_saved = state == OnInterrupt::kAllSaved ? 1 : 0;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    const bool known = ::sigaction(signal, nullptr, &before) == 0;
    if (signal == SIGHUP && known && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

bool interrupted() { return interrupts != 0; }

void end_if_hurried() {
  all_saved = 1;
  if (interrupts > 1) end_by(first_signal);
}

int interrupt_code() { return 128 + (first_signal != 0 ? first_signal : SIGINT); }

std::string fitted(const std::string& line, std::size_t width) {
  constexpr std::string_view kMore = " ...";
  if (line.size() <= width) return line;
  if (width <= kMore.size()) return line.substr(0, width);
  const std::size_t space = line.rfind(' ', width - kMore.size());
  if (space == std::string::npos || space == 0) return line.substr(0, width);
  return line.substr(0, space) + std::string(kMore);
}

std::string clock_text(double seconds) {
  const auto total = static_cast<long long>(std::max(0.0, seconds) + 0.5);
  if (total >= 3600) {
    return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  }
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string time_text(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return "-";
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-2) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds >= 1e-5) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds >= 1e-6) return fmt::format("{:.2f} us", seconds * 1e6);
  return fmt::format("{:.0f} ns", seconds * 1e9);
}

}  // namespace tessera::cli
