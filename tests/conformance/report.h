// What `tessera conformance --json` says, judged.
#pragma once

#include <string>
#include <vector>

namespace tessera::conformance {

struct NotPassed {
  std::string name, status, reason;
};

struct Report {
  int cases = 0, passed = 0, failed = 0;
  // Cases whose inputs and outputs are tensors of numbers. The others are those that were refused
  // because a tensor is of type string, sequence or optional.
  int numeric = 0;
  std::vector<NotPassed> not_passed;

  double numeric_pass_rate() const;  // 0 without cases
};

constexpr double kLeastPassRate = 0.97;

// Reads the JSON and judges it: what is wrong is added to *complaints, one line each. Unreadable or
// contradictory JSON, a failed case (unless its data is known to be wrong), too few numeric cases
// passed, no cases at all.
Report judge(const std::string& json, std::vector<std::string>* complaints);

// How the case ran ("code", "nodes", ...); "" when the report, a good one, has no such case.
std::string ran_of(const std::string& json, const std::string& name);

}  // namespace tessera::conformance
