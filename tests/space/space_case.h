// A Dag under the schedule that is chosen for it, computed in every way there is.
#pragma once

#include "tessera/lang/te/dag.h"
#include "tessera/machine/target/target.h"

namespace tessera::space {

// The chosen schedule must apply and lower for `target`, and its loops must compute what the Dag
// means; with `compile` machine code too. i32 and i64 inputs hold 0 or 1, so that they may index.
// `slack` multiplies the allowed rounding.
void expect_correct(const te::Dag& dag, const target::Target& target = target::host(),
                    bool compile = true, double slack = 1);

// The text of the chosen schedule; fails the test when there is none.
std::string schedule_text(const te::Dag& dag, const target::Target& target = target::host());

// What rounding may do to a result: the coarsest type and the longest reduction decide.
double allowed_error(const te::Dag& dag);

te::Dag dag_of(const std::string& spec);

}  // namespace tessera::space
