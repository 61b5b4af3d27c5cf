#include "tessera/driver/compile/decide_model.h"

#include <algorithm>
#include <limits>

#include "tessera/target/cpus.h"

namespace tessera::driver {
namespace {

bool has_all(const plan::Plan& plan, const std::vector<task::Task>& tasks) {
  return std::all_of(tasks.begin(), tasks.end(),
                     [&](const task::Task& t) { return plan.find(t.key) != nullptr; });
}

// Models of kernels in networks are not calibrated: the times of the defaults, and what tuning may
// gain, are told by the model that judges without a language model; what the choice gains stays.
Result<void> tell_times(const std::vector<task::Task>& tasks, ZeroTrialOptions judging,
                        ZeroTrialResult* chosen) {
  const std::vector<std::string> paths = model_paths(kShipped, judging.target);
  if (paths.empty() || !(chosen->default_s > 0)) return {};
  TESSERA_TRY(judging.model, model::load_models(paths, judging.search_threads));
  judging.open_language = nullptr;
  judging.margin = std::numeric_limits<double>::infinity();
  TESSERA_TRY(const ZeroTrialResult told, choose_schedules(tasks, judging));
  if (!told.calibrated || told.tasks.size() != chosen->tasks.size()) return {};
  double usual_s = 0, chosen_s = 0;
  for (std::size_t t = 0; t < told.tasks.size(); ++t) {
    TaskPrediction& task = chosen->tasks[t];
    task.seconds *= told.tasks[t].default_s / task.default_s;
    task.default_s = told.tasks[t].default_s;
    task.promised = told.tasks[t].promised;
    usual_s += task.uses * task.default_s;
    chosen_s += task.uses * task.seconds;
  }
  const double share = chosen_s / usual_s;
  chosen->default_s = told.default_s;
  chosen->seconds = share * told.seconds;
  chosen->low_s = share * told.low_s;
  chosen->high_s = share * told.high_s;
  chosen->calibrated = true;
  chosen->tuned_s = std::min(chosen->seconds, told.tuned_s);
  chosen->measured_threads = told.measured_threads;
  return {};
}

// Schedules by the cost model for tasks that the plan lacks.
Result<void> judge(const CompileOptions& options, DecidedModel* model) {
  const bool written = options.language != kNoModel;
  const ZeroTrialModels models =
      written ? zero_trial_models(options.cost_model, weights_folder(), options.target)
              : ZeroTrialModels{.paths = model_paths(options.cost_model, options.target)};
  const std::vector<std::string>& paths = models.paths;
  if (options.cost_model == kShipped && options.note && weights_folder().empty())
    options.note(kNoWeights);
  // A strict plan refuses what it lacks.
  if (paths.empty() || (options.plan && options.plan->strict())) return {};
  ZeroTrialOptions judging;
  if (options.plan) judging.known = options.plan->plan();
  if (has_all(judging.known, model->tasks.tasks)) return {};
  const auto note = [&](const std::string& line) {
    if (options.note) options.note(line);
  };
  judging.search_threads =
      options.build.build_threads > 0 ? options.build.build_threads : target::usable_cpus();
  Result<std::shared_ptr<const model::CostModel>> loaded =
      model::load_models(paths, judging.search_threads);
  if (!loaded.ok() && options.cost_model == kShipped) {
    note(loaded.error().message + "; default schedules are used");
    return {};
  }
  TESSERA_TRY(judging.model, std::move(loaded));
  judging.target = options.target;
  if (models.in_networks) judging.agreed = kInNetworks;
  if (!options.target.is_gpu()) judging.threads = options.target.code_threads();
  // How several threads share work out is told too poorly to leave the default for it.
  if (judging.threads > 1)
    judging.margin = judging.agreed.margin = std::numeric_limits<double>::infinity();
  if (written) {
    TESSERA_TRY(const std::string path, language_path(options.language, options.target));
    TESSERA_DO(open_language(path, kGuidance, 1));
    if (judging.threads == 1) {
      judging.open_language = [path] { return open_language(path, kGuidance, 1); };
    } else {
      note("code for several threads keeps its default schedules: the language model has no say");
    }
  }
  TESSERA_TRY(model->judged, choose_schedules(model->tasks.tasks, judging));
  if (models.in_networks) {
    const Result<void> told = tell_times(model->tasks.tasks, judging, &*model->judged);
    if (!told.ok()) note(told.error().message + "; times were not calibrated");
  }
  if (const std::string error = judging.model->last_error(); !error.empty()) {
    note(error + "; tasks that could not be judged keep their defaults");
  }
  TESSERA_TRY(const PlanSchedules schedules,
              PlanSchedules::make(model->judged->plan, options.target, false));
  schedules.apply_to(&model->build);
  return {};
}

}  // namespace

Result<DecidedModel> decide_model(onnx::Model model, const CompileOptions& options) {
  DecidedModel out;
  LoadOptions load = options.load;
  load.optimize = false;
  TESSERA_TRY(graph::Graph imported, load_graph(model, load));
  model = {};
  TESSERA_TRY(task::PlannedGraph planned,
              task::apply_plan(std::move(imported), load.passes, options.build.partition,
                               plan::Decider(options.plan ? options.plan->plan().decisions
                                                          : plan::Decisions())));
  out.graph = std::move(planned.graph);
  if (options.accept) TESSERA_DO(options.accept(out.graph));
  out.tasks = std::move(planned.tasks);
  out.decided = std::move(planned.decided);
  out.build = options.build;
  if (options.plan) options.plan->apply_to(&out.build);
  TESSERA_DO(judge(options, &out));
  return out;
}

}  // namespace tessera::driver
