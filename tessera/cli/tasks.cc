// tessera tasks: the distinct kernels of a model.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tessera/cli/command.h"
#include "tessera/cli/model_args.h"

namespace tessera::cli {
namespace {

struct TasksArgs {
  ModelArgs model;
  std::string show;  // key
  bool json = false, no_fuse = false;
};

int tasks(const TasksArgs& args) {
  const Result<driver::LoadOptions> load = load_options(args.model);
  if (!load) return report(load.error());
  const Result<graph::Graph> graph = driver::load_graph(args.model.model, *load);
  if (!graph) return report_model(graph.error());
  const Result<task::TaskGraph> extracted =
      task::extract_tasks(*graph, task::PartitionOptions{.fuse = !args.no_fuse});
  if (!extracted) return report_model(extracted.error());
  if (!args.show.empty()) {
    for (const task::Task& t : extracted->tasks) {
      if (t.key != args.show) continue;
      fmt::print("{}", te::to_text(t.dag));
      return kOk;
    }
    return report(
        make_error(ErrorCode::kInvalidArgument, "{} has no task {}", args.model.model, args.show));
  }
  double flops = 0;
  auto list = nlohmann::ordered_json::array();
  if (!args.json)
    fmt::print("{:<16}  {:>6} {:>10} {:>9}  {}\n", "key", "weight", "MFLOP", "MB", "operators");
  for (const task::Task& t : extracted->tasks) {
    flops += t.flops * t.weight;
    if (args.json) {
      list.push_back({{"key", t.key},
                      {"name", t.name},
                      {"weight", t.weight},
                      {"flops", t.flops},
                      {"bytes", t.bytes}});
    } else {
      fmt::print("{:<16}  {:>6} {:>10.3f} {:>9.3f}  {}\n", t.key, t.weight, t.flops * 1e-6,
                 t.bytes * 1e-6, t.name);
    }
  }
  if (args.json) {
    print_json({{"model", args.model.model}, {"tasks", list}});
  } else {
    fmt::print("{} tasks, {} kernels, {:.3f} GFLOP\n", extracted->tasks.size(),
               extracted->calls.size(), flops * 1e-9);
  }
  return kOk;
}

}  // namespace

void add_tasks(CLI::App& app, std::function<int()>* run) {
  CLI::App* sub = app.add_subcommand("tasks", "List the kernels of a model: key, weight, work");
  sub->footer(
      "Examples:\n  tessera tasks zoo:resnet18\n  tessera tasks model.onnx --json\n"
      "  tessera tasks zoo:mlp --show KEY");
  const auto args = std::make_shared<TasksArgs>();
  add_model_options(*sub, args->model, true);
  sub->add_option("--show", args->show, "Print the tensor expression of the task with this key");
  sub->add_flag("--no-fuse", args->no_fuse, "Every node its own kernel");
  sub->add_flag("--json", args->json, "Print JSON");
  sub->callback([args, run] { *run = [args] { return tasks(*args); }; });
}

}  // namespace tessera::cli
