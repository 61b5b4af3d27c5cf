// tessera machine: rows of machines, shipped, measured and compared.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/bench/fit.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_tasks.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/frontend/zoo/zoo.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/machine_row.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/counted.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/support/json.h"
#include "tessera/support/parallel.h"

namespace tessera::cli {
namespace {

struct FitArgs {
  std::string target = "host", output;
  double seconds_per_rate = 1;
  bool json = false;
};

Result<target::MachineRow> measure_row(const FitArgs& args) {
  ProgressLine line(0);
  app::FitOptions options{.seconds_per_rate = args.seconds_per_rate};
  options.progress = [&](const std::string& what) { line.show("measuring " + what, true); };
  options.disturbed = [&](std::string_view rate, double part) {
    line.say(
        fmt::format("tessera: warning: other work disturbed {} by {:.0f} %; measure again on an "
                    "idle machine",
                    rate, 100 * part));
  };
  for (const target::Kind kind : {target::Kind::kCuda, target::Kind::kOpenCl}) {
    if (args.target == target::to_text(kind)) return app::fit_device(kind, options);
  }
  return app::fit_host(options);
}

void print_row(const target::MachineRow& row) {
  fmt::print("{}\n", target::to_text(row.target));
  for (const target::RateField& field : target::rate_fields()) {
    if (!target::has_rate(row.target, field)) continue;
    const double value = row.target.rates.*field.value;
    const auto source = row.sources.find(field.name);
    fmt::print("{:<27} {:>9} {:<14} {}; {}\n", field.name,
               value > 0 ? fmt::format("{:.6g}", value) : "-", field.unit, field.meaning,
               source == row.sources.end() ? "not measured" : source->second);
  }
}

// Only whole files appear: what is interrupted has written nothing.
Result<void> fit(const FitArgs& args) {
  std::string path = args.output;
  if (path.empty()) path = target::user_row_path(args.target);
  if (path.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      "no home folder to keep the row in: name a file with -o");
  if (args.output.empty()) {
    std::error_code error;
    std::filesystem::create_directories(target::user_rows_folder(), error);
    if (error)
      return make_error(ErrorCode::kIo, "{}: {}", target::user_rows_folder(), error.message());
  }
  TESSERA_TRY(const target::MachineRow row, measure_row(args));
  const std::string text = target::to_json(row);
  TESSERA_DO(write_file(path, {text}));
  if (args.json) {
    fmt::print("{}", text);
  } else {
    print_row(row);
    fmt::print("written to {}\n", path);
  }
  return {};
}

// The row that a command would use for a target of this name.
Result<target::MachineRow> row_of(const std::string& name) {
  if (target::names_row(name)) {
    TESSERA_TRY(target::MachineRow row, target::find_row(name));
    return row;
  }
  TESSERA_TRY(const target::Target target, runtime::resolve_target(name));
  return target::shipped_row(target);
}

int show(const std::string& name, bool json) {
  const Result<target::MachineRow> row = row_of(name);
  if (!row.ok()) return report(row.error());
  if (json) {
    fmt::print("{}", target::to_json(*row));
  } else {
    print_row(*row);
  }
  return kOk;
}

int list(bool json) {
  auto rows = Json::array();
  const auto add = [&](const std::string& name, const std::string& kind, const std::string& from) {
    if (json) {
      rows.push_back({{"name", name}, {"kind", kind}, {"from", from}});
    } else {
      fmt::print("{:<16} {:<7} {}\n", name, kind, from);
    }
  };
  for (const std::string& name : target::user_row_names()) {
    const Result<target::MachineRow> row = target::find_row(name);
    add(name, row.ok() ? target::to_text(row->target.kind) : "-",
        row.ok() ? target::user_row_path(name) : row.error().message);
  }
  for (const std::string& name : target::target_names()) {
    const Result<target::Target> t = target::find_target(name);
    if (t.ok()) add(name, target::to_text(t->kind), "shipped");
  }
  if (json) print_json({{"machines", rows}});
  return kOk;
}

// Default schedules by the key of their task.
using Schedules = std::map<std::string, std::string>;

Result<Schedules> schedules_of(const std::string& model, const target::Target& target) {
  ModelArgs args;
  args.model = model;
  TESSERA_TRY(const task::PlannedGraph planned, plan_model(args, target, true));
  Schedules out;
  for (const task::Task& t : planned.tasks.tasks) {
    TESSERA_TRY(const schedule::Schedule steps, space::default_schedule(t.dag, target));
    out[t.key] = fmt::format("{:016x}", hash_bytes(schedule::to_text(steps)));
  }
  return out;
}

struct SchedulesArgs {
  std::vector<std::string> rows, models;
  bool json = false;
};

struct Compared {
  Result<Schedules> schedules[2] = {Schedules{}, Schedules{}};
};

Result<void> compare(const SchedulesArgs& args) {
  std::vector<std::string> models = args.models;
  if (models.empty()) {
    for (const zoo::ZooEntry& entry : zoo::zoo_table()) models.push_back("zoo:" + entry.name);
  }
  std::vector<target::Target> targets;
  for (const std::string& name : args.rows) {
    TESSERA_TRY(targets.emplace_back(), runtime::resolve_target(name));
  }
  std::vector<Compared> compared(models.size());
  parallel_for(models.size(), target::usable_cpus(), [&](std::size_t i) {
    for (std::size_t t = 0; t < targets.size(); ++t)
      compared[i].schedules[t] = schedules_of(models[i], targets[t]);
  });
  std::size_t tasks = 0, same = 0;
  auto differ = Json::array();
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (const Result<Schedules>& s : compared[i].schedules) {
      if (!s.ok()) return s.error().with_context(models[i]);
    }
    const Schedules &a = *compared[i].schedules[0], &b = *compared[i].schedules[1];
    for (const auto& [key, digest] : a) {
      if (targets.size() == 1) fmt::print("{} {} {}\n", models[i], key, digest);
      const auto at = b.find(key);
      const bool equal = at != b.end() && at->second == digest;
      ++tasks;
      same += equal ? 1 : 0;
      if (!equal) differ.push_back({{"model", models[i]}, {"task", key}});
    }
  }
  if (targets.size() == 1) return {};
  if (args.json) {
    print_json({{"tasks", tasks}, {"same", same}, {"differ", differ}});
    return {};
  }
  for (const Json& d : differ) fmt::print("{} {}\n", d.at("model").text(), d.at("task").text());
  fmt::print("{} of {} have the same schedule\n", same, counted(tasks, "task"));
  return {};
}

int code_of(const Result<void>& result) { return result.ok() ? kOk : report(result.error()); }

void add_fit(Flags& machine, std::function<int()>* run) {
  const auto args = std::make_shared<FitArgs>();
  Flags* sub = machine.add_subcommand("fit", "Measure the machine at hand and write its row");
  sub->add_option("--target", args->target, "host, cuda or opencl: what to measure")
      ->check(one_of({"host", "cuda", "opencl"}));
  sub->add_option("-o,--output", args->output,
                  "File to write (default: TARGET.json in the folder of your rows, where later "
                  "commands find it)");
  sub->add_duration("--time-limit", args->seconds_per_rate, "Longest time for one rate, roughly");
  sub->add_flag("--json", args->json, "Print the row as JSON");
  sub->callback([args, run] { *run = [args] { return code_of(fit(*args)); }; });
}

}  // namespace

