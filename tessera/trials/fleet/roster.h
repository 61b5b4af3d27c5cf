// Who is there: agents, the tunings that want trials measured, and which agents work for which.
// Beside a Queue, with its connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/trials/fleet/queue.h"

namespace tessera::fleet {

// Who was not seen for so long is taken to be gone.
inline constexpr std::int64_t kAgentGoneMs = 30'000, kTuningGoneMs = 60'000;

enum class AgentState : int { kWorking = 0, kDraining = 1, kGone = 2 };
const char* to_text(AgentState state);

struct AgentRow {
  std::int64_t id = 0;
  std::string name;
  std::string target;        // target::to_text
  int threads = 1;           // that code may have
  std::string labels;        // "rack=3 quiet=yes"
  std::string version;       // of the program
  double calibration_s = 0;  // of the calibration kernel, when it began
  std::int64_t seen_ms = 0;  // ago; below: read only
  std::int64_t done = 0, failed = 0, claimed = 0;
  AgentState state = AgentState::kWorking;

  bool here() const { return state != AgentState::kGone && seen_ms < kAgentGoneMs; }
};

struct TuningRow {
  std::int64_t id = 0;
  std::string name;
  std::string target;            // of its code
  int threads = 1;               // of its code
  std::string labels;            // that agents must have
  std::string version;           // of the program
  std::int64_t most_agents = 0;  // 0: any number
  std::int64_t seen_ms = 0;      // ago; read only

  bool here() const { return seen_ms < kTuningGoneMs; }
};

// An agent that looked at a tuning; `refused`: why it does not work for it.
struct HelperRow {
  std::int64_t agent = 0;
  std::string refused;
};

class Roster {
 public:
  explicit Roster(const Queue& queue) : connection_(queue.connection()) {}

  Result<std::int64_t> add_agent(const AgentRow& agent);
  // The heartbeat. Returns what the agent is asked to be.
  Result<AgentState> seen(std::int64_t agent, std::int64_t done, std::int64_t failed);
  Result<void> remove_agent(std::int64_t agent);
  // By name or by id. Returns how many of those that are here were asked to end.
  Result<std::int64_t> drain(const std::string& agent);
  // Those that are here.
  Result<std::vector<AgentRow>> agents() const;

  // `work` is what its agents read (work.h). Forgets as forget_old(), where its role may.
  Result<std::int64_t> open_tuning(const TuningRow& tuning, const std::string& work);
  // The heartbeat. False: it is not open any more, as when its tuner slept.
  Result<bool> tuning_seen(std::int64_t tuning);
  // Its trials are cancelled, in a queue of the same place.
  Result<void> close_tuning(std::int64_t tuning, Queue& queue);
  // The same with those whose tuner has gone, but for their work: agents may not change it.
  Result<void> tidy(Queue& queue);
  // The same, and nothing of it is kept.
  Result<void> forget_tuning(std::int64_t tuning, Queue& queue);
  // Trials, tunings and agents that ended a day ago: whoever owns the tables may, roles of `fleet
  // grant` may not (kIo). Returns the number of tunings.
  Result<std::int64_t> forget_old();
  Result<std::vector<TuningRow>> tunings() const;  // open
  Result<std::string> work(std::int64_t tuning) const;

  // From now on the agent claims trials of the tuning, unless it has all the agents that it wants:
  // false. Again: no change.
  Result<bool> join(std::int64_t tuning, std::int64_t agent, std::int64_t most_agents);
  Result<void> refuse(std::int64_t tuning, std::int64_t agent, const std::string& reason);
  Result<std::vector<HelperRow>> helpers(std::int64_t tuning) const;

 private:
  const char* now() const;
  Result<void> forget(const std::string& tunings) const;

  std::shared_ptr<const record::Connection> connection_;
};

}  // namespace tessera::fleet
