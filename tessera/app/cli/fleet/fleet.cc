// tessera fleet: the agents of a database, and what they work for.
#include "tessera/app/cli/fleet/fleet.h"

#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/trials/record/database.h"
#include "tessera/trials/record/database_name.h"

namespace tessera::cli {

Result<fleet::Queue> open_queue(const FleetArgs& args) {
  const std::string place = database_path(args.db);
  // An empty database of a server gets its tables; a file by that name must be there.
  TESSERA_TRY([[maybe_unused]] const record::Database there,
              record::is_server_url(place) ? record::Database::open(place)
                                           : record::Database::open_read_only(place));
  TESSERA_TRY(fleet::Queue queue, fleet::Queue::open(place));
  // Whose role may not delete leaves it to the owner.
  (void)fleet::Roster(queue).forget_old();
  return queue;
}

namespace {

struct SubCommand {
  const char* name;
  const char* help;
  const char* examples;
  int (*action)(const FleetArgs& args);
};

constexpr SubCommand kSubCommands[] = {
    {"status", "Agents, tunings and the queue between them",
     "Examples:\n  tessera fleet status --db postgresql://db.example/tuning\n"
     "  tessera fleet status --json",
     fleet_status},
    {"drain", "Ask an agent to finish what it holds and to end",
     "Examples:\n  tessera fleet drain build7-4711", fleet_drain},
    {"grant", "Print SQL for a role of a server that may be an agent and nothing else",
     "Examples:\n  tessera fleet grant agent | psql postgresql://db.example/tuning\n"
     "  tessera fleet grant ada --tuner | psql postgresql://db.example/tuning",
     fleet_grant},
    {"simulate", "How many trials per second a database hands out and takes back",
     "Examples:\n  tessera fleet simulate --db postgresql://db.example/tuning --batch 16",
     fleet_simulate},
    {"systemd", "Print a unit that runs agents on cores of their own",
     "Examples:\n  tessera fleet systemd --db postgresql://db.example/tuning --threads 4 \\\n"
     "    > /etc/systemd/system/tessera-agent@.service",
     fleet_systemd},
    {"slurm", "Print a job array of agents",
     "Examples:\n  tessera fleet slurm --db postgresql://db.example/tuning --count 8 | sbatch",
     fleet_slurm},
    {"kubernetes", "Print a Job of agents",
     "Examples:\n  tessera fleet kubernetes --db postgresql://db.example/tuning \\\n"
     "    --image registry.example/tessera --count 8 | kubectl apply -f -",
     fleet_kubernetes},
};

void add_simulation_flags(Flags& sub, fleet::SimulateOptions& s) {
  sub.add_option("--agents", s.agents, "Simulated agents, each with a connection")
      ->check(range(1, 1024));
  sub.add_option("--trials", s.trials, "Trials to hand out")->check(range(1, 10'000'000));
  sub.add_option("--batch", s.batch, "Results of one report")->check(range(1, fleet::kMostClaimed));
  sub.add_option("--rate", s.rate, "Trials per second of each agent (default: as many as it can)")
      ->check(range(0.05, 1000.0))
      ->hide_default();
}

void add_launch_flags(Flags& sub, const std::string& name, fleet::LaunchOptions& launch) {
  sub.add_option("--program", launch.program, "Path of tessera where agents run");
  sub.add_option("--threads", launch.threads, "Threads and cores of an agent")
      ->check(range(1, 1024));
  sub.add_option("--labels", launch.labels, "NAME=VALUE,... of the agents");
  if (name != "systemd")
    sub.add_option("--count", launch.count, "Number of agents")->check(range(1, 100'000));
  if (name == "kubernetes")
    sub.add_option("--image", launch.image, "Image of a container that has tessera")->required();
}

void add_flags(Flags& sub, const std::string& name, FleetArgs& args) {
  if (name == "drain") {
    sub.add_option("AGENT", args.agent, "Name or number, as `fleet status` shows them")->required();
  }
  if (name == "grant") {
    sub.add_option("ROLE", args.role, "Name of the role")->required();
    sub.add_flag("--tuner", args.tuner, "It may also tune, with agents and without");
    return;
  }
  sub.add_option("--db", args.db,
                 "File or postgresql:// URL (default: $TESSERA_DB, else tessera.db)");
  if (name == "systemd" || name == "slurm" || name == "kubernetes")
    return add_launch_flags(sub, name, args.launch);
  if (name == "simulate") add_simulation_flags(sub, args.simulation);
  if (name == "status")
    sub.add_flag("--watch", args.watch, "Show it again every two seconds, until Ctrl-C");
  sub.add_flag("--json", args.json, "Print JSON");
}

}  // namespace

void add_fleet(Flags& app, std::function<int()>* run) {
  Flags* fleet = app.add_subcommand("fleet", "See, drain and start the agents of a database");
  fleet->footer(
      "Examples:\n  tessera fleet status --watch\n  tessera fleet drain build7-4711\n"
      "docs/guide/fleet.md says how to start one.");
  fleet->require_subcommand(1, 1);
  for (const SubCommand& s : kSubCommands) {
    Flags* sub = fleet->add_subcommand(s.name, s.help);
    sub->footer(s.examples);
    const auto args = std::make_shared<FleetArgs>();
    add_flags(*sub, s.name, *args);
    sub->callback(
        [args, run, action = s.action] { *run = [args, action] { return action(*args); }; });
  }
}

}  // namespace tessera::cli
