// tessera tune: searches for the schedules of models or operations by measuring.
#include "tessera/app/tune/tune.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/bench/write_artifact.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/outputs.h"
#include "tessera/app/cli/common/peer_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/common/version.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/app/cli/tune/output.h"
#include "tessera/app/cli/tune/session_report.h"
#include "tessera/app/cli/tune/simulate_output.h"
#include "tessera/app/compile/known_part.h"
#include "tessera/app/tune/after_tuning.h"
#include "tessera/app/tune/policy_run.h"
#include "tessera/app/tune/tune_simulate.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/learn/lm/adapter.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/support/duration.h"
#include "tessera/support/files.h"
#include "tessera/support/split_commas.h"
#include "tessera/trials/fleet/fleet_measurer.h"
#include "tessera/trials/measure/confine.h"

namespace tessera::cli {
namespace {

struct TuneArgs {
  ModelArgs model;  // flags of all models
  std::vector<std::string> models, ops, sources, tasks, judges, peers = {"ort"};
  double budget_s = 0;
  bool budget_given = false, policy_given = false;
  std::string policy = "evolutionary", learner = "gbt", objective = "rank";
  std::string cost_model = app::kShipped, target = "host", language = app::kShipped;
  std::string level = "kernel";
  std::string database = database_path("");
  std::string plan, artifact, simulate, plot, agents;
  double agent_wait_s = 60, weight = 1;
  int seeds = 3;
  std::int64_t trials = 0, trials_per_task = 0, trials_in_place = 0, plans = 0;
  int threads = 0;
  std::size_t round = 0;
  std::uint64_t seed = 1;
  bool in_place = false, alone = false, no_recombine = false, record = false, json = false;
  bool json_progress = false;
  int contention = 0;
};

constexpr double kDefaultBudgetSeconds = 600;

// Whether candidates are timed inside the running model: where that can be had it is the default,
// but for tables of trials, which are of kernels alone unless --trials-in-place asks for them.
Result<bool> wants_in_place(const TuneArgs& args, const target::Target& target) {
  const bool asked = args.in_place || args.trials_in_place > 0 || args.contention > 0;
  if (asked && args.alone) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--alone contradicts --in-place, --trials-in-place and --contention");
  }
  if (asked && !args.agents.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--agents measure kernels alone: leave out --in-place, --trials-in-place and "
                      "--contention");
  }
  const bool one_model = args.models.size() == 1 && args.ops.empty() && args.level == "kernel";
  const bool table = args.record || args.trials_per_task > 0 || !args.agents.empty();
  return asked || (one_model && !target.is_gpu() && !table && !args.alone);
}

