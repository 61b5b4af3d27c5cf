// One Dag under one schedule, computed in every way there is: all must agree.
#pragma once

#include <string>
#include <vector>

#include "random_dag.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::fuzz {

struct CheckOptions {
  bool compile = true;  // also run machine code, on one thread and on three
  const target::Target* target = &target::host();  // its code must run here
};

// Empty when interp(dag), interp(loops as built), interp(loops as lowered) and the compiled kernel
// agree, all texts read back as what was written, and nothing is written outside the outputs; else
// what differs. Bugs that show as InternalError are reported the same way.
std::string check_case(const RandomDag& dag, const schedule::Schedule& schedule,
                       const CheckOptions& options = {});

// The shortest schedule found by dropping steps for which check_case still complains.
schedule::Schedule shrink(const RandomDag& dag, const schedule::Schedule& schedule,
                          const CheckOptions& options = {});

// The lowered function, or why there is none.
std::string lowered_text(const te::Dag& dag, const schedule::Schedule& schedule);

// The random case of a seed. InternalError when drawing it breaks the compiler.
struct Case {
  RandomDag dag;
  schedule::Schedule schedule;
};
Case make_case(std::uint64_t seed);

}  // namespace tessera::fuzz
