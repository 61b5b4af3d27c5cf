// What a tuning knows at its end, kept with its session for `tessera report`.
#pragma once

#include <string>

#include "tessera/app/report/summary.h"
#include "tessera/app/tune/tune.h"

namespace tessera::app {

// `problem` is what was tuned: it tells what the untuned models run.
report::Summary summary_of(const TuneResult& result, const TuneProblem& problem);

// Nothing where nothing was recorded. kUnavailable, kIo: the database cannot be had or written.
Result<void> keep_summary(const std::string& database, const TuneResult& result,
                          const TuneProblem& problem);

}  // namespace tessera::app
