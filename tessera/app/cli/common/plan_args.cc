#include "tessera/app/cli/common/plan_args.h"

#include <cstdio>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/machine/target/measured_as.h"
#include "tessera/support/counted.h"

namespace tessera::cli {

void add_plan_options(Flags& app, PlanArgs& args) {
  Option* plan = app.add_option("--plan", args.plan,
                                "Schedules that `tessera tune` found; a task that it does not "
                                "have gets its default schedule");
  app.add_flag("--strict", args.strict, "A task that the plan does not have is an error (exit 7)")
      ->needs(plan);
}

Result<std::optional<app::PlanSchedules>> plan_schedules(const PlanArgs& args,
                                                         const target::Target& target) {
  if (args.plan.empty()) return std::optional<app::PlanSchedules>();
  TESSERA_TRY(plan::Plan plan, plan::load_plan(args.plan));
  Result<app::PlanSchedules> made = app::PlanSchedules::make(std::move(plan), target, args.strict);
  if (!made.ok()) return made.error().with_context(args.plan);
  return std::optional<app::PlanSchedules>(std::move(made).value());
}

void warn_of_origin(const PlanArgs& args, const std::optional<app::PlanSchedules>& plan,
                    const target::Target& target, int threads) {
  if (!plan.has_value()) return;
  const int used = target::measured_threads(target, threads);
  if (plan->plan().threads != used) {
    print_warning(fmt::format("{}: was tuned with {}, not with {}", args.plan,
                              counted(plan->plan().threads, "thread"), used));
  }
  const Result<target::Target> made_for = target::target_from_text(plan->plan().target);
  if (made_for.ok() && made_for->cpu != target.cpu) {
    print_warning(
        fmt::format("{}: was tuned on {}, not on {}: correct, but perhaps not the fastest",
                    args.plan, made_for->cpu, target.cpu));
  }
}

std::optional<int> report_misses(const PlanArgs& args,
                                 const std::optional<app::PlanSchedules>& plan) {
  if (!plan.has_value()) return std::nullopt;
  const std::vector<std::string> missing = plan->missing();
  if (missing.empty()) return std::nullopt;
  const std::size_t found = plan->found();
  fmt::print(stderr, "tessera: {}{}: has schedules for {} of {} tasks{}{}:\n  {}\n",
             args.strict ? "" : coloured(Colour::kYellow, "warning: ", stderr), args.plan, found,
             found + missing.size(),
             found == 0 ? fmt::format(" (it was made for {})", plan->plan().model) : "",
             args.strict ? "; it lacks" : "; the others get their default schedules",
             fmt::join(missing, "\n  "));
  if (!args.strict) return std::nullopt;
  return kStrictMiss;
}

}  // namespace tessera::cli
