// --plan and --strict of every command that builds a model.
#pragma once

#include <optional>
#include <string>

#include "tessera/app/cli/common/flags.h"
#include "tessera/app/compile/plan_schedules.h"

namespace tessera::cli {

struct PlanArgs {
  std::string plan;
  bool strict = false;
};

void add_plan_options(Flags& app, PlanArgs& args);

// The plan behind the flags; nullopt without --plan. Errors name the file.
Result<std::optional<app::PlanSchedules>> plan_schedules(const PlanArgs& args,
                                                         const target::Target& target);

// Says on stderr when the plan was tuned with another number of threads than it is used with, or on
// another processor.
void warn_of_origin(const PlanArgs& args, const std::optional<app::PlanSchedules>& plan,
                    const target::Target& target, int threads);

// After a build with `plan`, failed or not: says on stderr how many tasks it had and which not.
// Returns kStrictMiss when that ended the build, else nullopt.
std::optional<int> report_misses(const PlanArgs& args,
                                 const std::optional<app::PlanSchedules>& plan);

}  // namespace tessera::cli
