// tessera lm eval: how soon language models find fast candidates, beside other searches.
#include "tessera/app/study/eval.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/lm/lm.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/compile/zero_trials.h"
#include "tessera/app/plot/chart.h"
#include "tessera/app/study/language_eval.h"
#include "tessera/app/study/language_zero.h"
#include "tessera/support/files.h"
#include "tessera/support/json.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::cli {
namespace {

struct EvalArgs {
  std::vector<std::string> weights, policies;
  std::string plot;
  std::string target = "host";
  int code_threads = 0;  // 0: nobody says
  std::string cost_model = app::kShipped;
  bool json = false, zero_trials = false, validation = false, networks = false;
  app::LanguageEvalOptions options;
};

// "NAME=REST"; without a name it is the other one.
std::pair<std::string, std::string> named(const std::string& text, const std::string& other) {
  const std::size_t equals = text.find('=');
  // Options of policies have such signs too, behind a plus sign.
  if (equals == std::string::npos || text.find('+') < equals) return {other, text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<app::StudiedPolicy> policies_of(const EvalArgs& args) {
  std::vector<app::StudiedPolicy> out;
  for (const std::string& text : args.policies) {
    const auto [name, rest] = named(text, text);
    out.push_back({name, rest});
  }
  if (out.empty()) {
    out = {{"random", "random"},
           {"evolution", "evolutionary+model=none"},
           {"evolution, cost model", "evolutionary"}};
  }
  std::vector<std::string> weights = args.weights;
  if (weights.empty() && args.policies.empty() && app::ships_language())
    weights = {fmt::format("language model={}", app::kShipped)};
  for (const std::string& text : weights) {
    const auto [name, file] = named(text, std::filesystem::path(text).stem().string());
    out.push_back({name, fmt::format("lm+language={}+model=none", file)});
    out.push_back({name + ", cost model", fmt::format("lm+language={}", file)});
  }
  return out;
}

// What both studies tell of a network.
template <class Network>
Json network_json(const Network& n) {
  return {{"name", n.name},          {"machine", n.machine}, {"threads", n.threads},
          {"tasks", n.tasks},        {"unknown", n.unknown}, {"default_seconds", n.default_s},
          {"best_seconds", n.best_s}};
}

Json to_json(const app::LanguageEval& eval) {
  auto policies = Json::array();
  for (const app::PolicyShares& p : eval.policies) {
    policies.push_back({{"name", p.name},
                        {"trials", eval.trials},
                        {"share", p.share},
                        {"low", p.low},
                        {"high", p.high}});
  }
  auto networks = Json::array();
  for (const app::NetworkTimes& n : eval.networks) {
    auto times = Json::array();
    for (std::size_t p = 0; p < n.seconds.size(); ++p)
      times.push_back({{"name", eval.policies[p].name}, {"seconds", n.seconds[p]}});
    networks.push_back(network_json(n))["policies"] = times;
  }
  auto times = Json::array();
  for (const app::TaskTimes& t : eval.task_times) {
    times.push_back({{"key", t.key},
                     {"name", t.name},
                     {"default_seconds", t.default_s},
                     {"best_seconds", t.best_s},
                     {"seconds", t.seconds}});
  }
  return {{"policies", policies}, {"networks", networks},          {"task_times", times},
          {"tasks", eval.tasks},  {"candidates", eval.candidates}, {"finished", eval.finished}};
}

void print(const app::LanguageEval& eval, const EvalArgs& args) {
  fmt::print("share of the best known speed, {} tasks, {} candidates {}, {} seeds, no default{}\n",
             eval.tasks, eval.candidates, args.options.measured ? "measured" : "recorded",
             args.options.seeds, eval.finished ? "" : "; interrupted");
  if (eval.tasks == 0) return;
  fmt::print("{:<32}", "policy \\ trials");
  for (const std::int64_t n : eval.trials) fmt::print(" {:>14}", n);
  fmt::print("\n");
  for (const app::PolicyShares& p : eval.policies) {
    fmt::print("{:<32}", p.name);
    for (std::size_t i = 0; i < p.share.size(); ++i) {
      fmt::print(" {:>14}", fmt::format("{:.3f} ({:.2f}-{:.2f})", p.share[i], p.low[i], p.high[i]));
    }
    fmt::print("\n");
  }
}

// Of the time with defaults alone.
void print_networks(const app::LanguageEval& eval) {
  for (const app::NetworkTimes& n : eval.networks) {
    fmt::print(
        "\n{} on {}, {} threads: {:.3f} ms by its defaults, {:.3f} at best ({} tasks, {} without "
        "records)\n",
        n.name, n.machine, n.threads, n.default_s * 1e3, n.best_s * 1e3, n.tasks, n.unknown);
    for (std::size_t p = 0; p < n.seconds.size(); ++p) {
      fmt::print("{:<32}", eval.policies[p].name);
      for (const double s : n.seconds[p]) fmt::print(" {:>14}", fmt::format("{:.3f} ms", s * 1e3));
      fmt::print("\n");
    }
  }
}

std::string plot_svg(const app::LanguageEval& eval) {
  plot::LineChart chart{.title = "Share of the best known speed over trials",
                        .x = {.label = "trials per task", .logarithmic = true, .low = 1},
                        .y = {.label = "best known / best found", .low = 0, .high = 1},
                        .width = 720,
                        .height = 420};
  for (const app::PolicyShares& p : eval.policies) {
    plot::Series series{.name = p.name};
    for (std::size_t i = 0; i < p.share.size(); ++i)
      series.points.push_back({static_cast<double>(eval.trials[i]), p.share[i]});
    chart.series.push_back(std::move(series));
  }
  return plot::to_svg(chart);
}

Result<app::LanguageEval> evaluate(EvalArgs args) {
  app::LanguageEvalOptions& o = args.options;
  o.policies = policies_of(args);
  if (o.data.empty()) o.data = app::data_folder();
  if (o.data.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "no dataset comes with this Tessera: name one with --data");
  }
  if (o.measured) {
    if (args.target != "host" && args.code_threads > 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        "--code-threads is for code of processors, not of {}; drop it",
                        args.target);
    }
    TESSERA_TRY(const target::Target machine, measure::ask_target(args.target));
    o.measure.threads = std::max(1, args.code_threads);
    o.target = target::code_target(machine, o.measure.threads);
    o.measure.seed = o.seed;
  }
  ProgressLine line;
  o.progress = [&](std::size_t done, std::size_t total) {
    line.show(fmt::format("{} of {} tasks", done, total));
    return !interrupted();
  };
  Result<app::LanguageEval> eval = app::evaluate_language(o);
  line.finish();
  if (eval && eval->tasks > 0 && !args.plot.empty())
    TESSERA_DO(write_file(args.plot, {plot_svg(*eval)}));
  return eval;
}

Result<app::ZeroStudy> study_zero(const EvalArgs& args) {
  const app::LanguageEvalOptions& from = args.options;
  app::ZeroStudyOptions o;
  o.data = from.data.empty() ? app::data_folder() : from.data;
  o.networks = from.networks;
  o.validation = args.validation;
  o.machine = from.machine;
  o.most_tasks = from.most_tasks;
  o.threads = from.threads;
  o.language = args.weights.empty() ? app::kShipped : named(args.weights.front(), "").second;
  ProgressLine line;
  o.progress = [&](std::size_t done, std::size_t total) {
    line.show(fmt::format("{} of {} tasks", done, total));
    return !interrupted();
  };
  o.cost_model = args.cost_model;
  return app::study_zero_trials(o);
}

int run_zero(const EvalArgs& args) {
  const Result<app::ZeroStudy> study = study_zero(args);
  if (!study) return report(study.error());
  auto rows = Json::array();
  if (!args.json) {
    fmt::print("{} tasks with a recorded default; the fastest recorded: {:.3f} times as fast\n",
               study->tasks, study->best_gain);
    fmt::print("{:<22} {:>6} {:>8} {:>8} {:>8} {:>8}\n", "judge", "margin", "changed", "slower",
               "gain", "worst");
  }
  for (const app::ZeroStudyRow& r : study->rows) {
    const bool both = r.evidence != app::kNoEvidence;
    const std::string judge = both ? fmt::format("both, evidence {}", r.evidence) : "cost model";
    if (args.json) {
      rows.push_back({{"judge", both ? "both" : "cost model"},
                      {"evidence", both ? Json(r.evidence) : Json()},
                      {"margin", r.margin},
                      {"changed", r.changed},
                      {"slower", r.slower},
                      {"gain", r.gain},
                      {"worst", r.worst}});
    } else {
      fmt::print("{:<22} {:>6.2f} {:>8} {:>8} {:>8.3f} {:>8.3f}\n", judge, r.margin, r.changed,
                 r.slower, r.gain, r.worst);
    }
  }
  auto networks = Json::array();
  for (const app::ZeroNetwork& n : study->networks) {
    if (args.json) {
      networks.push_back(network_json(n))["chosen_seconds"] = n.chosen_s;
    } else {
      fmt::print(
          "{} on {}, {} threads: {:.3f} times as fast as its defaults, {:.3f} at best ({} "
          "tasks, {} without records)\n",
          n.name, n.machine, n.threads, n.default_s / n.chosen_s, n.default_s / n.best_s, n.tasks,
          n.unknown);
    }
  }
  if (args.json) {
    print_json({{"tasks", study->tasks},
                {"best_gain", study->best_gain},
                {"rows", rows},
                {"networks", networks},
                {"finished", study->finished}});
  }
  return study->finished ? kOk : interrupt_code();
}

int run_eval(const EvalArgs& args) {
  catch_interrupt();
  if (args.zero_trials) return run_zero(args);
  const Result<app::LanguageEval> eval = evaluate(args);
  if (!eval) return report(eval.error());
  if (args.json) {
    print_json(to_json(*eval));
  } else {
    print(*eval, args);
    if (args.networks) print_networks(*eval);
  }
  return eval->finished ? kOk : interrupt_code();
}

}  // namespace

