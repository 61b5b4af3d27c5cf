// tessera show: any stage of the compilation of one operation, as text.
#include <algorithm>
#include <cstdio>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/app/cli/command.h"
#include "tessera/app/cli/layout_picture.h"
#include "tessera/app/cli/model_tasks.h"
#include "tessera/app/tune/tune_problem.h"
#include "tessera/backend/codegen/codegen.h"
#include "tessera/backend/codegen/ptx_tools.h"
#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/frontend/plan/plan.h"
#include "tessera/frontend/plan/rules.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

struct ShowArgs {
  ModelArgs model;
  std::string op, task, stage = "ir", schedule, target = "host", plan, output;
  std::vector<std::string> print_after, skip;
  std::string stop_after;
  bool time_passes = false;
};

Result<void> check_pass_names(const std::vector<std::string>& names,
                              const std::vector<std::string>& known) {
  for (const std::string& name : names) {
    if (name != "all" && !name.empty() &&
        std::find(known.begin(), known.end(), name) == known.end()) {
      return make_error(ErrorCode::kInvalidArgument, "no pass '{}'; passes are: {}", name,
                        fmt::join(known, " "));
    }
  }
  return {};
}

// From --schedule, where a message about it names the file, or as a model's kernels get theirs.
Result<schedule::Schedule> schedule_of(const ShowArgs& args, const target::Target& target,
                                       const te::Dag& dag) {
  if (args.schedule.empty() || args.schedule == kDefaultSchedule) {
    return space::default_schedule(dag, target);
  }
  TESSERA_TRY(const std::string text, read_file(args.schedule));
  Result<schedule::Schedule> steps = schedule::schedule_from_text(text);
  if (!steps.ok()) return steps.error().with_context(args.schedule);
  const Result<schedule::State> state = schedule::apply(dag, *steps);
  if (!state.ok()) return state.error().with_context(args.schedule);
  return steps;
}

void print_times(const std::vector<lower::PassTime>& times) {
  for (const lower::PassTime& t : times) fmt::print(stderr, "{:>9.3f} ms  {}\n", t.ms, t.name);
}

// The graph of a model; --print-after, --stop-after and --skip name graph passes then.
Result<void> show_graph(const ShowArgs& args) {
  TESSERA_TRY(const target::Target target,
              fast_target(runtime::resolve_target(args.target), args.model));
  TESSERA_TRY(const app::CompileOptions options, compile_options(args.model, target));
  TESSERA_TRY(graph::Graph graph, app::import_graph(args.model.model, options));
  graph::PassOptions passes = app::passes_for(options);
  passes.print_after = args.print_after;
  passes.stop_after = args.stop_after;
  passes.skip.insert(passes.skip.end(), args.skip.begin(), args.skip.end());
  TESSERA_TRY(const graph::PassReport report, graph::optimize(graph, passes));
  if (args.time_passes) {
    for (const graph::PassTime& t : report.times) {
      fmt::print(stderr, "{:>9.3f} ms  {}{}\n", t.ms, t.name, t.changed ? "" : " (no change)");
    }
  }
  fmt::print("{}", report.printed);
  if (args.print_after.empty()) fmt::print("{}", graph::to_text(graph));
  return {};
}

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
  std::vector<PlanView> views = {{args.model.model + ", by rules", &rules}};
  if (!args.plan.empty()) views.push_back({args.model.model + ", " + args.plan, &planned});
  if (!args.output.empty()) return write_file(args.output, {layout_picture(views, plan)});
  for (const PlanView& view : views) fmt::print("{}", layout_table(view, plan));
  return {};
}

// Stages of the code that only one kind of target has.
Result<void> check_stage(const std::string& stage, const target::Target& target) {
  const auto of = [&](target::Kind kind) -> Result<void> {
    if (target.kind == kind) return {};
    return make_error(ErrorCode::kInvalidArgument, "--stage {} is of {} targets; {} is none", stage,
                      target::to_text(kind), target.name);
  };
  if (stage == "ptx" || stage == "sass") return of(target::Kind::kCuda);
  if (stage == "opencl") return of(target::Kind::kOpenCl);
  if (stage == "asm") return of(target::Kind::kCpu);
  return {};
}

// Loops may be looked at whatever they need; code is for a device that can run them.
Result<lower::Lowered> lowered_for(const std::string& stage, const te::Dag& dag,
                                   const schedule::Schedule& schedule, const target::Target& target,
                                   const lower::PassOptions& passes) {
  if (stage == "ir" && target.is_gpu()) return lower::lower_device(dag, schedule, passes);
  return kernel::lower_kernel(dag, schedule, target, passes);
}

