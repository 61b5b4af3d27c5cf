#include "tessera/app/tune/tune_summary.h"

#include <map>

#include "tessera/trials/record/session_summary.h"

namespace tessera::app {
namespace {

// Uses of tasks by the models as the rules would have them, by key.
std::map<std::string, double> untuned_uses(const TuneProblem& problem) {
  std::map<std::string, double> out;
  const auto add = [&](const std::vector<TaskUse>& uses) {
    for (const TaskUse& u : uses) out[problem.tasks[u.task].task.key] += u.count;
  };
  add(problem.base);
  for (const TunePoint& p : problem.points) add(p.preferred());
  return out;
}

}  // namespace

report::Summary summary_of(const TuneResult& result, const TuneProblem& problem) {
  report::Summary out{
      .stopped_by = result.stopped_by, .disturbed = result.disturbed, .busy = result.busy};
  for (const SubjectReport& s : result.subjects) {
    out.models.push_back({s.name, s.before_s, s.after_s, s.trusted});
  }
  std::map<std::string, double> before = untuned_uses(problem);
  for (const TaskReport& t : result.tasks) {
    out.kernels.push_back({.key = t.key,
                           .algorithm = t.algorithm,
                           .uses_before = before[t.key],
                           .uses_after = t.used ? t.weight : 0,
                           .before_s = t.before_s,
                           .after_s = t.after_s,
                           .cold = t.cold,
                           .candidate = t.candidate});
  }
  return out;
}

Result<void> keep_summary(const std::string& database, const TuneResult& result,
                          const TuneProblem& problem) {
  if (database.empty() || result.session == 0) return {};
  return record::keep_session_summary(database, result.session,
                                      report::to_json(summary_of(result, problem)));
}

}  // namespace tessera::app