Result<app::TuneOptions> tune_options(const TuneArgs& args) {
  app::TuneOptions o;
  TESSERA_TRY(o.target, fast_target(measure::ask_target(args.target), args.model));
  TESSERA_TRY(const app::CompileOptions compile, compile_options(args.model, o.target));
  for (const std::string& name : args.models) {
    o.subjects.push_back({name, false, compile});
    app::TuneSubject& s = o.subjects.back();
    TESSERA_DO(set_batch(args.model.batch, s.name, s.compile.import.symbols));
  }
  for (const std::string& spec : args.ops) o.subjects.push_back({spec, true, compile});
  if (args.model.batch > 0 && !args.ops.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--batch is for models, not for operations; trials of a round are --round");
  }
  if (o.subjects.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "nothing to tune: give a model or --op");
  }
  if (!args.artifact.empty() && (args.models.size() != 1 || !args.ops.empty())) {
    return make_error(ErrorCode::kInvalidArgument, "-o takes one model and nothing beside it");
  }
  o.level = args.level == "graph"  ? app::TuneLevel::kGraph
            : args.level == "both" ? app::TuneLevel::kBoth
                                   : app::TuneLevel::kKernel;
  // The untuned and the tuned model, and plans of one model, share most of their kernels.
  o.model.cache = kernel::user_kernel_cache();
  o.measure.threads = target::measured_threads(o.target, args.threads);
  o.trials = args.trials;
  o.trials_per_task = args.trials_per_task;
  TESSERA_TRY(o.in_place, wants_in_place(args, o.target));
  o.contention = args.contention;
  if (args.trials_in_place > 0 && args.trials_per_task > 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--trials-in-place limits the trials of a task as --trials-per-task does: "
                      "give one of them");
  }
  if (args.trials_in_place > 0) o.trials_per_task = args.trials_in_place;
  o.budget_s = args.budget_s;
  const bool limited =
      args.trials > 0 || args.trials_per_task > 0 || args.trials_in_place > 0 || args.budget_given;
  if (!limited) o.budget_s = kDefaultBudgetSeconds;
  o.learner.model = args.learner;
  o.learner.objective = args.objective;
  o.learner.seed = args.seed;
  o.learner.pretrained = app::model_paths(args.cost_model, o.target);
  o.pretrained_optional = args.cost_model == app::kShipped;
  o.learner.code_threads = o.measure.threads;
  const app::PolicyVariant base{.policy_options = o.policy_options, .learner = o.learner};
  TESSERA_TRY(const app::PolicyVariant variant, app::policy_variant(args.policy, base, o.target));
  o.policy = variant.policy->name;
  o.policy_options = variant.policy_options;
  o.learner = variant.learner;
  if (args.policy_given) o.plan_policy = o.policy;
  // Language models write about kernels.
  const bool written = o.policy == "lm" && o.level != app::TuneLevel::kGraph;
  if (written && !o.policy_options.language) {
    TESSERA_TRY(const std::string path, app::language_path(args.language, o.target));
    TESSERA_TRY(o.policy_options.language, app::open_language(path, app::kGuidance, 0));
  }
  if (written) {
    o.policy_options.language = std::make_shared<lm::AdaptedReader>(
        std::move(o.policy_options.language), std::make_shared<lm::Adapter>());
  }
  o.batch = args.round;
  o.sources = args.sources;
  o.tasks = args.tasks;
  o.judges = args.judges;
  o.plans = args.plans;
  o.recombine = !args.no_recombine;
  o.record_space = args.record;
  o.database = args.database;
  o.seed = args.seed;
  o.measure.seed = args.seed;
  o.version = version_text();
  o.command = fmt::format(
      "--policy {} --learner {} --cost-model {} --objective {} --budget {} --trials {} "
      "--trials-per-task {}",
      args.policy, args.learner, args.cost_model, args.objective,
      o.budget_s > 0 ? to_duration(o.budget_s) : "none", args.trials, args.trials_per_task);
  if (args.trials_in_place > 0) {
    o.command += fmt::format(" --trials-in-place {}", args.trials_in_place);
  } else {
    o.command += o.in_place ? " --in-place" : " --alone";
  }
  if (args.contention > 0) o.command += fmt::format(" --contention {}", args.contention);
  return o;
}

// With --agents: they measure what else workers on this machine would.
Result<void> use_agents(const TuneArgs& args, app::TuneOptions* options, ProgressLine& line) {
  if (args.agents.empty()) return {};
  if (options->database.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--agents needs a database: --db or TESSERA_DB");
  }
  if (options->level != app::TuneLevel::kKernel) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--agents measure kernels; --level {} times whole models on this machine",
                      args.level);
  }
  fleet::FleetOptions fleet;
  TESSERA_TRY(fleet.agents, fleet::choice_from_text(args.agents));
  std::vector<std::string> names;
  for (const app::TuneSubject& s : options->subjects) names.push_back(s.name);
  fleet.name = fmt::format("{}", fmt::join(names, " "));
  fleet.database = options->database;
  fleet.version = version_text();
  fleet.patience_s = args.agent_wait_s;
  fleet.weight = args.weight;
  fleet.interrupted = interrupted;
  fleet.note = [&line](const std::string& text) { line.say("tessera: " + text); };
  options->start_measurer = [fleet](std::vector<measure::MeasuredTask> tasks,
                                    const target::Target& target,
                                    const measure::MeasureOptions& how) {
    return fleet::start_fleet_measurer(fleet, std::move(tasks), target, how);
  };
  return {};
}

