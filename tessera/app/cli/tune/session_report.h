// What the page of `tessera report` tells of a session besides what the session tells itself.
#pragma once

#include "tessera/app/cli/tune/output.h"
#include "tessera/app/tune/tune.h"

namespace tessera::cli {

// Adds to the summary that the session left in its database: the layers behind its kernels, the
// peers, and the file with what could not be proved. Nothing where no database is kept.
Result<void> complete_summary(const app::TuneOptions& options, const TuneSummary& summary);

}  // namespace tessera::cli
