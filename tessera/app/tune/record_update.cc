#include "tessera/app/tune/record_update.h"

#include <algorithm>

#include "tessera/frontend/task/task.h"
#include "tessera/support/hash.h"

namespace tessera::app {
namespace {

std::string digest_of(const std::string& schedule) { return to_hex(hash_bytes(schedule)); }

bool applies(const te::Dag& dag, const std::string& text) {
  const auto steps = schedule::schedule_from_text(text);
  return steps && schedule::apply(dag, *steps);
}

}  // namespace

record::TaskRow RecordUpdate::task(const record::TaskRow& row) {
  Result<te::Dag> dag = te::dag_from_text(row.definition);
  if (!dag) return row;
  te::Canonical canonical = te::canonicalize(*dag);
  record::TaskRow out = row;
  out.definition = te::to_text(canonical.dag);
  out.key = task::key_of(canonical.dag);
  if (canonical.dag.name != dag->name) out.name = canonical.dag.name;
  tasks_[row.key] = {std::move(*dag), std::move(canonical), out.key};
  space_task_ = nullptr;  // it may be another definition now
  return out;
}

const space::Space* RecordUpdate::space_of(const Known& task, const std::string& target) {
  if (&task != space_task_ || target != space_target_) {
    space_task_ = &task;
    space_target_ = target;
    space_.reset();
    const Result<target::Target> parsed = target::target_from_text(target);
    Result<space::Space> space = parsed ? space::make_space(task.dag, *parsed) : parsed.error();
    if (space) space_.emplace(std::move(*space));
  }
  return space_ ? &*space_ : nullptr;
}

std::string RecordUpdate::steps_of(const Known& task, const record::Record& record) {
  const space::Space* space = space_of(task, record.target);
  if (space == nullptr) return "";
  const Result<decide::Candidate> candidate = space->parse(record.candidate);
  if (!candidate) return "";
  const Result<schedule::Schedule> steps = space->schedule(*candidate);
  if (!steps) return "";
  std::string text = schedule::to_text(*steps);
  const bool same = record.schedule_digest.empty() || digest_of(text) == record.schedule_digest;
  return same ? text : "";
}

void RecordUpdate::record(record::Record* record) {
  const auto it = tasks_.find(record->task);
  if (record->format != "tessera" || it == tasks_.end()) return;
  const Known& task = it->second;
  if (record->schedule.empty()) record->schedule = steps_of(task, *record);
  record->task = task.key;
  if (!task.canonical.renamed.empty()) {
    record->candidate = te::rename(record->candidate, task.canonical.renamed);
    record->schedule = te::rename(record->schedule, task.canonical.renamed);
    if (!applies(task.canonical.dag, record->schedule)) record->schedule.clear();
  }
  if (!record->schedule.empty()) record->schedule_digest = digest_of(record->schedule);
}

Result<std::int64_t> bring_up_to_date(record::Database& database) {
  RecordUpdate update;
  return database.update([&](const record::TaskRow& row) { return update.task(row); },
                         [&](record::Record* r) { update.record(r); });
}

UpdatedDataset bring_up_to_date(const dataset::Dataset& old) {
  UpdatedDataset out;
  out.records = old.examples.size();
  out.tasks = old.tasks.size();
  dataset::Dataset& now = out.dataset;
  now.machines = old.machines;
  RecordUpdate update;
  std::map<std::string, std::int32_t> numbers;  // by new key
  std::map<std::string, std::string> keys;      // old to new
  std::vector<std::int32_t> number_of;          // by old number
  for (const dataset::TaskInfo& t : old.tasks) {
    dataset::TaskInfo task = t;
    if (t.format == "tessera") {
      const record::TaskRow row = update.task({t.key, t.name, t.definition, t.flops, t.bytes});
      task = {row.key, row.name, t.format, row.definition, row.flops, row.bytes};
    }
    keys[t.key] = task.key;
    const auto [at, added] = numbers.emplace(task.key, static_cast<std::int32_t>(now.tasks.size()));
    number_of.push_back(at->second);
    if (added) now.tasks.push_back(std::move(task));
    if (!added) ++out.merged;
  }
  for (const dataset::NetworkInfo& n : old.networks) {
    dataset::NetworkInfo& network = now.networks.emplace_back();
    network.name = n.name;
    for (const auto& [key, weight] : n.weights) {
      const auto it = keys.find(key);
      network.weights[it == keys.end() ? key : it->second] += weight;
    }
  }
  for (const dataset::Example& e : old.examples) {
    const dataset::TaskInfo& task = old.tasks[static_cast<std::size_t>(e.task)];
    record::Record r;
    r.format = task.format;
    r.task = task.key;
    r.target = old.machines[static_cast<std::size_t>(e.machine)].target;
    r.candidate = e.candidate;
    r.schedule = e.schedule;
    update.record(&r);
    if (r.format == "tessera" && r.schedule.empty()) {
      ++out.without_steps;
      continue;
    }
    dataset::Example& example = now.examples.emplace_back(e);
    example.task = number_of[static_cast<std::size_t>(e.task)];
    example.candidate = r.candidate;
    example.schedule = r.schedule;
  }
  std::stable_sort(
      now.examples.begin(), now.examples.end(),
      [](const dataset::Example& a, const dataset::Example& b) { return a.task < b.task; });
  return out;
}

}  // namespace tessera::app
