// tessera fleet status: agents, tunings, queue.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include <unistd.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/fleet/fleet.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

constexpr std::chrono::seconds kBetween{2};
constexpr int kStepsBetween = 20;  // in which an interrupt is looked for

struct Tuning {
  fleet::TuningRow row;
  fleet::QueueCounts counts;
  std::vector<fleet::HelperRow> helpers;
  std::int64_t agents = 0;  // that are here and work for it
};

struct Status {
  std::vector<fleet::AgentRow> agents;
  std::vector<Tuning> tunings;
};

Result<Status> status_of(const fleet::Queue& queue) {
  const fleet::Roster roster(queue);
  Status out;
  TESSERA_TRY(out.agents, roster.agents());
  TESSERA_TRY(const std::vector<fleet::TuningRow> tunings, roster.tunings());
  for (const fleet::TuningRow& row : tunings) {
    Tuning t{row, {}, {}, 0};
    TESSERA_TRY(t.counts, queue.counts_of(row.id));
    TESSERA_TRY(t.helpers, roster.helpers(row.id));
    t.agents = std::ranges::count_if(t.helpers, [&](const fleet::HelperRow& h) {
      return h.refused.empty() &&
             std::ranges::find(out.agents, h.agent, &fleet::AgentRow::id) != out.agents.end();
    });
    out.tunings.push_back(std::move(t));
  }
  return out;
}

std::string cpu_of(const std::string& target) {
  const Result<target::Target> parsed = target::target_from_text(target);
  return parsed.ok() ? parsed->cpu : "?";
}

// Agents end a tuning whose tuner is gone, where there is one.
const char* state_of(const fleet::TuningRow& t) { return t.here() ? "open" : "gone"; }

void print_status(const Status& s) {
  fmt::print("{:>5} {:<24} {:<16} {:>7} {:<9} {:>6} {:>7} {:>7} {:>7} {:>6}  {}\n", "id", "agent",
             "machine", "threads", "state", "seen", "claimed", "done", "failed", "calib", "labels");
  for (const fleet::AgentRow& a : s.agents) {
    fmt::print("{:>5} {:<24} {:<16} {:>7} {:<9} {:>5.1f}s {:>7} {:>7} {:>7} {:>4.1f}us  {}\n", a.id,
               a.name, cpu_of(a.target), a.threads, to_text(a.state),
               static_cast<double>(a.seen_ms) / 1000, a.claimed, a.done, a.failed,
               a.calibration_s * 1e6, a.labels);
  }
  fmt::print("\n{:>5} {:<7} {:>7} {:>7} {:>7} {:>7} {:>7}  {}\n", "id", "state", "queued",
             "claimed", "done", "agents", "threads", "tuning");
  for (const Tuning& t : s.tunings) {
    fmt::print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>7} {:>7}  {}\n", t.row.id, state_of(t.row),
               t.counts.queued, t.counts.claimed, t.counts.done + t.counts.given_up, t.agents,
               t.row.threads, t.row.name);
    for (const fleet::HelperRow& h : t.helpers) {
      if (!h.refused.empty()) fmt::print("      agent {} refused: {}\n", h.agent, h.refused);
    }
  }
  fmt::print("{}, {}\n", counted(s.agents.size(), "agent"), counted(s.tunings.size(), "tuning"));
}

Json json_of(const Status& s) {
  Json agents = Json::array(), tunings = Json::array();
  for (const fleet::AgentRow& a : s.agents) {
    agents.push_back({{"id", a.id},
                      {"name", a.name},
                      {"target", a.target},
                      {"threads", a.threads},
                      {"labels", a.labels},
                      {"version", a.version},
                      {"state", to_text(a.state)},
                      {"seen_s", static_cast<double>(a.seen_ms) / 1000},
                      {"claimed", a.claimed},
                      {"done", a.done},
                      {"failed", a.failed},
                      {"calibration_us", a.calibration_s * 1e6}});
  }
  for (const Tuning& t : s.tunings) {
    Json refused = Json::array();
    for (const fleet::HelperRow& h : t.helpers) {
      if (!h.refused.empty()) refused.push_back({{"agent", h.agent}, {"reason", h.refused}});
    }
    tunings.push_back({{"id", t.row.id},
                       {"name", t.row.name},
                       {"state", state_of(t.row)},
                       {"threads", t.row.threads},
                       {"labels", t.row.labels},
                       {"seen_s", static_cast<double>(t.row.seen_ms) / 1000},
                       {"queued", t.counts.queued},
                       {"claimed", t.counts.claimed},
                       {"done", t.counts.done},
                       {"given_up", t.counts.given_up},
                       {"agents", t.agents},
                       {"refused", refused}});
  }
  return {{"agents", agents}, {"tunings", tunings}};
}

}  // namespace

int fleet_status(const FleetArgs& args) {
  const Result<fleet::Queue> queue = open_queue(args);
  if (!queue) return report(queue.error());
  if (args.watch) catch_interrupt();
  do {
    const Result<Status> status = status_of(*queue);
    if (!status) return report(status.error());
    if (args.watch && !args.json && ::isatty(STDOUT_FILENO) != 0) fmt::print("\x1b[H\x1b[J");
    if (args.json && args.watch) {
      fmt::print("{}\n", json_of(*status).dump());
    } else if (args.json) {
      print_json(json_of(*status));
    } else {
      print_status(*status);
    }
    std::fflush(stdout);
    for (int i = 0; args.watch && i < kStepsBetween && !interrupted(); ++i)
      std::this_thread::sleep_for(kBetween / kStepsBetween);
  } while (args.watch && !interrupted());
  return kOk;
}

}  // namespace tessera::cli
