// Runs a Dag under a schedule given as text, in every way there is.
#pragma once

#include <string>

#include "tessera/lang/te/dag.h"
#include "tessera/scheduling/lower/lower.h"
#include "tests/fuzz/check_case.h"

namespace tessera::lower {

// The schedule must lower, and its loops, the lowered function and the compiled kernel must compute
// what the Dag means. i32 and i64 inputs named idx hold indices below `index_limit`.
void expect_agrees(const te::Dag& dag, const std::string& schedule, std::int64_t index_limit = 1,
                   const fuzz::CheckOptions& options = {});

// The function after `pass`; fails the test and returns an empty one when the schedule is refused.
ir::Func lower_to(const te::Dag& dag, const std::string& schedule, const std::string& pass = "");

// The schedule must be refused by `lower` with kIllegalSchedule and a message that contains `part`.
void expect_refused(const te::Dag& dag, const std::string& schedule, const std::string& part);

te::Dag dag_of(const char* spec);

}  // namespace tessera::lower
