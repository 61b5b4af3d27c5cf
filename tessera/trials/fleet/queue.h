// Trials that wait for an agent, in a database of records. At least once they run, exactly once
// their result counts: a claim is a lease by the server's clock, and a report is accepted only for
// the latest attempt. Safe to use from several threads and processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/statement.h"

namespace tessera::fleet {

inline constexpr int kMostClaimed = 64;  // trials of one claim or report
inline constexpr int kMostAttempts = 5;  // then whoever takes it is taken to die of it

struct NewTrial {
  std::string machine;  // group of machines that may run it; empty: any
  std::string payload;
};

struct Claim {
  std::int64_t trial = 0, attempt = 0;
  std::string payload;
};

struct TrialResult {
  std::int64_t trial = 0, attempt = 0;
  std::string payload;  // empty with attempt 0: given up after kMostAttempts
};

struct QueueCounts {
  std::int64_t queued = 0, claimed = 0, done = 0, given_up = 0;
  std::int64_t taken_over = 0;  // attempts whose lease ran out
};

class Queue {
 public:
  // `place` as Database::open has it, which made the tables of records there.
  static Result<Queue> open(const std::string& place,
                            std::chrono::milliseconds patience = record::kPatience);

  Result<std::int64_t> add_agent(const std::string& name, const std::string& machine);

  // Sessions share agents by their weights: of two with 1 and 3 the second has three of four turns,
  // whenever it began. Returns the ids.
  Result<std::vector<std::int64_t>> enqueue(std::int64_t session,
                                            const std::vector<NewTrial>& trials, double weight = 1);
  // At most `limit` (1 to kMostClaimed) that wait or whose lease ran out, for `lease`.
  Result<std::vector<Claim>> claim(std::int64_t agent, const std::string& machine, int limit,
                                   std::chrono::milliseconds lease);
  // The heartbeat: for `lease` from now. Returns the trials that the agent still holds.
  Result<std::vector<std::int64_t>> renew(std::int64_t agent, std::chrono::milliseconds lease);
  // Result and end of the lease in one transaction. Returns the trials that were accepted: those of
  // an attempt that another agent took over, and those reported before, are not.
  Result<std::vector<std::int64_t>> report(std::int64_t agent,
                                           const std::vector<TrialResult>& results);
  // All that it holds, for another to take at once. Returns how many.
  Result<std::int64_t> give_back(std::int64_t agent);

  // Those not yet taken, in order of the trials; again until take() says that they are safe.
  Result<std::vector<TrialResult>> results(std::int64_t session);
  Result<void> take(std::int64_t session, const std::vector<std::int64_t>& trials);
  // What still waits; a claimed one may still be reported. Returns how many.
  Result<std::int64_t> cancel(std::int64_t session);

  Result<QueueCounts> counts() const;
  // Until somebody enqueues, or so long.
  void wait(std::chrono::milliseconds timeout) const;

 private:
  explicit Queue(record::Connection connection) : connection_(std::move(connection)) {}
  Result<void> give_up_lost();
  const char* now() const;  // SQL: milliseconds by the server's clock

  record::Connection connection_;
};

}  // namespace tessera::fleet
