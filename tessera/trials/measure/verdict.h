// How long a worker may take, and what its end says about the candidate it ran.
#pragma once

#include <string>

#include "tessera/machine/target/target.h"
#include "tessera/trials/measure/measurement.h"
#include "tessera/trials/measure/options.h"

namespace tessera::measure {

// Seconds for a task's inputs and reference, which may be compiled and compared with the
// interpreter first.
inline constexpr double kPrepareLimit = 120;

// The exit status of a worker whose device failed while several candidates were on it.
inline constexpr int kDeviceExit = 87;

// Of the first call: scaled to the incumbent where there is one. OpenCL compiles in it.
double call_limit_s(const Trial& trial, const target::Target& target,
                    const MeasureOptions& options);

// Ended by a signal that a candidate does not raise: someone else ended the worker, or memory ran
// out. `status` is that of wait().
bool lost_to_others(int status);
std::string describe(int status);  // "SIGSEGV", "exit status 1"

struct Verdict {
  Outcome outcome = Outcome::kRunError;
  std::string reason;
};

// `preparing`: no code of the candidate had run yet.
Verdict run_verdict(int status, bool timed_out, bool preparing);

}  // namespace tessera::measure
