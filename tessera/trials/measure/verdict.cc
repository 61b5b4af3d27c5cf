#include "tessera/trials/measure/verdict.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <sys/wait.h>

#include "tessera/trials/measure/guarded_buffer.h"
#include "tessera/trials/measure/process.h"

namespace tessera::measure {

double call_limit_s(const Trial& trial, const target::Target& target,
                    const MeasureOptions& options) {
  // This many times the incumbent, but never less than kLeastCall: the first call touches its
  // memory, and the system may have other things to do.
  constexpr double kCallFactor = 20, kLeastCall = 0.25;
  if (trial.incumbent_s <= 0 || trial.final || target.row().driver_compiles)
    return options.run_timeout_s;
  return std::min(std::max(kLeastCall, kCallFactor * trial.incumbent_s), options.run_timeout_s);
}

bool lost_to_others(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int s = WTERMSIG(status);
  return s == SIGKILL || s == SIGTERM || s == SIGHUP || s == SIGINT || s == SIGQUIT;
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return signal_name(WTERMSIG(status));
  return fmt::format("exit status {}", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

Verdict run_verdict(int status, bool timed_out, bool preparing) {
  if (timed_out && preparing) {
    return {Outcome::kWorkerLost, "inputs and reference took too long"};
  }
  if (timed_out) return {Outcome::kRunTimeout, "a call or the trial took too long"};
  if (lost_to_others(status)) {
    return {Outcome::kWorkerLost, fmt::format("run worker ended by {}", describe(status))};
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kGuardExit) {
    return {Outcome::kOutOfBounds, "touched memory beyond a guard zone, or wrote an input"};
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kDeviceExit) {
    return {Outcome::kRunError, "the device failed while it ran beside others"};
  }
  if (preparing) return {Outcome::kWorkerLost, "while preparing: " + describe(status)};
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
    return {Outcome::kRunError, "a system call that candidates may not make"};
  }
  return {Outcome::kRunError, describe(status)};
}

}  // namespace tessera::measure
