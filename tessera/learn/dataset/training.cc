#include "tessera/learn/dataset/training.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/ranges.h>

#include "tessera/lang/te/dag.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/kind.h"
#include "tessera/support/npz.h"
#include "tessera/support/split_commas.h"

namespace tessera::dataset {

std::vector<float> labels_of(std::span<const Timed> examples) {
  std::map<std::pair<std::int32_t, std::int32_t>, float> best;
  for (const Timed& e : examples) {
    if (!(e.seconds > 0)) continue;
    const auto at = best.emplace(std::pair(e.task, e.machine), e.seconds).first;
    at->second = std::min(at->second, e.seconds);
  }
  std::vector<float> out;
  for (const Timed& e : examples) {
    out.push_back(e.seconds > 0 ? best.at({e.task, e.machine}) / e.seconds : 0.f);
  }
  return out;
}

void keep_machine(const Dataset& data, const std::string& text, bool tested_too, Split* split) {
  for (std::size_t i = 0; i < split->part.size(); ++i) {
    const auto machine = static_cast<std::size_t>(data.examples[i].machine);
    if (data.machines[machine].target.find(text) != std::string::npos) continue;
    if (tested_too || split->part[i] != kTest) split->part[i] = kLeftOut;
  }
}

std::map<std::string, std::string> data_notes(const Dataset& data, const Split& split) {
  std::set<std::string> targets;
  for (std::size_t i = 0; i < split.part.size(); ++i) {
    if (split.part[i] != kTrain) continue;
    const auto& machine = data.machines[static_cast<std::size_t>(data.examples[i].machine)];
    targets.insert(fmt::format("{} threads={}", machine.target, machine.threads));
  }
  return {{"dataset", digest(data)}, {"targets", fmt::format("{}", fmt::join(targets, "; "))}};
}

std::set<std::string> keys_of(const Dataset& data, const Split& split, std::uint8_t part) {
  std::set<std::string> out;
  for (std::size_t i = 0; i < split.part.size(); ++i) {
    if (split.part[i] != part) continue;
    out.insert(data.tasks[static_cast<std::size_t>(data.examples[i].task)].key);
  }
  return out;
}

std::map<std::string, std::int64_t> kinds_of(const Dataset& data, const Split& split) {
  std::vector<Result<target::Target>> machines;
  for (const MachineInfo& m : data.machines) {
    machines.push_back(target::target_from_text(m.target));
  }
  std::map<std::string, std::int64_t> out;
  Result<te::Dag> dag = Error{};
  std::int32_t task = -1;  // whose it is: examples are grouped
  for (std::size_t i = 0; i < split.part.size(); ++i) {
    const Example& e = data.examples[i];
    if (split.part[i] != kTrain || !(e.seconds > 0)) continue;
    if (e.task != task) {
      const TaskInfo& info = data.tasks[static_cast<std::size_t>(e.task)];
      dag = te::dag_from_text(info.format == "tessera" ? info.definition : "");
      task = e.task;
    }
    const auto machine = static_cast<std::size_t>(e.machine);
    if (!dag.ok() || !machines[machine].ok()) continue;
    ++out[space::candidate_kind(*dag, *machines[machine], data.machines[machine].threads,
                                e.candidate)];
  }
  return out;
}

std::string to_note(const SplitOptions& options) {
  const auto word = [](bool b) { return b ? "yes" : "no"; };
  return fmt::format("by-reduction={},seed={},test={},validation={},quiet={},tasks={},per-task={}",
                     word(options.by_reduction), options.seed, options.test, options.validation,
                     word(options.quiet), options.most_tasks, options.most_per_task);
}

Result<void> read_note(const std::string& note, SplitOptions* options) {
  std::map<std::string, std::string> words;
  for (const std::string& part : split_commas(note)) {
    const std::size_t equals = std::min(part.find('='), part.size());
    words[part.substr(0, equals)] = part.substr(std::min(equals + 1, part.size()));
  }
  bool good = words.size() == 7;
  const auto number = [&](const char* name, auto* value) {
    const std::string& text = words[name];
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, *value);
    good = good && error == std::errc() && stop == end;
  };
  const auto flag = [&](const char* name, bool* value) {
    *value = words[name] == "yes";
    good = good && (*value || words[name] == "no");
  };
  flag("by-reduction", &options->by_reduction);
  number("seed", &options->seed);
  number("test", &options->test);
  number("validation", &options->validation);
  flag("quiet", &options->quiet);
  number("tasks", &options->most_tasks);
  number("per-task", &options->most_per_task);
  if (good) return {};
  return make_error(ErrorCode::kInvalidArgument, "'{}' does not say how a split was drawn", note);
}

Result<void> write_columns(const std::string& path, const Columns& columns) {
  NamedTensors tensors;
  for (const auto& [name, values] : columns) {
    HostTensor tensor(DType::kF32, {static_cast<std::int64_t>(values->size())});
    std::copy(values->begin(), values->end(), tensor.as<float>());
    tensors.push_back({name, std::move(tensor)});
  }
  return write_npz(path, tensors);
}

}  // namespace tessera::dataset
