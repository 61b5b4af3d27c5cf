// tessera tasks: the distinct kernels of a model.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_tasks.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/counted.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

// Points of a space that are worth counting one by one.
constexpr std::int64_t kCounted = 10000;

struct TasksArgs {
  ModelArgs model;
  std::string target = "host";
  std::string show;  // key
  bool json = false, no_fuse = false, no_space = false, decisions = false;
};

// Candidates that search chooses from on a machine: all of them, and the legal ones where they
// are few enough to be counted.
struct SpaceSize {
  double points = 0;
  std::optional<std::int64_t> legal;
};

SpaceSize space_size(const te::Dag& dag, const target::Target& target) {
  const Result<space::Space> space = space::make_space(dag, target);
  if (!space) return {};
  return {.points = space->size(), .legal = space->count_legal(kCounted)};
}

std::string to_text(const SpaceSize& size) {
  return size.legal ? fmt::format("{}", *size.legal) : fmt::format("{:.1e}", size.points);
}

Json to_json(const task::Task& t, const target::Target& target, bool with_space) {
  Json out = {{"key", t.key},
              {"name", t.name},
              {"weight", t.weight},
              {"flops", t.flops},
              {"bytes", t.bytes}};
  if (!with_space) return out;
  const SpaceSize size = space_size(t.dag, target);
  out["space"] = size.points;
  out["legal"] = size.legal ? Json(*size.legal) : nullptr;
  return out;
}

// `space` is empty where its size is not asked for.
void print_task(const task::Task& t, const std::string& space) {
  const std::string column = space.empty() ? "" : fmt::format(" {:>8}", space);
  fmt::print("{:<16}  {:>6} {:>10.3f} {:>9.3f}{}  {}\n", t.key, t.weight, t.flops * 1e-6,
             t.bytes * 1e-6, column, t.name);
}

// What is decided about the model, each with the other values that it could have.
int list_decisions(const TasksArgs& args, const std::vector<plan::Decided>& decided) {
  auto list = Json::array();
  for (const plan::Decided& d : decided) {
    if (args.json) {
      list.push_back({{"family", plan::info(d.point.kind).family},
                      {"key", d.point.name},
                      {"value", d.text()},
                      {"values", d.point.labels},
                      {"count", d.count}});
      continue;
    }
    std::vector<std::string> others;
    for (const std::string& value : d.point.labels) {
      if (value != d.text()) others.push_back(value);
    }
    fmt::print("{} = {} (or {})\n", d.point.name, d.text(), fmt::join(others, ", "));
  }
  if (args.json) print_json({{"model", args.model.model}, {"decisions", list}});
  return kOk;
}

int tasks(const TasksArgs& args) {
  const Result<target::Target> target =
      fast_target(runtime::resolve_target(args.target), args.model);
  if (!target.ok()) return report(target.error());
  const Result<task::PlannedGraph> planned = plan_model(args.model, *target, !args.no_fuse);
  if (!planned) return report_model(planned.error());
  if (args.decisions) return list_decisions(args, planned->decided);
  const task::TaskGraph* extracted = &planned->tasks;
  if (!args.show.empty()) {
    const Result<const task::Task*> shown = find_task(*extracted, args.model, args.show);
    if (!shown) return report(shown.error());
    fmt::print("{}", te::to_text((*shown)->dag));
    return kOk;
  }
  double flops = 0;
  auto list = Json::array();
  if (!args.json) {
    fmt::print("{:<16}  {:>6} {:>10} {:>9}{}  {}\n", "key", "weight", "MFLOP", "MB",
               args.no_space ? "" : "    space", "operators");
  }
  for (const task::Task& t : extracted->tasks) {
    flops += t.flops * t.weight;
    if (args.json) {
      list.push_back(to_json(t, *target, !args.no_space));
    } else {
      print_task(t, args.no_space ? "" : to_text(space_size(t.dag, *target)));
    }
  }
  if (args.json) {
    print_json({{"model", args.model.model}, {"tasks", list}});
  } else {
    fmt::print("{}, {}, {:.3f} {}\n", counted(extracted->tasks.size(), "task"),
               counted(extracted->calls.size(), "kernel"), flops * (flops < 1e9 ? 1e-6 : 1e-9),
               flops < 1e9 ? "MFLOP" : "GFLOP");
  }
  return kOk;
}

}  // namespace

void add_tasks(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand(
      "tasks", "List the kernels of a model: key, weight, work, size of the space of schedules");
  sub->footer(
      "Examples:\n  tessera tasks zoo:resnet18\n  tessera tasks model.onnx --json\n"
      "  tessera tasks zoo:mlp --show KEY");
  const auto args = std::make_shared<TasksArgs>();
  add_model_options(*sub, args->model, true);
  add_target_option(*sub, args->target, TargetUse::kCode);
  add_fast_math_option(*sub, args->model);
  sub->add_option("--show", args->show, "Print the tensor expression of the task with this key");
  sub->add_flag(
      "--decisions", args->decisions,
      "List instead what is decided about the model: layouts, algorithms, merging, fusion");
  sub->add_flag("--no-fuse", args->no_fuse, "Every node its own kernel");
  sub->add_flag("--no-space", args->no_space, "Leave out the size of the space of schedules");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->callback([args, run] {
    *run = [args] { return with_batch(args->model, [&] { return tasks(*args); }); };
  });
}

}  // namespace tessera::cli
