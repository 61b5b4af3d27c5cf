#include "tessera/app/tune/plan_estimates.h"

#include "tessera/app/compile/zero_trials.h"

namespace tessera::app {

Result<PlanEstimates> PlanEstimates::make(const std::vector<std::string>& models,
                                          const target::Target& target, int threads) {
  PlanEstimates out;
  out.target_ = target;
  out.threads_ = threads;
  if (models.empty()) return out;
  TESSERA_TRY(out.model_, model::load_models(models));
  return out;
}

double PlanEstimates::seconds(const task::Task& task) {
  const auto [known, fresh] = known_.try_emplace(task.key, 0);
  if (!fresh || model_ == nullptr) return known->second;
  ZeroTrialOptions options;
  options.model = model_;
  options.target = target_;
  options.threads = threads_;
  options.time_limit_s = 0;  // the default alone
  const Result<ZeroTrialResult> judged = choose_schedules({task}, options);
  if (judged && !judged->tasks.empty()) known->second = judged->tasks[0].default_s;
  return known->second;
}

double PlanEstimates::seconds(const std::vector<task::Task>& tasks) {
  double sum = 0;
  for (const task::Task& task : tasks) sum += task.weight * seconds(task);
  return sum;
}

}  // namespace tessera::app
