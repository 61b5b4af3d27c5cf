// What a command costs, and how that grows.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::growth {

struct Cost {
  double cpu_s = 0, wall_s = 0;  // CPU: user and system, of all processes that it waited for
  double peak_mb = 0;            // resident of the largest process, mapped files included
  double own_mb = 0;             // anonymous memory of the command itself, looked at every 2 ms
};

// kBuildFailed: it could not be started, failed, or took more than `limit_s` of processor time or
// ten times that of wall time; what it printed last is in the message. Exit codes of `accepted` are
// no failures.
Result<Cost> run_command(const std::vector<std::string>& command, double limit_s,
                         const std::vector<int>& accepted);

// `work` in a process of its own. What this process has held counts as memory of the commands that
// it starts later.
Result<void> run_apart(const std::function<Result<void>()>& work);

// e of cost = a * size^e by least squares of logarithms; costs below `floor` say nothing of growth
// and are left out. Not a number where fewer than two are left.
double exponent(const std::vector<double>& sizes, const std::vector<double>& costs, double floor);

// The exponents above `most`, by name: "chain tasks CPU: 1.80". What is not a number is not.
std::vector<std::string> steeper(const std::map<std::string, double>& exponents, double most);

}  // namespace tessera::growth
