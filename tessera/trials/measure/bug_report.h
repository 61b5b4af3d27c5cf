// What made the compiler crash, kept for whoever mends it.
#pragma once

#include <string>

#include "tessera/lang/te/dag.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::measure {

// Writes task, steps and target into a file of `folder` (empty: that of temporary files), whose
// name follows from them, and returns what to tell people: what happened, and the file or why there
// is none.
std::string report_bug(const te::Dag& dag, const schedule::Schedule& steps,
                       const target::Target& target, const std::string& what,
                       const std::string& folder);

}  // namespace tessera::measure
