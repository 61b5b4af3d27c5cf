// tessera report.
#pragma once

#include <functional>

#include "tessera/app/cli/common/flags.h"

namespace tessera::cli {

void add_report(Flags& app, std::function<int()>* run);

}  // namespace tessera::cli