Result<std::string> code_of(const std::string& stage, const lower::Lowered& lowered,
                            const target::Target& target) {
  if (stage == "llvm") {
    return target.is_gpu() ? codegen::emit_llvm(lowered.program, target)
                           : codegen::emit_llvm(lowered.func, target);
  }
  if (stage == "asm") return codegen::emit_asm(lowered.func, target);
  TESSERA_TRY(const kernel::Kernel kernel, kernel::compile_lowered(lowered, target));
  std::string text(kernel.binary.bytes.begin(), kernel.binary.bytes.end());
  if (stage == "sass") return codegen::show_sass(text, target.cpu);
  return text;
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

Result<void> show(const ShowArgs& args) {
  if (args.op.empty() == args.model.model.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "give a model or --op, one of them");
  }
  if (args.stage == "graph" || args.stage == "layouts") {
    if (!args.op.empty() || !args.task.empty()) {
      return make_error(ErrorCode::kInvalidArgument, "--stage {} needs a model, not {}", args.stage,
                        args.op.empty() ? "a task of it" : "--op");
    }
    return args.stage == "graph" ? show_graph(args) : show_layouts(args);
  }
  if (args.op.empty() == args.task.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a model has the stages graph and layouts; its kernels: --task KEY, which "
                      "`tessera tasks` lists");
  }
  TESSERA_TRY(const target::Target target,
              fast_target(runtime::resolve_target(args.target), args.model));
  TESSERA_DO(check_stage(args.stage, target));
  const std::vector<std::string> passes_known = lower::pass_names(target);
  TESSERA_DO(check_pass_names(args.print_after, passes_known));
  TESSERA_DO(check_pass_names(args.skip, passes_known));
  TESSERA_DO(check_pass_names({args.stop_after}, passes_known));
  TESSERA_TRY(const te::Dag dag, shown_dag(args, target));
  if (args.stage == "te") {
    fmt::print("{}", te::to_text(dag));
    return {};
  }
  TESSERA_TRY(const schedule::Schedule schedule, schedule_of(args, target, dag));
  if (args.stage == "schedule") {
    TESSERA_TRY(const schedule::State state, schedule::apply(dag, schedule));
    fmt::print("{}\n{}", schedule::to_text(schedule), schedule::to_text(state));
    return {};
  }
  const lower::PassOptions passes{
      .print_after = args.print_after, .stop_after = args.stop_after, .skip = args.skip};
  TESSERA_TRY(const lower::Lowered lowered, lowered_for(args.stage, dag, schedule, target, passes));
  fmt::print("{}", lowered.printed);
  if (args.time_passes) print_times(lowered.times);
  if (args.stage != "ir") {
    TESSERA_TRY(const std::string code, code_of(args.stage, lowered, target));
    fmt::print("{}", code);
  } else if (args.print_after.empty()) {
    fmt::print("{}", target.is_gpu() ? ir::to_text(lowered.program) : ir::to_text(lowered.func));
  }
  return {};
}

int list_targets() {
  for (const std::string& name : target::target_names()) {
    const Result<target::Target> t = target::find_target(name);
    if (!t.ok()) return report(t.error());
    if (t->name == name) {
      fmt::print("{}\n", target::to_text(*t));
    } else {
      fmt::print("{} = {}\n", name, t->name);
    }
  }
  return kOk;
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
         "--stage", args->stage,
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
         "--schedule", args->schedule,
         "Schedule file (default: chosen without measuring, as for the kernels of a model)")
      ->check(existing_file() | one_of({kDefaultSchedule}));
  sub->add_option("--target", args->target,
                  "host, a machine (see targets), or cuda or opencl: the device at hand");
  add_fast_math_option(*sub, args->model);
  sub->add_option("--print-after", args->print_after,
                  "Print the IR after this pass; 'all' for every pass")
      ->delimiter(',');
  sub->add_option("--stop-after", args->stop_after, "Run no pass after this one");
  sub->add_option("--skip", args->skip, "Leave out these passes")->delimiter(',');
  sub->add_flag("--time-passes", args->time_passes, "Print the time of each pass to stderr");
  sub->callback([args, run] {
    *run = [args] {
      return with_batch(args->model, [&] {
        const Result<void> result = show(*args);
        if (result.ok()) return static_cast<int>(kOk);
        return args->op.empty() ? report_model(result.error()) : report(result.error());
      });
    };
  });
}

void add_targets(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("targets", "List the machines that code can be generated for");
  sub->footer("Examples:\n  tessera targets\n  tessera compile zoo:mlp -o out --target x86-64-v3");
  sub->callback([run] { *run = list_targets; });
}

}  // namespace tessera::cli
