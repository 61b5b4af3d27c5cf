// The tables of the queue, beside those of records.
#pragma once

#include "tessera/trials/record/statement.h"

namespace tessera::fleet {

// A change raises it; newer tables are refused.
inline constexpr std::int64_t kQueueVersion = 1;

enum TrialState : int { kQueued = 0, kClaimed = 1, kDone = 2, kGivenUp = 3, kCancelled = 4 };
enum AttemptEnd : int { kRunning = 0, kReported = 1, kExpired = 2, kGivenBack = 3 };

// Makes them where there are none. kUnsupported: a newer version wrote them.
Result<void> prepare_queue(const record::Connection& connection);

}  // namespace tessera::fleet