std::string plan_path(const TuneArgs& args) {
  if (!args.plan.empty()) return args.plan;
  if (!args.models.empty()) return artifact::default_name(args.models[0]) + ".plan";
  return args.ops[0].substr(0, args.ops[0].find(':')) + ".plan";
}

// Beside the plan: "mlp.plan" gives "mlp.unproved.plan".
std::string beside_plan(const TuneArgs& args, const std::string& ending) {
  std::string path = plan_path(args);
  const std::string_view end = ".plan";
  if (path.ends_with(end)) path.resize(path.size() - end.size());
  return path + ending;
}

// Of models whose shapes follow from data, what comes before that takes their place.
Result<void> leave_known_parts(const TuneArgs& args, app::TuneOptions* options) {
  for (std::size_t i = 0; i < options->subjects.size(); ++i) {
    app::TuneSubject& subject = options->subjects[i];
    if (subject.is_op) continue;
    const std::string ending = i == 0 ? ".known.onnx" : fmt::format(".known{}.onnx", i + 1);
    const std::string path = beside_plan(args, ending);
    Result<app::KnownPart> part = app::known_part(subject.name, subject.compile, path);
    if (!part) return part.error().with_context(subject.name);
    if (part->reason.empty()) continue;
    if (!args.artifact.empty()) {
      return make_error(ErrorCode::kUnsupported, "{}: {}; it cannot be written as an artifact",
                        subject.name, part->reason);
    }
    fmt::print(stderr, "tessera: {}: {}; the {} of {} nodes before are tuned, as {}\n",
               subject.name, part->reason, part->nodes, part->model_nodes, path);
    subject.name = part->spec;
  }
  return {};
}

// The plan of what seemed faster and could not be shown to be: for who times it on a quiet machine.
void save_unproved(const TuneArgs& args, const app::TuneResult& r, TuneSummary* summary,
                   ProgressLine& line) {
  const std::string path = beside_plan(args, ".unproved.plan");
  const Result<bool> saved = app::keep_unproved(r, path);
  if (!saved) line.say("tessera: " + saved.error().message);
  if (saved && *saved) summary->unproved_path = path;
}

Result<app::ArtifactCheck> write_artifact(const TuneArgs& args, const app::TuneOptions& options,
                                          const plan::Plan& plan) {
  const app::TuneSubject& subject = options.subjects[0];
  app::CompileOptions how = subject.compile;
  how.target = target::code_target(options.target, options.measure.threads);
  TESSERA_TRY(how.plan, app::PlanSchedules::make(plan, options.target, false));
  artifact::ArtifactOptions out;
  out.name = artifact::default_name(args.models[0]);
  app::ModelSource source(subject.name);
  TESSERA_TRY(const app::WrittenArtifact written,
              app::write_artifact(source, how, args.artifact, out, /*check=*/true));
  return *written.check;
}

// The tuned models beside each installed peer.
std::vector<app::PeerComparison> compare_peers(const TuneArgs& args,
                                               const app::TuneOptions& options,
                                               const plan::Plan& plan,
                                               const app::TuneDeadline& deadline,
                                               ProgressLine& line) {
  const std::vector<std::string> peers = app::usable_peers(args.peers);
  app::PeerCallbacks callbacks;
  callbacks.begin = [&](const std::string& model) {
    line.show(fmt::format("{} compared with {}", model, fmt::join(peers, ", ")), true);
  };
  callbacks.left_out = [&](const std::string& model) {
    line.say(fmt::format(
        "tessera: {} is not compared with {}: the budget is spent; `tessera bench {} --plan {} "
        "--peers {}` does it",
        model, fmt::join(peers, ", "), model, plan_path(args), fmt::join(peers, ",")));
  };
  callbacks.note = [&](const std::string& text) { line.say(text); };
  return app::compare_peers(options, plan, peers, args.threads, deadline, callbacks);
}

