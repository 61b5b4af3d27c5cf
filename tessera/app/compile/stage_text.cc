#include "tessera/app/compile/stage_text.h"

#include <algorithm>
#include <map>

#include <fmt/ranges.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/backend/codegen/codegen.h"
#include "tessera/backend/codegen/ptx_tools.h"
#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/lang/ir/text.h"
#include "tessera/scheduling/lower/lower.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/files.h"

namespace tessera::app {
namespace {

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

// From a file, which messages about it name, or as a model's kernels get theirs.
Result<schedule::Schedule> schedule_of(const StageOptions& options, const target::Target& target,
                                       const te::Dag& dag) {
  if (options.schedule_file.empty()) return space::default_schedule(dag, target);
  TESSERA_TRY(const std::string text, read_file(options.schedule_file));
  Result<schedule::Schedule> steps = schedule::schedule_from_text(text);
  if (!steps.ok()) return steps.error().with_context(options.schedule_file);
  const Result<schedule::State> state = schedule::apply(dag, *steps);
  if (!state.ok()) return state.error().with_context(options.schedule_file);
  return steps;
}

// Stages of the code that only one kind of target has.
const std::map<std::string, target::Kind> kKindOfStage = {{"ptx", target::Kind::kCuda},
                                                          {"sass", target::Kind::kCuda},
                                                          {"opencl", target::Kind::kOpenCl},
                                                          {"asm", target::Kind::kCpu}};

Result<void> check_kind(const std::string& stage, const target::Target& target) {
  const auto of = [&](target::Kind kind) -> Result<void> {
    if (target.kind == kind) return {};
    return make_error(ErrorCode::kInvalidArgument, "--stage {} is of {} targets; {} is none", stage,
                      target::to_text(kind), target.name);
  };
  const auto row = kKindOfStage.find(stage);
  return row == kKindOfStage.end() ? Result<void>() : of(row->second);
}

Result<std::string> code_of(const std::string& stage, const lower::Lowered& lowered,
                            const target::Target& target) {
  if (stage == "llvm") {
    return lowered.program.launches.empty() ? codegen::emit_llvm(lowered.func, target)
                                            : codegen::emit_llvm(lowered.program, target);
  }
  if (stage == "asm") return codegen::emit_asm(lowered.func, target);
  TESSERA_TRY(const kernel::Kernel kernel, kernel::compile_lowered(lowered, target));
  std::string text(kernel.binary.bytes.begin(), kernel.binary.bytes.end());
  if (stage == "sass") return codegen::show_sass(text, target.cpu);
  return text;
}

}  // namespace

Result<void> check_stage(const StageOptions& options, const target::Target& target) {
  TESSERA_DO(check_kind(options.stage, target));
  const std::vector<std::string> known = lower::pass_names(target);
  TESSERA_DO(check_pass_names(options.print_after, known));
  TESSERA_DO(check_pass_names(options.skip, known));
  return check_pass_names({options.stop_after}, known);
}

Result<StageText> kernel_stage(const te::Dag& dag, const target::Target& target,
                               const StageOptions& options) {
  if (options.stage == "te") return StageText{te::to_text(dag), {}};
  TESSERA_TRY(const schedule::Schedule schedule, schedule_of(options, target, dag));
  if (options.stage == "schedule") {
    TESSERA_TRY(const schedule::State state, schedule::apply(dag, schedule));
    return StageText{fmt::format("{}\n{}", schedule::to_text(schedule), schedule::to_text(state)),
                     {}};
  }
  // Loops may be looked at whatever they need; code is for a device that can run them.
  const lower::PassOptions passes{.print_after = options.print_after,
                                  .stop_after = options.stop_after,
                                  .skip = options.skip,
                                  .limits = options.stage != "ir"};
  TESSERA_TRY(const lower::Lowered lowered, kernel::lower_kernel(dag, schedule, target, passes));
  StageText out{lowered.printed, {}};
  for (const lower::PassTime& t : lowered.times) out.times.push_back({t.name, t.ms});
  if (options.stage != "ir") {
    TESSERA_TRY(const std::string code, code_of(options.stage, lowered, target));
    out.text += code;
  } else if (options.print_after.empty()) {
    out.text +=
        lowered.program.launches.empty() ? ir::to_text(lowered.func) : ir::to_text(lowered.program);
  }
  return out;
}

Result<StageText> graph_stage(const std::string& spec, const CompileOptions& compile,
                              const StageOptions& options) {
  TESSERA_TRY(graph::Graph graph, import_graph(spec, compile));
  graph::PassOptions passes = passes_for(compile);
  passes.print_after = options.print_after;
  passes.stop_after = options.stop_after;
  passes.skip.insert(passes.skip.end(), options.skip.begin(), options.skip.end());
  TESSERA_TRY(const graph::PassReport report, graph::optimize(graph, passes));
  StageText out{report.printed, {}};
  for (const graph::PassTime& t : report.times) out.times.push_back({t.name, t.ms, t.changed});
  if (options.print_after.empty()) out.text += graph::to_text(graph);
  return out;
}

}  // namespace tessera::app
