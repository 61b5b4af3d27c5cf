#include "tessera/app/study/paper_counts.h"

#include <filesystem>
#include <map>
#include <set>

#include "tessera/learn/dataset/dataset.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

// The datasets in the folder, itself among them, by their names below it.
Result<std::vector<std::pair<std::string, dataset::Dataset>>> datasets_below(
    const std::string& folder) {
  std::vector<std::pair<std::string, dataset::Dataset>> out;
  std::set<std::string> paths = {folder};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    paths.insert(entry.path().string());
  for (const std::string& path : paths) {
    if (!fs::exists(fs::path(path) / "dataset.json", error)) continue;
    TESSERA_TRY(dataset::Dataset data, dataset::load(path));
    out.emplace_back(path == folder ? "data" : fs::path(path).filename().string(), std::move(data));
  }
  if (!out.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument, "{}: no dataset", folder);
}

std::string machine_name(const dataset::MachineInfo& machine) {
  const auto target = target::target_from_text(machine.target);
  if (!target.ok()) return machine.target.substr(0, machine.target.find(' '));
  if (target->is_gpu()) return target->name;
  return fmt::format("{}, threads: {}", target->cpu, machine.threads);
}

}  // namespace

Result<StudyResult> dataset_counts(const StudyOptions& options) {
  TESSERA_TRY(const auto datasets, datasets_below(options.data));
  StudyResult out;
  out.data = fmt::format("{} datasets", datasets.size());
  out.measure = kCounts;
  out.columns = {"machines", "tasks", "records"};
  for (const auto& [name, data] : datasets) {
    std::set<std::string> machines;
    for (const dataset::MachineInfo& m : data.machines) {
      const auto target = target::target_from_text(m.target);
      machines.insert(!target.ok() || target->is_gpu() ? m.target : target->cpu);
    }
    out.rows.push_back(single_row(
        name, {static_cast<double>(machines.size()), static_cast<double>(data.tasks.size()),
               static_cast<double>(data.examples.size())}));
  }
  return out;
}

Result<StudyResult> machine_counts(const StudyOptions& options) {
  TESSERA_TRY(const auto datasets, datasets_below(options.data));
  std::map<std::string, std::size_t> records;
  for (const auto& [name, data] : datasets) {
    for (const dataset::Example& e : data.examples)
      ++records[machine_name(data.machines[static_cast<std::size_t>(e.machine)])];
  }
  StudyResult out;
  out.data = fmt::format("{} datasets", datasets.size());
  out.measure = kCounts;
  out.columns = {"records"};
  for (const auto& [name, count] : records)
    out.rows.push_back(single_row(name, {static_cast<double>(count)}));
  return out;
}

}  // namespace tessera::app