const char* why_no_measurement(const app::TuneResult& r) {
  const bool failed = std::any_of(r.tasks.begin(), r.tasks.end(),
                                  [](const auto& task) { return !task.failures.empty(); });
  return r.stopped_by == "budget" && !failed
             ? "the budget ended before the kernels had times; give more with --budget"
             : "no trial gave a valid measurement";
}

int exit_code(const app::TuneResult& r, const search::PolicyOptions& policy) {
  switch (r.state) {
    case app::TuneState::kNoMeasurement:
      return report({ErrorCode::kRunFailed, why_no_measurement(r)}), kNoMeasurement;
    case app::TuneState::kRejected:
      return report({ErrorCode::kRunFailed, "the tuned model computes wrong numbers: no plan"}),
             kWrongNumbers;
    case app::TuneState::kInterrupted:
      return interrupt_code();
    case app::TuneState::kDone:
      break;
  }
  if (!r.database_error.empty()) return report({ErrorCode::kUnavailable, r.database_error});
  if (const Result<void> ok = app::check_program(policy); !ok) return report(ok.error());
  return kOk;
}

// Before the first trial: a place that cannot be written must not cost the budget.
Result<void> check_outputs(const TuneArgs& args, const target::Target& target) {
  TESSERA_DO(check_output_file(plan_path(args)));
  if (args.artifact.empty()) return {};
  return check_output_artifact(args.artifact, target);
}

// The same command again goes on with what it decided.
plan::Decisions earlier_decisions(const TuneArgs& args, const app::TuneOptions& options) {
  if (options.level == app::TuneLevel::kKernel) return {};
  const Result<plan::Plan> earlier = plan::load_plan(plan_path(args));
  return earlier && earlier->model == options.subjects[0].name ? earlier->decisions
                                                               : plan::Decisions();
}

int tune(const TuneArgs& args) {
  app::TuneDeadline deadline;
  if (const Result<void> known = check_peers(args.peers); !known) return report(known.error());
  Result<app::TuneOptions> options = tune_options(args);
  if (!options) return report(options.error());
  if (const Result<void> can = check_outputs(args, options->target); !can)
    return report(can.error());
  if (const Result<void> left = leave_known_parts(args, &*options); !left)
    return report_model(left.error());
  options->start = earlier_decisions(args, *options);
  deadline.budget_s = options->budget_s;
  options->budget_s -=
      app::after_tuning_s(options->budget_s, args.models.size(), app::usable_peers(args.peers));
  TuneSummary summary;
  summary.threads = options->measure.threads;
  ProgressLine line;
  if (const Result<void> can = use_agents(args, &*options, line); !can) return report(can.error());
  catch_interrupt(OnInterrupt::kUnsaved);
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its limit is an error with a reason, not the end
  app::TuneCallbacks callbacks;
  callbacks.interrupted = interrupted;
  callbacks.note = [&](const std::string& text) { line.say("tessera: " + text); };
  auto phase = app::TuneProgress::Phase::kDefaults;
  callbacks.progress = [&](const app::TuneProgress& p) {
    line.show(progress_text(p, line.width()), p.phase != phase);
    phase = p.phase;
  };
  if (args.json_progress) callbacks.progress = print_progress_json;
  callbacks.save = [&](const plan::Plan& plan) {
    if (const Result<void> saved = plan::save_plan(plan, plan_path(args)); !saved)
      callbacks.note(saved.error().message);
    end_if_hurried();
    callbacks.note("checking the whole model; another Ctrl-C leaves the plan unchecked");
  };
  if (const std::string& why = measure::confinement_note(); !why.empty()) callbacks.note(why);
  Result<app::TuneResult> result = app::tune(*options, callbacks);
  if (!result) {
    line.finish();
    const int code = report_model(result.error());
    return interrupted() ? interrupt_code() : code;  // while it waited for agents
  }
  summary.result = std::move(result).value();
  const app::TuneResult& r = summary.result;
  const bool has_plan = r.state != app::TuneState::kRejected && !r.plan.tasks.empty();
  if (has_plan) {
    if (const Result<void> saved = plan::save_plan(r.plan, plan_path(args)); !saved) {
      line.finish();
      const std::string again = args.database.empty()
                                    ? ""
                                    : fmt::format(
                                          "; its trials are in {}: the same command with "
                                          "another --plan does not measure them again",
                                          args.database);
      return report({saved.error().code, saved.error().message + again});
    }
    summary.plan_path = plan_path(args);
    save_unproved(args, r, &summary, line);
  }
  if (has_plan && r.state == app::TuneState::kDone) {
    if (!args.artifact.empty()) {
      const Result<app::ArtifactCheck> written = write_artifact(args, *options, r.plan);
      if (!written) {
        line.finish();
        return report_model(written.error());
      }
      summary.artifact_path = args.artifact;
      summary.artifact_check = *written;
    }
    summary.peers = compare_peers(args, *options, r.plan, deadline, line);
    summary.peak_gflops = app::peak_gflops(options->target, args.threads, options->budget_s);
  } else if (has_plan && !args.artifact.empty()) {
    callbacks.note(
        fmt::format("{} was not written; `tessera compile {} --plan {} -o {}` writes it, with the "
                    "flags of the model and the target that were given here",
                    args.artifact, options->subjects[0].name, plan_path(args), args.artifact));
  }
  if (has_plan) {
    if (const Result<void> told = complete_summary(*options, summary); !told)
      callbacks.note("the report will lack names of layers: " + told.error().message);
  }
  line.finish();
  if (args.json) {
    print_json(to_json(summary));
  } else {
    print_summary(summary);
  }
  return exit_code(r, options->policy_options);
}