void add_lm_eval(Flags& lm, std::function<int()>* run) {
  Flags* sub =
      lm.add_subcommand("eval", "Compare language models with other searches, without defaults");
  const auto args = std::make_shared<EvalArgs>();
  app::LanguageEvalOptions& o = args->options;
  sub->add_option("--weights", args->weights,
                  "[NAME=]FILE of a language model, or shipped (repeatable)");
  sub->add_option("--policy", args->policies,
                  "[NAME=]POLICY[+option=value...] instead of random and evolutions (repeatable)");
  sub->add_option("--data", o.data, "Dataset (default: the one that comes with Tessera)");
  sub->add_option("--holdout", o.networks, "Networks whose tasks are judged")->delimiter(',');
  Option* task = sub->add_option(
      "--task", o.tasks,
      "Only the tasks with these keys, as `tessera tasks` prints them (repeatable)");
  sub->add_option("--machine", o.machine, "Records of machines with this in their target alone");
  sub->add_option("--trials", o.trials, "Numbers of trials, ascending")->delimiter(',');
  sub->add_option("--seeds", o.seeds, "Runs of each policy")->check(range(1, 1000));
  sub->add_option("--tasks", o.most_tasks, "Tasks of each machine (default: all)");
  sub->add_option("--least-records", o.least_records,
                  "Timed records that a task must have to be judged on them");
  sub->add_option("--threads", o.threads, "Searches beside each other, on records")
      ->check(range(1, 1024));
  Option* measured =
      sub->add_flag("--measure", o.measured,
                    "Search whole spaces and measure on this machine instead of taking what the "
                    "dataset has");
  sub->add_option("--target", args->target,
                  "With --measure, where candidates run: host, cuda or opencl, the device at hand")
      ->needs(measured);
  sub->add_option("--code-threads", args->code_threads,
                  "Threads of the measured code, of processors (default: 1)")
      ->check(range(1, 1024))
      ->hide_default()
      ->needs(measured);
  sub->add_option("--db", o.database, "File that keeps what is measured");
  Option* zero = sub->add_flag(
      "--zero-trials", args->zero_trials,
      "Instead: what `compile` gains without measuring, by the margin that a candidate "
      "must promise over the default, on records");
  zero->excludes(task);
  sub->add_flag(
         "--validation", args->validation,
         "With --zero-trials: instead, tasks that validated the cost models, which their notes "
         "must list")
      ->needs(zero);
  sub->add_option("--cost-model", args->cost_model,
                  "With --zero-trials: cost model that judges, a file, several (A,B,C), or shipped "
                  "(default)")
      ->needs(zero);
  sub->renamed("--search-model", "--cost-model");
  sub->add_flag(
      "--networks", args->networks,
      "Also the time of each network by the records, with defaults and with what is found");
  sub->add_option("--plot", args->plot, "SVG to write");
  sub->add_option("--seed", o.seed, "Seed of all random choices");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->footer(
      "Examples:\n"
      "  tessera lm eval --machine neoverse-v1 --threads 2\n"
      "  tessera lm eval --weights a=best.safetensors --weights b=preference.safetensors --json\n"
      "  tessera lm eval --measure --tasks 8 --trials 1,4,16");
  sub->callback([args, run] { *run = [args] { return run_eval(*args); }; });
}

}  // namespace tessera::cli
