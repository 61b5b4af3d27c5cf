// The tables of a fleet, beside those of records.
#pragma once

#include <string>

#include "tessera/trials/record/statement.h"

namespace tessera::fleet {

// A change raises it; newer tables are refused, older ones made anew: they hold nothing that lasts.
inline constexpr std::int64_t kQueueVersion = 2;

// Agents listen there for trials and tunings.
inline constexpr const char* kWorkChannel = "tessera_trials";

enum TrialState : int { kQueued = 0, kClaimed = 1, kDone = 2, kGivenUp = 3, kCancelled = 4 };
// kRunning stays where a result was reported: the trial says so.
enum AttemptEnd : int { kRunning = 0, kExpired = 2, kGivenBack = 3 };

// Makes them where there are none. kUnsupported: a newer version wrote them.
Result<void> prepare_queue(const record::Connection& connection);

// SQL: milliseconds by the clock of whoever keeps the tables.
const char* now_sql(const record::Connection& connection);

// The first column of what is left of its rows.
Result<std::vector<std::int64_t>> integers_of(record::Statement& statement);

}  // namespace tessera::fleet
