#include "tessera/backend/artifact/model_program.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/backend/artifact/host_call.h"
#include "tessera/backend/artifact/program_tables.h"
#include "tessera/backend/artifact/runtime/types.h"
#include "tessera/backend/exec/build_model.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/features.h"

namespace tessera::artifact {
namespace {

Result<void> check_steps(const exec::CompiledModel& model) {
  const bool launches = model.target.row().launches;
  std::vector<std::string> bad;
  for (const exec::CompiledModel::Step& step : model.steps) {
    if (step.kind == task::GroupKind::kKernel || (!launches && host_call(step).ok())) continue;
    bad.push_back(fmt::format("{} ({})", step.origin, step.name));
  }
  if (bad.empty()) return {};
  return make_error(ErrorCode::kUnsupported, "{}, these nodes run on the host: {}",
                    launches ? "an artifact for a GPU holds kernels only"
                             : "artifacts have no function for some nodes",
                    fmt::join(bad, ", "));
}

// Tiles multiply narrow numbers only, and the compiler uses them nowhere else.
bool reads_narrow_numbers(const task::TaskGraph& tasks) {
  return std::ranges::any_of(tasks.tasks, [](const task::Task& task) {
    return std::ranges::any_of(task.dag.inputs, [](const te::Input& input) {
      return size_bytes(input.buffer->dtype) <= 2;
    });
  });
}

}  // namespace

Result<ModelProgram> make_model_program(graph::Graph graph, const task::TaskGraph& tasks,
                                        const target::Target& target, const std::string& name,
                                        const exec::ModelOptions& options) {
  ModelProgram out;
  out.branches = exec::has_branches(graph, tasks, target);
  out.tiles = reads_narrow_numbers(tasks);
  const exec::AheadOfTime ahead{
      .symbol = [&](std::size_t task) { return kernel_symbol(name, task); },
      .branches = out.branches};
  TESSERA_TRY(out.model,
              exec::build_model(std::move(graph), tasks, target, options, ahead, &out.binaries));
  TESSERA_DO(check_steps(out.model));
  return out;
}

const target::Target& library_target(const target::Target& target) {
  return target.row().launches ? target::host() : target;
}

Metadata describe(const exec::CompiledModel& model, const std::string& name) {
  Metadata m;
  m.abi = TSR_ARTIFACT_ABI;
  m.name = name;
  m.tessera_version = TESSERA_VERSION;
  m.target = target::to_text(model.target);
  m.triple = library_target(model.target).triple;
  m.device = model.target.kind;
  if (!model.target.row().launches) {
    m.code = {std::string(model.target.row().code)};
    for (const std::string_view feature : target::present_features(model.target.features)) {
      m.features.emplace_back(feature);
    }
  }
  m.plan_digest = model.digest;
  m.arena_bytes = model.arena_bytes;
  for (std::size_t i = 0; i < model.input_types.size(); ++i) {
    m.inputs.push_back(
        {model.input_names[i], model.input_types[i].dtype, model.input_types[i].shape});
  }
  for (std::size_t i = 0; i < model.output_types.size(); ++i) {
    m.outputs.push_back(
        {model.output_names[i], model.output_types[i].dtype, model.output_types[i].shape});
  }
  for (const exec::CompiledModel::Step& step : model.steps) {
    m.steps.push_back({step.name, step.origin, step.flops});
  }
  return m;
}

int building_threads(const exec::ModelOptions& options) {
  return options.build_threads > 0 ? options.build_threads : target::usable_cpus();
}

}  // namespace tessera::artifact