void add_machine(Flags& app, std::function<int()>* run) {
  Flags* machine =
      app.add_subcommand("machine", "Measure machines, and list what is known about them");
  machine->footer(
      "Examples:\n  tessera machine fit\n  tessera machine fit --target cuda -o h200.json\n"
      "  tessera compile zoo:resnet50 --machine h200.json -o out\n"
      "  tessera machine show h200\n  tessera machine schedules h200 h200.json\n"
      "A row says what a machine is and what it does in a clock cycle. Register tiles\n"
      "and prefetching for CPUs and Winograd tiles for all machines follow from it;\n"
      "tiles for GPUs only in part. Your rows are NAME.json in tessera/machines/ of\n"
      "$XDG_CONFIG_HOME or ~/.config. A row named host, cuda or opencl serves that\n"
      "target as long as it is the machine that was measured; others are used by name.");
  machine->require_subcommand(1, 1);
  add_fit(*machine, run);
  const auto json = std::make_shared<bool>(false);
  const auto name = std::make_shared<std::string>("host");
  Flags* listed = machine->add_subcommand("list", "Your rows and the shipped ones");
  listed->add_flag("--json", *json, "Print JSON");
  listed->callback([json, run] { *run = [json] { return list(*json); }; });
  Flags* shown = machine->add_subcommand("show", "The numbers of a row, each with its source");
  shown->add_option("MACHINE", *name, "A machine, or the file of a row");
  shown->add_flag("--json", *json, "Print the row as JSON");
  shown->callback([name, json, run] { *run = [name, json] { return show(*name, *json); }; });
  const auto args = std::make_shared<SchedulesArgs>();
  Flags* schedules = machine->add_subcommand(
      "schedules", "Compare the default schedules that two rows lead to, or list those of one");
  schedules->add_option("ROW", args->rows, "One or two machines or files of rows")
      ->required()
      ->expected(-1);
  schedules->add_option("--model", args->models,
                        "Model whose tasks to take (repeatable; default: all of the zoo)");
  schedules->add_flag("--json", args->json, "Print JSON");
  schedules->callback([args, run] {
    *run = [args] {
      if (args->rows.size() > 2)
        return report({ErrorCode::kInvalidArgument, "schedules of at most two machines"});
      return code_of(compare(*args));
    };
  });
}

}  // namespace tessera::cli