Result<app::Simulation> run_simulation(const TuneArgs& args, std::int64_t trials) {
  TuneArgs one = args;
  one.policy = "random";
  TESSERA_TRY(const app::TuneOptions tuning, tune_options(one));
  app::SimulateOptions o;
  o.database = args.simulate;
  o.target = tuning.target;
  o.threads = tuning.measure.threads;
  o.sources = args.sources;
  o.policies = split_commas(args.policy);
  o.objectives = split_commas(args.objective);
  o.trials = trials;
  if (args.round > 0) o.batch = args.round;
  o.seed = args.seed;
  o.seeds = args.seeds;
  o.learner = tuning.learner;
  app::Simulation simulation;
  if (tuning.level == app::TuneLevel::kKernel) {
    TESSERA_TRY(const app::TuneProblem problem,
                app::make_tune_problem(tuning.subjects, task::PartitionOptions()));
    TESSERA_TRY(simulation, app::simulate(problem, o));
  } else {
    if (tuning.subjects.size() != 1 || tuning.subjects[0].is_op) {
      return make_error(ErrorCode::kInvalidArgument,
                        "--level graph and both simulate the plans of one model");
    }
    TESSERA_TRY(simulation, app::simulate_plans(tuning.subjects[0], o));
  }
  if (!args.plot.empty()) TESSERA_DO(write_file(args.plot, {plot_svg(simulation, trials)}));
  return simulation;
}

int simulate(const TuneArgs& args) {
  const std::int64_t trials = args.trials > 0 ? args.trials : 256;
  const Result<app::Simulation> simulation = run_simulation(args, trials);
  if (!simulation) return report_model(simulation.error());
  if (args.json) {
    print_json(to_json(*simulation));
  } else {
    print_simulation(*simulation, trials);
  }
  return kOk;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const search::PolicyEntry& p : search::policy_table()) names.emplace_back(p.name);
  return names;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names = {"none"};
  for (const model::ModelEntry& m : model::model_table()) names.emplace_back(m.name);
  return names;
}

