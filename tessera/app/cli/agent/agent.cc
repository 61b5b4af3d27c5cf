// tessera agent: measures for the tunings of a team on this machine.
#include "tessera/trials/fleet/agent.h"

#include <algorithm>
#include <csignal>
#include <memory>

#include <unistd.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/common/version.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/app/tune/trial_loop.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/support/counted.h"
#include "tessera/trials/fleet/metrics.h"
#include "tessera/trials/fleet/metrics_server.h"
#include "tessera/trials/measure/calibration.h"
#include "tessera/trials/measure/confine.h"
#include "tessera/trials/record/database_name.h"

namespace tessera::cli {
namespace {

struct AgentArgs {
  std::string db, name, device = "host", metrics;
  std::vector<std::string> labels;
  int threads = 0;
  double lease_s = 15, idle_exit_s = 0;
  bool once = false, json = false;
};

// Of the calibration kernel: enough that one disturbance does not count.
constexpr int kCalibrationRuns = 9;

std::string default_name() {
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) return fmt::format("agent-{}", ::getpid());
  return fmt::format("{}-{}", host, ::getpid());
}

Result<fleet::AgentOptions> agent_options(const AgentArgs& args) {
  fleet::AgentOptions o;
  o.database = database_path(args.db);
  o.name = args.name.empty() ? default_name() : args.name;
  o.version = version_text();
  TESSERA_TRY(o.target, measure::ask_target(args.device));
  o.threads = target::measured_threads(o.target, args.threads);
  for (const std::string& text : args.labels) {
    TESSERA_TRY(const fleet::Labels labels, fleet::labels_from_text(text));
    for (const auto& [name, value] : labels) o.labels[name] = value;
  }
  const double lease_ms = std::min(args.lease_s * 1000, 1e12);  // run_agent() says what is possible
  o.lease = std::chrono::milliseconds(static_cast<std::int64_t>(lease_ms));
  o.once = args.once;
  o.idle_exit_s = args.idle_exit_s;
  o.calibration_s = measure::CalibrationKernel().run(kCalibrationRuns);
  o.start_measurer = app::start_workers;
  return o;
}

// Null without --metrics.
Result<std::unique_ptr<fleet::MetricsServer>> serve_metrics(const AgentArgs& args,
                                                            fleet::AgentOptions* options) {
  if (args.metrics.empty()) return std::unique_ptr<fleet::MetricsServer>();
  Result<std::unique_ptr<fleet::MetricsServer>> server = fleet::MetricsServer::start(args.metrics);
  if (!server) return server.error().with_context("--metrics");
  (*server)->show(fleet::metrics_text(*options, {}));
  // Workers are forked while no other thread runs.
  options->start_measurer = [metrics = server->get(), start = options->start_measurer](
                                auto tasks, const auto& target, const auto& measure_options) {
    metrics->pause();
    auto measurer = start(std::move(tasks), target, measure_options);
    metrics->resume();
    return measurer;
  };
  return server;
}

void print_totals(const AgentArgs& args, const fleet::AgentTotals& t) {
  if (args.json) {
    return print_json({{"trials", t.trials},
                       {"failed", t.failed},
                       {"late", t.late},
                       {"given_back", t.given_back},
                       {"ended_by", t.ended_by}});
  }
  fmt::print("{}, {} failed, {} too late, {} given back; ended by {}\n", counted(t.trials, "trial"),
             t.failed, t.late, t.given_back, t.ended_by);
}

int agent(const AgentArgs& args) {
  Result<fleet::AgentOptions> options = agent_options(args);
  if (!options) return report(options.error());
  ProgressLine line(/*plain_s=*/60);
  catch_interrupt(OnInterrupt::kAllSaved);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its limit is an error with a reason, not the end
  if (const std::string& why = measure::confinement_note(); !why.empty())
    line.say("tessera: " + why);
  const Result<std::unique_ptr<fleet::MetricsServer>> metrics = serve_metrics(args, &*options);
  if (!metrics) return report(metrics.error());
  line.say(fmt::format("agent {}: {}, {}, database {}", options->name, options->target.cpu,
                       counted(options->threads, "thread"), record::shown_name(options->database)));
  if (*metrics) line.say("metrics at " + (*metrics)->url());
  fleet::AgentCallbacks callbacks;
  callbacks.stop = interrupted;
  callbacks.note = [&](const std::string& text) { line.say("tessera: " + text); };
  callbacks.progress = [&](const fleet::AgentProgress& p) {
    line.show(fmt::format("{} measured, {} failed, {} in hand", counted(p.totals.trials, "trial"),
                          p.totals.failed, p.in_hand));
    if (*metrics) (*metrics)->show(fleet::metrics_text(*options, p));
  };
  const Result<fleet::AgentTotals> totals = fleet::run_agent(*options, callbacks);
  line.finish();
  if (!totals) return report(totals.error());
  print_totals(args, *totals);
  return interrupted() ? interrupt_code() : kOk;
}

}  // namespace

void add_agent(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("agent", "Measure trials of `tune --agents` on this machine");
  sub->footer(
      "Examples:\n  tessera agent --db postgresql://db.example/tuning\n"
      "  tessera agent --threads 1 --labels rack=3 --idle-exit 10m\n"
      "  taskset -c 4 tessera agent --threads 1\n"
      "Ctrl-C and SIGTERM give back what it holds (exit 130, 143). Agents that share\n"
      "a machine need cores of their own. docs/guide/fleet.md says more.");
  const auto args = std::make_shared<AgentArgs>();
  sub->add_option("--db", args->db,
                  "File or postgresql:// URL (default: $TESSERA_DB, else tessera.db)");
  sub->add_option("--device", args->device, "What to measure on: host, cuda or opencl");
  add_threads_option(*sub, args->threads, "Most threads of measured code");
  sub->add_option("--labels", args->labels, "NAME=VALUE, for `tune --agents label=NAME=VALUE`")
      ->delimiter(',');
  sub->add_option("--name", args->name, "For `tessera fleet` (default: host and process)");
  sub->add_duration("--lease", args->lease_s,
                    "How long others wait for an agent that went silent before they take its "
                    "trials");
  sub->add_flag("--once", args->once, "End with the first tunings that it works for");
  sub->add_duration("--idle-exit", args->idle_exit_s, "End after this time without work",
                    Flags::Zero::kNoLimit);
  sub->add_option("--metrics", args->metrics, "Serve /metrics here, such as 127.0.0.1:9464");
  sub->add_flag("--json", args->json, "Print JSON at the end");
  sub->callback([args, run] { *run = [args] { return agent(*args); }; });
}

}  // namespace tessera::cli
