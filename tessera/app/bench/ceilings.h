// The rates that the kernels of a report are held against.
#pragma once

#include <optional>
#include <string>

#include "tessera/app/report/ceilings.h"
#include "tessera/support/result.h"

namespace tessera::app {

// Of the machine that a line of target::to_text names: measured where it is this one (some
// seconds), else of a GPU by its datasheet; nothing of other machines.
Result<std::optional<report::Ceilings>> ceilings_of(const std::string& target, int threads);

}  // namespace tessera::app
