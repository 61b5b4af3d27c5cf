#include "tessera/app/tune/cold_tasks.h"

#include <algorithm>

#include "tessera/machine/target/measured_as.h"

namespace tessera::app {
namespace {

double constant_bytes(const te::Dag& dag) {
  double bytes = 0;
  for (const te::Input& input : dag.inputs) {
    if (input.constant)
      bytes += static_cast<double>(input.buffer.size() * size_bytes(input.buffer->dtype));
  }
  return bytes;
}

}  // namespace

std::vector<bool> cold_tasks(const TuneProblem& problem, const target::Target& target) {
  std::vector<double> bytes(problem.subjects.size(), 0);  // of all constants, as it is untuned
  const auto add = [&](const TaskUse& use) {
    bytes[use.subject] += use.count * constant_bytes(problem.tasks[use.task].task.dag);
  };
  std::for_each(problem.base.begin(), problem.base.end(), add);
  for (const TunePoint& p : problem.points)
    std::for_each(p.preferred().begin(), p.preferred().end(), add);

  std::vector<bool> out(problem.tasks.size(), false);
  const double cache = target::last_cache_bytes(target);
  const auto mark = [&](const TaskUse& use) {
    const bool exceeds = !problem.subjects[use.subject].is_op && cache > 0 &&
                         bytes[use.subject] > cache &&
                         constant_bytes(problem.tasks[use.task].task.dag) > 0;
    if (exceeds) out[use.task] = true;
  };
  std::for_each(problem.base.begin(), problem.base.end(), mark);
  std::for_each(problem.others.begin(), problem.others.end(), mark);
  for (const TunePoint& p : problem.points) {
    for (const std::vector<TaskUse>& uses : p.uses) std::for_each(uses.begin(), uses.end(), mark);
  }
  return out;
}

}  // namespace tessera::app
