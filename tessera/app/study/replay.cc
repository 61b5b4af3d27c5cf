#include "tessera/app/study/replay.h"

#include <algorithm>

#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/dag.h"
#include "tessera/scheduling/feature/operator_embedding.h"
#include "tessera/search/task_scheduler.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/support/parallel.h"

namespace tessera::app {
namespace {

using dataset::Dataset;
using dataset::Example;

constexpr std::size_t kStride = 37;  // a prime

std::string programs_path(const std::string& folder) { return folder + "/programs.txt"; }

Result<std::string> program_of(const te::Dag& dag, const target::Target& target,
                               const Example& example) {
  TESSERA_TRY(const schedule::Schedule steps, schedule::schedule_from_text(example.schedule));
  TESSERA_TRY(const lower::Lowered lowered, kernel::lower_kernel(dag, steps, target));
  std::string text = ir::to_text(lowered.func);
  for (const schedule::Layout& layout : lowered.param_layouts) {
    text += schedule::to_text(layout) + "\n";
  }
  return to_hex(hash_bytes(text));
}

// By example, of several threads.
Result<std::vector<Result<std::string>>> programs_of(const Dataset& d, int threads) {
  std::vector<te::Dag> dags;
  std::vector<target::Target> targets;
  for (const dataset::TaskInfo& t : d.tasks) {
    TESSERA_TRY(te::Dag dag, te::dag_from_text(t.definition));
    dags.push_back(std::move(dag));
  }
  for (const dataset::MachineInfo& m : d.machines) {
    TESSERA_TRY(target::Target target, target::target_from_text(m.target));
    targets.push_back(std::move(target));
  }
  std::vector<Result<std::string>> out(d.examples.size(), std::string());
  parallel_for(out.size(), threads, [&](std::size_t i) {
    const Example& e = d.examples[i];
    out[i] = program_of(dags[static_cast<std::size_t>(e.task)],
                        targets[static_cast<std::size_t>(e.machine)], e);
  });
  return out;
}

ReplayMismatch describe(const Dataset& d, const Example& e) {
  const dataset::TaskInfo& task = d.tasks[static_cast<std::size_t>(e.task)];
  ReplayMismatch out;
  out.task = task.key;
  out.name = task.name;
  out.family = family_of(task);
  out.target = d.machines[static_cast<std::size_t>(e.machine)].target;
  out.candidate = e.candidate;
  out.schedule = e.schedule;
  return out;
}

}  // namespace

std::string family_of(const dataset::TaskInfo& task) {
  const Result<te::Dag> dag = te::dag_from_text(task.definition);
  if (dag) {
    std::vector<float> values;
    feature::append_operator_embedding(*dag, &values);
    const std::vector<std::string>& names = feature::operator_embedding_names();
    const auto at = std::find(names.begin(), names.end(), "depthwise");
    if (at != names.end() && values[static_cast<std::size_t>(at - names.begin())] > 0) {
      return "depthwise";
    }
  }
  return search::family_of(task.name);
}

Result<ReplayResult> replay(const std::string& folder, int threads) {
  TESSERA_TRY(const Dataset d, dataset::load(folder));
  TESSERA_TRY(const std::string text, read_file(programs_path(folder)));
  constexpr std::size_t kLine = 17;
  if (text.size() != kLine * d.examples.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: {} bytes are not one line for each of {} "
                      "records",
                      programs_path(folder), text.size(), d.examples.size());
  }
  TESSERA_TRY(const auto programs, programs_of(d, threads));
  std::vector<std::string> families;
  for (const dataset::TaskInfo& t : d.tasks) families.push_back(family_of(t));
  ReplayResult out;
  for (std::size_t i = 0; i < d.examples.size(); ++i) {
    const Example& e = d.examples[i];
    ++out.records;
    ++out.families[families[static_cast<std::size_t>(e.task)]];
    if (programs[i].ok() && *programs[i] + "\n" == text.substr(kLine * i, kLine)) continue;
    out.mismatches.push_back(describe(d, e));
    if (!programs[i].ok()) out.mismatches.back().reason = programs[i].error().message;
  }
  return out;
}

Result<std::size_t> keep_programs(const std::string& folder, int threads) {
  TESSERA_TRY(const Dataset d, dataset::load(folder));
  TESSERA_TRY(const auto programs, programs_of(d, threads));
  std::string text;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!programs[i].ok()) {
      ReplayMismatch bad = describe(d, d.examples[i]);
      bad.reason = programs[i].error().message;
      return make_error(programs[i].error().code, "{}", to_text(bad, folder));
    }
    text += *programs[i] + "\n";
  }
  TESSERA_DO(write_file(programs_path(folder), {text}));
  return programs.size();
}

Dataset pick_by_family(const Dataset& d, std::size_t per_family) {
  // Of each family the examples of its tasks in turns, so that all of them occur.
  std::map<std::string, std::vector<std::vector<std::size_t>>> families;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::size_t>> lists;
  for (std::size_t i = 0; i < d.examples.size(); ++i) {
    if (d.examples[i].schedule.empty()) continue;
    lists[{d.examples[i].task, d.examples[i].machine}].push_back(i);
  }
  for (auto& [place, list] : lists) {
    const dataset::TaskInfo& task = d.tasks[static_cast<std::size_t>(place.first)];
    families[family_of(task)].push_back(std::move(list));
  }
  std::vector<std::size_t> picked;
  for (const auto& [family, tasks] : families) {
    std::size_t left = per_family;
    for (std::size_t round = 0; left > 0; ++round) {
      const std::size_t before = left;
      for (std::size_t t = 0; t < tasks.size() && left > 0; ++t) {
        // From all parts of the list: what is near the best stands at its end.
        const std::vector<std::size_t>& list = tasks[t];
        if (round >= list.size()) continue;
        const std::size_t stride = list.size() % kStride == 0 ? 1 : kStride;  // reaches all of it
        picked.push_back(list[(round * stride + t) % list.size()]);
        --left;
      }
      if (left == before) break;
    }
  }
  std::sort(picked.begin(), picked.end());
  picked.erase(std::unique(picked.begin(), picked.end()), picked.end());
  Dataset out;
  out.machines = d.machines;
  std::map<std::int32_t, std::int32_t> numbers;
  for (const std::size_t i : picked) {
    const auto [at, added] =
        numbers.emplace(d.examples[i].task, static_cast<std::int32_t>(out.tasks.size()));
    if (added) out.tasks.push_back(d.tasks[static_cast<std::size_t>(d.examples[i].task)]);
    Example e = d.examples[i];
    e.task = at->second;
    out.examples.push_back(std::move(e));
  }
  return out;
}

std::string to_text(const ReplayMismatch& m, const std::string& folder) {
  return fmt::format(
      "task {} {} ({}) on {}\n  candidate {}\n  {}\n{}"
      "A record must lower to the program that was measured. If the change is meant, decide it: "
      "`tessera dataset replay {} --update`, and say in the commit what changed.\n",
      m.task, m.name, m.family, m.target, m.candidate,
      m.reason.empty() ? "lowers to another program" : "does not lower: " + m.reason, m.schedule,
      folder);
}

}  // namespace tessera::app