void add_subject_flags(Flags& sub, TuneArgs& args) {
  sub.add_option("MODEL", args.models,
                 "ONNX files, or zoo:NAME[@parameter=value,...]; several are tuned together")
      ->offers(zoo_models);
  sub.add_option("--op", args.ops, "Operation to tune, as in bench --op (repeatable)");
  add_input_options(sub, args.model);
  add_dtype_option(sub, args.model);
  sub.add_option("--level", args.level,
                 "What is tuned: kernel, the schedules; graph, the decisions about a model; both")
      ->check(one_of({"kernel", "graph", "both"}));
  sub.add_option(
         "--judge", args.judges,
         "With --level graph or both: weights of networks that rank plans before they are measured "
         "(A,B,C vote together; default: the sum of kernel times); none: plans are measured in the "
         "order in which they are drawn")
      ->delimiter(',');
  sub.add_option("--plans", args.plans,
                 "With --level graph or both: at most this many plans are measured as whole models")
      ->check(positive())
      ->hide_default();
}

// Returns --budget.
const Option* add_limit_flags(Flags& sub, TuneArgs& args) {
  const Option* budget = sub.add_duration(
      "--budget", args.budget_s,
      "Wall clock of the whole command: 90s, 5m, 1h30m, or none (default: 10m without a limit of "
      "trials, else none). What has no room in it is left out and named: peers, "
      "timing the whole model, its check, tasks. Outside are -o and a trial that is running when "
      "it ends",
      Flags::Zero::kNoLimit);
  sub.add_option("--trials", args.trials,
                 "Trials in all, those of earlier sessions included; with or without --budget")
      ->check(positive())
      ->hide_default();
  sub.add_option("--trials-per-task", args.trials_per_task,
                 "Trials of each task, its default and those of earlier sessions included")
      ->check(positive())
      ->hide_default();
  sub.add_flag("--in-place", args.in_place,
               "Time candidates inside the running model, some of every task at once: the default "
               "for one model on CPUs, unless --level, --record or --trials-per-task is given");
  sub.add_option("--trials-in-place", args.trials_in_place,
                 "The same with this many trials of each task, its default and those of earlier "
                 "sessions included")
      ->check(positive())
      ->hide_default();
  sub.add_flag("--alone", args.alone, "Time candidates one by one, outside the model");
  sub.add_option(
         "--contention", args.contention,
         "This many other copies of the model run meanwhile, as on a server; in place alone")
      ->check(range(1, 256))
      ->hide_default();
  return budget;
}

// The option --policy.
const Option* add_search_flags(Flags& sub, TuneArgs& args) {
  const Option* policy = sub.add_option(
      "--policy", args.policy,
      fmt::format("Search policy, of plans too (default there: cut): {} (exec:COMMAND is a "
                  "program of your own); with options after it: "
                  "+diversity=NUMBER +acquisition=mean|ei|ucb "
                  "+features=statement|loop|curve|decisions +model=none "
                  "+pretrained=none|shipped|FILE",
                  fmt::join(policy_names(), ", ")));
  sub.add_option("--language", args.language,
                 "Weights that policy lm writes by (see lm pretrain), or shipped: those that come "
                 "with Tessera for this machine (default)");
  sub.add_option("--cost-model", args.cost_model,
                 "Trained cost model to start from: a file, several that judge together (A,B,C), "
                 "exec:COMMAND or lib:FILE, a program or a shared library of your own, none, or "
                 "shipped: what comes with Tessera for this machine");
  sub.renamed("--pretrained", "--cost-model");
  sub.add_option("--learner", args.learner, "What is fitted to the trials, and corrects it")
      ->check(one_of(model_names()));
  sub.renamed("--model", "--learner");
  sub.add_option("--objective", args.objective, "Objective of --learner: rank or regression");
  sub.add_option("--sources", args.sources,
                 "Comma-separated sources of candidates: reasoned, rules, templates (default all)")
      ->delimiter(',');
  sub.add_option("--tasks", args.tasks, "Comma-separated keys: tune these tasks alone")
      ->delimiter(',');
  sub.add_option("--round", args.round, "Trials of one round (default: by what a trial costs)")
      ->check(range(1, 1024))
      ->hide_default();
  sub.add_option("--seed", args.seed, "Seed of all random choices");
  sub.add_flag("--no-recombine", args.no_recombine, "Do not try second bests in the whole model");
  sub.add_flag("--record", args.record,
               "Also time slow candidates fully and do not stop tasks early: records a space for "
               "--simulate");
  sub.add_option("--peers", args.peers,
                 "Peers to compare the tuned models with where installed, all, or none")
      ->delimiter(',');
  return policy;
}

