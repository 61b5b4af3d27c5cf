// tessera show: any stage of the compilation of one operation, as text.
#include <cstdio>
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/model_tasks.h"
#include "tessera/app/compile/stage_text.h"
#include "tessera/app/report/layout_picture.h"
#include "tessera/app/tune/tune_problem.h"
#include "tessera/frontend/plan/plan.h"
#include "tessera/frontend/plan/rules.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

struct ShowArgs {
  ModelArgs model;
  std::string op, task, target = "host", plan, output;
  app::StageOptions options;
  bool time_passes = false;
};

// The kernels of a model by layout, as the rules decide and as a plan does.
Result<void> show_layouts(const ShowArgs& args) {
  TESSERA_TRY(const target::Target target,
              fast_target(runtime::resolve_target(args.target), args.model));
  TESSERA_TRY(const app::CompileOptions options, compile_options(args.model, target));
  TESSERA_TRY(const graph::Graph graph, app::import_graph(args.model.model, options));
  const graph::PassOptions passes = app::passes_for(options);
  plan::Plan plan;
  if (!args.plan.empty()) {
    TESSERA_TRY(plan, plan::load_plan(args.plan));
  }
  TESSERA_TRY(const task::PlannedGraph rules, task::apply_plan(graph, passes, {}, {}));
  TESSERA_TRY(const task::PlannedGraph planned,
              task::apply_plan(graph, passes, {}, plan::Decider(plan.decisions)));
  std::vector<report::PlanView> views = {{args.model.model + ", by rules", &rules}};
  if (!args.plan.empty()) views.push_back({args.model.model + ", " + args.plan, &planned});
  if (!args.output.empty()) return write_file(args.output, {report::layout_picture(views, plan)});
  for (const report::PlanView& view : views) fmt::print("{}", report::layout_table(view, plan));
  return {};
}

// The expression of --op, or of --task of the model.
Result<te::Dag> shown_dag(const ShowArgs& args, const target::Target& target) {
  if (args.task.empty()) {
    TESSERA_TRY(const te::OpSpec spec, app::parse_op(args.op, plan::rules_for(target)));
    return te::make_dag(spec);
  }
  TESSERA_TRY(const task::PlannedGraph planned, plan_model(args.model, target, true));
  TESSERA_TRY(const task::Task* task, find_task(planned.tasks, args.model, args.task));
  return task->dag;
}

void print(const ShowArgs& args, const app::StageText& shown) {
  fmt::print("{}", shown.text);
  if (!args.time_passes) return;
  for (const app::StageTime& t : shown.times)
    fmt::print(stderr, "{:>9.3f} ms  {}{}\n", t.ms, t.pass, t.changed ? "" : " (no change)");
}

// The graph of a model; --print-after, --stop-after and --skip name graph passes then.
Result<void> show_graph(const ShowArgs& args) {
  TESSERA_TRY(const target::Target target,
              fast_target(runtime::resolve_target(args.target), args.model));
  TESSERA_TRY(const app::CompileOptions compile, compile_options(args.model, target));
  TESSERA_TRY(const app::StageText shown,
              app::graph_stage(args.model.model, compile, args.options));
  print(args, shown);
  return {};
}

Result<void> show(const ShowArgs& args) {
  if (args.op.empty() == args.model.model.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "give a model or --op, one of them");
  }
  if (args.options.stage == "graph" || args.options.stage == "layouts") {
    if (!args.op.empty() || !args.task.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "--stage {} needs a model, not {}",
                        args.options.stage, args.op.empty() ? "a task of it" : "--op");
    }
    return args.options.stage == "graph" ? show_graph(args) : show_layouts(args);
  }
  if (args.op.empty() == args.task.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a model has the stages graph and layouts; its kernels: --task KEY, which "
                      "`tessera tasks` lists");
  }
  TESSERA_TRY(const target::Target target,
              fast_target(runtime::resolve_target(args.target), args.model));
  TESSERA_DO(app::check_stage(args.options, target));
  TESSERA_TRY(const te::Dag dag, shown_dag(args, target));
  TESSERA_TRY(const app::StageText shown, app::kernel_stage(dag, target, args.options));
  print(args, shown);
  return {};
}

}  // namespace

void add_show(Flags& app, std::function<int()>* run) {
  Flags* sub =
      app.add_subcommand("show", "Print a stage of the compilation of a model or one operation");
  sub->footer(
      "Examples:\n  tessera show zoo:resnet18 --stage graph --print-after=fold_scales\n"
      "  tessera show zoo:squeezenet1_1 --stage layouts --plan squeezenet.plan -o layouts.svg\n"
      "  tessera show zoo:mlp --task KEY --stage asm\n"
      "  tessera show --op matmul:M=64,N=64,K=64 --stage ir\n"
      "  tessera show --op softmax:R=8,C=64 --stage asm --target skylake-avx512\n"
      "  tessera show --op matmul:M=64,N=64,K=64 --print-after vectorize_loops --time-passes");
  const auto args = std::make_shared<ShowArgs>();
  sub->add_option("--op", args->op, "Operation, e.g. matmul:M=64,N=64,K=64 (see bench --list-ops)");
  sub->add_option("--task", args->task,
                  "Kernel of the model, by its key (see tasks), with its default schedule");
  sub->add_option(
         "--stage", args->options.stage,
         "graph or layouts (of a model), te, schedule, ir, llvm or asm; of GPUs ptx, sass, "
         "opencl")
      ->check(one_of(
          {"graph", "layouts", "te", "schedule", "ir", "llvm", "asm", "ptx", "sass", "opencl"}));
  add_model_options(*sub, args->model, false);
  sub->add_option("--plan", args->plan,
                  "With --stage layouts: also as this plan of `tessera tune` decides");
  sub->add_option("-o,--output", args->output,
                  "With --stage layouts: SVG to write, a coloured graph");
  sub->add_option(
         "--schedule", args->options.schedule_file,
         "Schedule file (default: chosen without measuring, as for the kernels of a model)")
      ->check(existing_file() | one_of({kDefaultSchedule}));
  add_target_option(*sub, args->target, TargetUse::kCode);
  add_fast_math_option(*sub, args->model);
  sub->add_option("--print-after", args->options.print_after,
                  "Print the IR after this pass; 'all' for every pass")
      ->delimiter(',');
  sub->add_option("--stop-after", args->options.stop_after, "Run no pass after this one");
  sub->add_option("--skip", args->options.skip, "Leave out these passes")->delimiter(',');
  sub->add_flag("--time-passes", args->time_passes, "Print the time of each pass to stderr");
  sub->callback([args, run] {
    if (args->options.schedule_file == kDefaultSchedule) args->options.schedule_file.clear();
    *run = [args] {
      return with_batch(args->model, [&] {
        const Result<void> result = show(*args);
        if (result.ok()) return static_cast<int>(kOk);
        return args->op.empty() ? report_model(result.error()) : report(result.error());
      });
    };
  });
}

}  // namespace tessera::cli
