// The page of a tuning: one file, without scripts, that asks for nothing else.
#pragma once

#include <optional>
#include <string>

#include "tessera/app/report/ceilings.h"
#include "tessera/app/report/collect.h"

namespace tessera::report {

// Without ceilings the bars of kernels have no rooflines.
std::string to_html(const Report& report, const std::optional<Ceilings>& ceilings);

}  // namespace tessera::report
