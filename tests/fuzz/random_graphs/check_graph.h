// One model, run in every way there is: all must agree with the oracle, and code with itself.
#pragma once

#include <string>

#include "trace.h"

namespace tessera::fuzz {

// How many models ran in which way: what is not available here is not counted.
struct Counts {
  int compiled = 0, plans = 0, artifacts = 0, opencl = 0, parts = 0;
};

struct CheckOptions {
  bool compile = true;     // also machine code, on one thread and on three
  bool artifact = true;    // also what `compile` writes
  bool opencl = false;     // also on the OpenCL device at hand
  std::uint64_t plan = 0;  // also with decisions drawn from this seed; 0: only those by the rules
  Counts* counts = nullptr;
};

// Empty when all ways agree; otherwise what went wrong, beginning with the way ("passes: ...").
std::string check_graph(const Case& c, const CheckOptions& options);
// Whether such a message tells of results that differ, and not of something that could not be done.
bool is_comparison(const std::string& failure);
// The part of such a message that says which way failed: "passes".
std::string way_of(const std::string& failure);

}  // namespace tessera::fuzz
