// tessera dataset stats: what a dataset holds.
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/learn/dataset/statistics.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

using dataset::Dataset;

struct StatsArgs {
  std::string folder;
  bool json = false, tasks = false;
};

Json json_of(const dataset::Quantiles& q) {
  return {{"least", q.least},
          {"quarter", q.quarter},
          {"median", q.median},
          {"three_quarters", q.three_quarters},
          {"most", q.most}};
}

Json json_of(const Dataset& d, const dataset::Statistics& s, bool with_tasks) {
  Json j = {{"records", s.records},
            {"valid", s.valid},
            {"tasks", d.tasks.size()},
            {"networks", Json::array()},
            {"machines", Json::array()},
            {"outcomes", s.outcomes},
            {"records_a_task", json_of(s.records_a_task)},
            {"median_over_best", json_of(s.spread)}};
  for (const dataset::NetworkStatistics& n : s.networks) {
    j["networks"].push_back({{"name", n.name},
                             {"tasks", n.tasks},
                             {"covered", n.covered},
                             {"records", n.records},
                             {"valid", n.valid}});
  }
  for (std::size_t i = 0; i < d.machines.size(); ++i) {
    j["machines"].push_back({{"target", d.machines[i].target},
                             {"threads", d.machines[i].threads},
                             {"records", s.machine_records[i]}});
  }
  if (!with_tasks) return j;
  j["per_task"] = Json::array();
  for (const dataset::TaskStatistics& t : s.tasks) {
    const dataset::TaskInfo& info = d.tasks[static_cast<std::size_t>(t.task)];
    j["per_task"].push_back({{"key", info.key},
                             {"name", info.name},
                             {"machine", t.machine},
                             {"records", t.records},
                             {"valid", t.valid},
                             {"best_s", t.best_s > 0 ? Json(t.best_s) : Json()},
                             {"median_s", t.median_s > 0 ? Json(t.median_s) : Json()}});
  }
  return j;
}

void print_quantiles(const char* name, const dataset::Quantiles& q) {
  fmt::print("{:<18} {:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g} {:>10.4g}\n", name, q.least, q.quarter,
             q.median, q.three_quarters, q.most);
}

void print_stats(const Dataset& d, const dataset::Statistics& s, bool with_tasks) {
  fmt::print("{}, {} valid, {}, {}, {}\n\n", counted(s.records, "record"), s.valid,
             counted(d.tasks.size(), "task"), counted(d.networks.size(), "network"),
             counted(d.machines.size(), "machine"));
  fmt::print("{:<18} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "of a task", "least", "1/4", "median",
             "3/4", "most");
  print_quantiles("records", s.records_a_task);
  print_quantiles("median/best", s.spread);
  fmt::print("\n{:>8}  {}\n", "records", "outcome");
  for (const auto& [outcome, count] : s.outcomes) fmt::print("{:>8}  {}\n", count, outcome);
  fmt::print("\n{:>8} {:>8}  {}\n", "records", "threads", "machine");
  for (std::size_t i = 0; i < d.machines.size(); ++i) {
    fmt::print("{:>8} {:>8}  {}\n", s.machine_records[i], d.machines[i].threads,
               d.machines[i].target);
  }
  if (!s.networks.empty()) {
    fmt::print("\n{:>8} {:>8} {:>8} {:>8}  {}\n", "records", "valid", "tasks", "covered",
               "network");
  }
  for (const dataset::NetworkStatistics& n : s.networks) {
    fmt::print("{:>8} {:>8} {:>8} {:>8}  {}\n", n.records, n.valid, n.tasks, n.covered, n.name);
  }
  if (!with_tasks) return;
  fmt::print("\n{:>8} {:>8} {:>10} {:>10}  {}\n", "records", "valid", "best", "median", "task");
  for (const dataset::TaskStatistics& t : s.tasks) {
    const dataset::TaskInfo& info = d.tasks[static_cast<std::size_t>(t.task)];
    fmt::print("{:>8} {:>8} {:>10} {:>10}  {} {}\n", t.records, t.valid,
               t.best_s > 0 ? time_text(t.best_s) : "-",
               t.median_s > 0 ? time_text(t.median_s) : "-", info.key, info.name);
  }
}

Result<void> show_stats(const StatsArgs& args) {
  TESSERA_TRY(const dataset::DatasetReader reader, dataset::DatasetReader::open(args.folder));
  dataset::StatisticsCounter counter(reader.header());
  TESSERA_DO(reader.visit([&](dataset::Example& e) -> Result<void> {
    counter.add(e);
    return {};
  }));
  const dataset::Statistics s = counter.finish();
  if (args.json) {
    print_json(json_of(reader.header(), s, args.tasks));
  } else {
    print_stats(reader.header(), s, args.tasks);
  }
  return {};
}

int run_stats(const StatsArgs& args) {
  const Result<void> shown = show_stats(args);
  return shown ? static_cast<int>(kOk) : report(shown.error());
}

}  // namespace

void add_dataset_stats(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("stats", "Count what a dataset holds");
  const auto args = std::make_shared<StatsArgs>();
  sub->add_option("FOLDER", args->folder, "Dataset")->required();
  sub->add_flag("--json", args->json, "Print JSON");
  sub->add_flag("--tasks", args->tasks, "Every task too");
  sub->footer("Examples:\n  tessera dataset stats my.ds --tasks");
  sub->callback([args, run] { *run = [args] { return run_stats(*args); }; });
}

}  // namespace tessera::cli
