#include "tessera/app/study/studied_task.h"

#include <algorithm>
#include <map>

#include "tessera/lang/te/canonical.h"

namespace tessera::app {
namespace {

std::vector<StudiedTask> tasks_on(const dataset::Dataset& data, const std::set<std::string>& keys,
                                  std::size_t machine) {
  std::map<std::int32_t, StudiedTask> found;
  for (const dataset::Example& e : data.examples) {
    const dataset::TaskInfo& task = data.tasks[static_cast<std::size_t>(e.task)];
    if (static_cast<std::size_t>(e.machine) != machine || task.format != "tessera") continue;
    if (!keys.contains(task.key)) continue;
    found[e.task].task = &task;
    found[e.task].examples.push_back(&e);
  }
  std::vector<StudiedTask> out;
  out.reserve(found.size());
  for (auto& [unused, task] : found) out.push_back(std::move(task));
  return out;
}

}  // namespace

void keep_some(std::size_t most, std::vector<StudiedTask>* tasks) {
  if (most == 0 || tasks->size() <= most) return;
  std::sort(tasks->begin(), tasks->end(),
            [](const StudiedTask& a, const StudiedTask& b) { return a.task->key < b.task->key; });
  std::vector<StudiedTask> kept;
  for (std::size_t i = 0; i < most; ++i)
    kept.push_back(std::move((*tasks)[i * tasks->size() / most]));
  *tasks = std::move(kept);
}

Result<std::vector<std::vector<StudiedTask>>> recorded_tasks(const dataset::Dataset& data,
                                                             const std::set<std::string>& keys,
                                                             const std::string& machine,
                                                             std::size_t most) {
  std::vector<std::vector<StudiedTask>> out;
  for (std::size_t m = 0; m < data.machines.size(); ++m) {
    const dataset::MachineInfo& info = data.machines[m];
    if (info.target.find(machine) == std::string::npos) continue;
    std::vector<StudiedTask> tasks = tasks_on(data, keys, m);
    if (tasks.empty()) continue;
    TESSERA_TRY(const target::Target whole, target::target_from_text(info.target));
    const target::Target target = target::code_target(whole, info.threads);
    for (StudiedTask& t : tasks) t.target = target;
    keep_some(most, &tasks);
    out.push_back(std::move(tasks));
  }
  return out;
}

Result<RecordedTask> read_records(const StudiedTask& studied, bool withheld) {
  TESSERA_TRY(const te::Dag dag, te::dag_from_text(studied.task->definition));
  TESSERA_TRY(space::Space made, space::make_space(dag, studied.target));
  auto whole = std::make_unique<space::Space>(std::move(made));
  std::vector<RecordedTrial> trials;
  for (const dataset::Example* e : studied.examples) {
    RecordedTrial t;
    Result<decide::Candidate> c = whole->parse(e->candidate);
    if (!c || !whole->check(*c) || !measure::outcome_from_text(e->outcome, &t.outcome)) continue;
    if (t.outcome == measure::Outcome::kWorkerLost) continue;
    t.candidate = std::move(c).value();
    t.seconds = static_cast<double>(e->seconds);
    trials.push_back(std::move(t));
  }
  return RecordedTask(std::move(whole), std::move(trials), withheld);
}

}  // namespace tessera::app
