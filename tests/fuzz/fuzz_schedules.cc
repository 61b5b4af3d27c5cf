// fuzz_schedules --seed S --runs N [--no-compile]: random Dags under random schedules, seeds S,
// S+1, ...
// --keep-going reports every failure, not only the first; --print shows each case and its lowered
// function. Exit status 1 and a report with the command to repeat it when one of them computes
// something else.
#include <charconv>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "check_case.h"

namespace {

using tessera::fuzz::Case;

struct Flags {
  std::uint64_t seed = 1;
  std::uint64_t runs = 1000;
  bool keep_going = false;
  bool print = false;
  tessera::fuzz::CheckOptions check;
};

bool read_number(const char* text, std::uint64_t* out) {
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, *out);
  return error == std::errc() && at == end;
}

bool read_flags(int argc, char** argv, Flags* flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool has_value = i + 1 < argc;
    if (flag == "--seed" && has_value && read_number(argv[i + 1], &flags->seed)) {
      ++i;
    } else if (flag == "--runs" && has_value && read_number(argv[i + 1], &flags->runs)) {
      ++i;
    } else if (flag == "--no-compile") {
      flags->check.compile = false;
    } else if (flag == "--keep-going") {
      flags->keep_going = true;
    } else if (flag == "--print") {
      flags->print = true;
    } else {
      return false;
    }
  }
  return true;
}

char g_crash_report[128];  // written by the signal handler

void on_crash(int signal) {
  // Nothing can be done about a failed write here.
  [[maybe_unused]] const auto n = write(STDERR_FILENO, g_crash_report, std::strlen(g_crash_report));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::string describe(const Case& c, const tessera::schedule::Schedule& schedule) {
  return fmt::format("{}schedule:\n{}", tessera::te::to_text(c.dag.dag),
                     tessera::schedule::to_text(schedule));
}

// False, after a report, when the case of this seed fails.
bool run_seed(std::uint64_t seed, const Flags& flags) {
  Case c;
  std::string bad;
  try {
    c = tessera::fuzz::make_case(seed);
    if (flags.print)
      fmt::print(stderr, "{}{}\n", describe(c, c.schedule),
                 tessera::fuzz::lowered_text(c.dag.dag, c.schedule));
    bad = check_case(c.dag, c.schedule, flags.check);
  } catch (const std::exception& e) {
    bad = fmt::format("drawing the case: exception: {}", e.what());
  }
  if (bad.empty()) return true;
  const tessera::schedule::Schedule shorter = shrink(c.dag, c.schedule, flags.check);
  const std::string again = check_case(c.dag, shorter, flags.check);
  fmt::print(
      stderr,
      "FAILED seed {}: {}\n{}with this schedule: {}\nrepeat: fuzz_schedules --seed {} --runs 1\n\n",
      seed, bad, describe(c, shorter), again, seed);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!read_flags(argc, argv, &flags)) {
    fmt::print(
        stderr,
        "usage: fuzz_schedules [--seed S] [--runs N] [--no-compile] [--keep-going] [--print]\n");
    return 2;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, on_crash);
  std::uint64_t failures = 0;
  for (std::uint64_t i = 0; i < flags.runs; ++i) {
    const std::uint64_t seed = flags.seed + i;
    fmt::format_to_n(g_crash_report, sizeof(g_crash_report) - 1,
                     "CRASHED: repeat with fuzz_schedules --seed {} --runs 1\n{}", seed, '\0');
    if (run_seed(seed, flags)) continue;
    ++failures;
    if (!flags.keep_going) break;
  }
  fmt::print("{} runs from seed {}: {} failed\n", flags.runs, flags.seed, failures);
  return failures == 0 ? 0 : 1;
}
