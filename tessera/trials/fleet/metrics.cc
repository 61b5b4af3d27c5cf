#include "tessera/trials/fleet/metrics.h"

#include <cmath>

namespace tessera::fleet {
namespace {

struct Metric {
  const char* name;
  const char* kind;
  const char* help;
  double (*value)(const AgentProgress& p);
};

// A trial of the queue is one candidate, or several that are compared in turns.
constexpr Metric kMetrics[] = {
    {"tessera_agent_claimed_total", "counter", "Trials claimed from the queue",
     [](const AgentProgress& p) { return static_cast<double>(p.totals.claimed); }},
    {"tessera_agent_given_back_total", "counter", "Trials given back to the queue",
     [](const AgentProgress& p) { return static_cast<double>(p.totals.given_back); }},
    {"tessera_agent_measured_total", "counter", "Candidates measured, with those that failed",
     [](const AgentProgress& p) { return static_cast<double>(p.totals.trials); }},
    {"tessera_agent_failed_total", "counter", "Candidates that failed",
     [](const AgentProgress& p) { return static_cast<double>(p.totals.failed); }},
    {"tessera_agent_late_total", "counter", "Trials reported after their lease, without effect",
     [](const AgentProgress& p) { return static_cast<double>(p.totals.late); }},
    {"tessera_agent_measuring_seconds_total", "counter", "Time spent measuring",
     [](const AgentProgress& p) { return p.totals.measuring_s; }},
    {"tessera_agent_in_hand", "gauge", "Trials claimed and not yet reported",
     [](const AgentProgress& p) { return static_cast<double>(p.in_hand); }},
    {"tessera_agent_batch_size", "gauge", "Trials that it asks the queue for at once",
     [](const AgentProgress& p) { return static_cast<double>(p.batch); }},
    {"tessera_agent_last_heartbeat_timestamp_seconds", "gauge",
     "When the database last heard of it, by the clock of the machine",
     [](const AgentProgress& p) { return std::floor(p.heartbeat_s * 1e3) / 1e3; }},
};

std::string label(const char* name, const std::string& value) {
  std::string out = fmt::format("{}=\"", name);
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

std::string metrics_text(const AgentOptions& agent, const AgentProgress& progress) {
  std::string out = fmt::format(
      "# HELP tessera_agent_info The agent, its machine and its version\n"
      "# TYPE tessera_agent_info gauge\ntessera_agent_info{{{},{},{},{}}} 1\n",
      label("agent", agent.name), label("machine", agent.target.cpu),
      label("version", agent.version), label("threads", fmt::to_string(agent.threads)));
  for (const Metric& m : kMetrics) {
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", m.name, m.help, m.kind,
                       m.value(progress));
  }
  return out;
}

}  // namespace tessera::fleet
