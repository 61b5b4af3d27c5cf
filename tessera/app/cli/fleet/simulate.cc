// tessera fleet simulate: what a database bears.
#include "tessera/trials/fleet/simulate.h"

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/app/cli/fleet/fleet.h"

namespace tessera::cli {

int fleet_simulate(const FleetArgs& args) {
  fleet::SimulateOptions options = args.simulation;
  options.database = database_path(args.db);
  options.interrupted = interrupted;
  catch_interrupt();
  const Result<fleet::Simulated> s = fleet::simulate(options);
  if (!s && interrupted()) return interrupt_code();
  if (!s) return report(s.error());
  const double rate = static_cast<double>(s->trials) / s->wall_s;
  if (args.json) {
    print_json({{"agents", options.agents},
                {"batch", options.batch},
                {"rate", options.rate},
                {"trials", s->trials},
                {"claims", s->claims},
                {"reports", s->reports},
                {"heartbeats", s->heartbeats},
                {"enqueue_s", s->enqueue_s},
                {"wall_s", s->wall_s},
                {"own_cpu_s", s->own_cpu_s},
                {"trials_per_s", rate},
                {"claim_p50_ms", s->claim_p50_ms},
                {"claim_p99_ms", s->claim_p99_ms},
                {"report_p50_ms", s->report_p50_ms},
                {"report_p99_ms", s->report_p99_ms}});
    return kOk;
  }
  fmt::print(
      "{} trials in {:.2f} s ({:.0f}/s) by {} agents, {} results a report; {:.2f} s of processor "
      "time are the simulator's\n",
      s->trials, s->wall_s, rate, options.agents, options.batch, s->own_cpu_s);
  fmt::print("{:<8} {:>8} {:>10} {:>10}\n", "", "calls", "median", "99 %");
  fmt::print("{:<8} {:>8} {:>7.2f} ms {:>7.2f} ms\n", "claim", s->claims, s->claim_p50_ms,
             s->claim_p99_ms);
  fmt::print("{:<8} {:>8} {:>7.2f} ms {:>7.2f} ms\n", "report", s->reports, s->report_p50_ms,
             s->report_p99_ms);
  fmt::print("{} trials were queued in {:.2f} s\n", s->trials, s->enqueue_s);
  return kOk;
}

}  // namespace tessera::cli
