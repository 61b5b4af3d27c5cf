// Trials that wait for an agent, in a database of records. At least once they run, exactly once
// their result counts: a claim is a lease by the server's clock, and a report is accepted only for
// the latest attempt. Safe to use from several threads and processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/trials/record/statement.h"

namespace tessera::fleet {

inline constexpr int kMostClaimed = 64;  // trials of one claim or report
inline constexpr int kMostAttempts = 5;  // whose leases ran out: whoever takes it dies of it
// However well its agent beats: an attempt that takes longer hangs.
inline constexpr std::chrono::milliseconds kLongestAttempt{3'600'000};

struct NewTrial {
  std::string payload;
  bool urgent = false;      // before what waits
  std::int64_t not_by = 0;  // agent that may not be the first to take it; 0: all may
};

struct Claim {
  std::int64_t trial = 0, attempt = 0, session = 0;
  std::string payload;
};

struct TrialResult {
  std::int64_t trial = 0, attempt = 0;
  std::string payload;     // empty with attempt 0: given up after kMostAttempts
  std::int64_t agent = 0;  // that reported it; report() does not read it
};

struct QueueCounts {
  std::int64_t queued = 0, claimed = 0, done = 0, given_up = 0, cancelled = 0;
  std::int64_t taken_over = 0;  // attempts whose lease ran out
};

class Queue {
 public:
  // `place` as Database::open has it, which made the tables of records there.
  static Result<Queue> open(const std::string& place,
                            std::chrono::milliseconds patience = record::kPatience);

  // Sessions share agents by their weights: of two with 1 and 3 the second has three of four turns,
  // whenever it began. Returns the ids, in the order of the trials.
  Result<std::vector<std::int64_t>> enqueue(std::int64_t session,
                                            const std::vector<NewTrial>& trials, double weight = 1);
  // At most `limit` (1 to kMostClaimed) that wait or whose lease ran out, for `lease`, of the
  // sessions that the agent works for (Roster::join).
  Result<std::vector<Claim>> claim(std::int64_t agent, int limit, std::chrono::milliseconds lease);
  // For `lease` from now, unless it was claimed longer ago than kLongestAttempt. Returns the trials
  // that the agent still holds.
  Result<std::vector<std::int64_t>> renew(std::int64_t agent, std::chrono::milliseconds lease);
  // Results and the end of their leases, in one statement. Returns the trials whose result it is:
  // not those that another agent took over, nor cancelled ones. Again: the same answer, and no
  // change.
  Result<std::vector<std::int64_t>> report(std::int64_t agent,
                                           const std::vector<TrialResult>& results);
  // From now on all agents may take what waits, whatever `not_by` said. Returns how many it kept
  // from one.
  Result<std::int64_t> open_to_all(std::int64_t session);
  // All that it holds but for `kept`, for another to take at once. Returns how many.
  Result<std::int64_t> give_back(std::int64_t agent, const std::vector<std::int64_t>& kept = {});
  // These, as if their leases had run out now: they count among kMostAttempts.
  Result<std::int64_t> expire(std::int64_t agent, const std::vector<std::int64_t>& trials);

  // Those not yet taken, in order of the trials; again until take() says that they are safe.
  Result<std::vector<TrialResult>> results(std::int64_t session);
  Result<void> take(std::int64_t session, const std::vector<std::int64_t>& trials);
  // What waits and what is claimed, whose results are refused from now on. Returns how many.
  Result<std::int64_t> cancel(std::int64_t session);

  Result<QueueCounts> counts() const;
  Result<QueueCounts> counts_of(std::int64_t session) const;  // without taken_over
  // Until somebody enqueues, or so long.
  void wait(std::chrono::milliseconds timeout) const;

  const std::shared_ptr<const record::Connection>& connection() const { return connection_; }

 private:
  explicit Queue(record::Connection connection)
      : connection_(std::make_shared<const record::Connection>(std::move(connection))) {}
  Result<void> end_attempts(const std::vector<Claim>& claims);
  // Those that it holds, where `which` (SQL) says so.
  Result<std::int64_t> release(std::int64_t agent, const std::string& which, int outcome);
  Result<std::vector<Claim>> take_hopeless(std::vector<Claim>* claims);
  Result<void> note_attempts(std::int64_t agent, const std::vector<Claim>& claims);
  Result<void> give_up(const std::vector<Claim>& claims);
  const char* now() const;

  std::shared_ptr<const record::Connection> connection_;
};

}  // namespace tessera::fleet