void add_simulation_flags(Flags& sub, TuneArgs& args) {
  Option* simulation =
      sub.add_option("--simulate", args.simulate,
                     "Database whose measured candidates stand for the machine: compares the "
                     "policies (and objectives) of a comma-separated list, nothing is measured");
  sub.add_option("--seeds", args.seeds, "Runs of each policy with --simulate")
      ->check(range(1, 1000))
      ->needs(simulation);
  sub.add_option("--plot", args.plot, "SVG of the simulation to write")->needs(simulation);
}

}  // namespace

void add_tune(Flags& app, std::function<int()>* run) {
  Flags* sub =
      app.add_subcommand("tune", "Find faster schedules by measuring; the winners are a plan");
  sub->footer(
      "Examples:\n  tessera tune zoo:resnet18 --budget 20m --threads 2 --plan resnet18.plan\n"
      "  tessera tune model.onnx --shape input:1x3x224x224 --trials 2000 -o out\n"
      "  tessera tune zoo:squeezenet1_1 --level graph --budget 2m --plan squeezenet.plan\n"
      "  tessera tune --op matmul:M=1024,N=1024,K=1024 --budget 1m --plan gemm.plan\n"
      "  tessera tune --op matmul:M=1024,N=1024,K=1024 --target cuda --budget 15s\n"
      "  tessera bench zoo:resnet18 --plan resnet18.plan --peers ort\n"
      "  tessera tune --op matmul:M=512,N=512,K=512 --simulate tessera.db --policy random,genetic\n"
      "Run the same command again to resume. Ctrl-C, SIGTERM and SIGHUP save the\n"
      "best so far (exit 130, 143, 129).\n"
      "docs/guide/tuning.md says more.");
  const auto args = std::make_shared<TuneArgs>();
  add_subject_flags(*sub, *args);
  const Option* budget = add_limit_flags(*sub, *args);
  add_target_option(*sub, args->target, TargetUse::kMeasure);
  add_fast_math_option(*sub, args->model);
  add_threads_option(*sub, args->threads, "Threads of the tuned code");
  sub->add_option("--db", args->database,
                  "File or postgresql:// URL with the records of all tunings; empty: keep none");
  sub->add_option("--plan", args->plan, "Plan to write (default: NAME.plan)");
  sub->add_option("-o,--output", args->artifact, "Also write the tuned model as an artifact");
  sub->add_option("--agents", args->agents,
                  "Agents that measure the kernels, through --db (`tessera agent`): any, at most a "
                  "number, or label=NAME=VALUE");
  sub->add_duration("--agent-wait", args->agent_wait_s,
                    "With --agents: how long to wait while no agent fits");
  sub->add_option("--weight", args->weight,
                  "With --agents: share of them, beside other tunings of the database")
      ->check(range(0.01, 100.0));
  const Option* policy = add_search_flags(*sub, *args);
  add_simulation_flags(*sub, *args);
  sub->add_flag("--json", args->json, "Print JSON");
  sub->add_flag("--json-progress", args->json_progress,
                "Report progress on stderr as JSON, one object per line");
  sub->callback([args, run, budget, policy] {
    args->budget_given = budget->count() > 0;
    args->policy_given = policy->count() > 0;
    *run = [args] { return args->simulate.empty() ? tune(*args) : simulate(*args); };
  });
}

}  // namespace tessera::cli
