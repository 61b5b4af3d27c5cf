#include "tessera/driver/learn/dataset_import.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "tessera/driver/tune/record_update.h"
#include "tessera/driver/tune/tune_problem.h"
#include "tessera/measure/measurement.h"
#include "tessera/record/database.h"
#include "tessera/record/json_lines.h"
#include "tessera/record/log_file.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/target/target.h"

namespace tessera::driver {
namespace {

namespace fs = std::filesystem;
using dataset::Dataset;
using record::Record;

constexpr std::string_view kSqlite = "SQLite format 3";
constexpr std::string_view kZoo = "zoo:";

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a file adds before drift is corrected.
struct FileRecords {
  std::vector<record::TaskRow> tasks;
  std::vector<Record> records;
  std::vector<std::string> models;  // that its sessions name
};

// "hw=24,64,64,..." of an Ansor record, from the rest of its task.
std::string hardware_of(const Record& r) {
  const std::size_t begin = r.extra.find("\"task\":[[");
  if (begin == std::string::npos) return "";
  const std::size_t list = begin + std::string_view("\"task\":[[").size();
  const std::size_t end = r.extra.find(']', list);
  if (end == std::string::npos) return "";
  return " hw=" + r.extra.substr(list, end - list);
}

// "conv2d_layer" or the digest of the computation: the first quoted word of a workload key.
std::string workload_name(const std::string& key) {
  const std::size_t begin = key.find('"');
  if (begin == std::string::npos) return key.substr(0, 64);
  return key.substr(begin + 1, std::min(key.find('"', begin + 1) - begin - 1, std::size_t{64}));
}

// Measurements of one schedule.
struct Measured {
  struct Times {
    std::vector<double> quiet_s, other_s;
    bool empty() const { return quiet_s.empty() && other_s.empty(); }
  };
  Times clean, censored;
  std::string candidate, schedule, failure;

  dataset::Example example() const {
    dataset::Example e;
    const Times& times = clean.empty() ? censored : clean;
    e.quiet = !times.quiet_s.empty();
    e.seconds = static_cast<float>(median(e.quiet ? times.quiet_s : times.other_s));
    e.outcome = !clean.empty() ? "ok" : !censored.empty() ? "censored" : failure;
    e.candidate = candidate;
    e.schedule = schedule;
    return e;
  }
};

class Importer {
 public:
  explicit Importer(const ImportOptions& options) : options_(options) {}

  Result<ImportResult> run() {
    for (const std::string& path : options_.files) {
      say(fmt::format("reading {}", path));
      if (options_.apart) first_machine_ = out_.dataset.machines.size();
      TESSERA_DO(read(path));
    }
    fill_examples();
    TESSERA_DO(add_networks());
    return std::move(out_);
  }

 private:
  void say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  Result<void> read(const std::string& path) {
    if (fs::is_directory(path)) return read_dataset(path);
    TESSERA_TRY(const bool database, is_database(path));
    FileRecords file;
    if (database) {
      TESSERA_DO(read_database(path, &file));
      return add(file);
    }
    const Result<record::LogFormat> format = format_of(path);
    if (!format) return format.error();
    if (*format == record::LogFormat::kTessera) {
      TESSERA_DO(read_export(path, &file));
      return add(file);
    }
    return read_log(path);
  }

  static Result<bool> is_database(const std::string& path) {
    FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) return make_error(ErrorCode::kUnavailable, "{}: cannot be read", path);
    char start[kSqlite.size()] = {};
    const std::size_t count = std::fread(start, 1, sizeof start, file);
    std::fclose(file);
    return std::string_view(start, count) == kSqlite;
  }

  static Result<record::LogFormat> format_of(const std::string& path) {
    Result<record::LogFormat> format =
        make_error(ErrorCode::kInvalidArgument, "{}: has no records", path);
    bool first = true;
    const Result<void> read =
        record::visit_lines(path, [&](std::string_view line, std::int64_t) -> Result<void> {
          if (!first) return {};
          first = false;
          format = record::detect_format(line);
          return format ? Result<void>() : Result<void>(format.error());
        });
    if (!read) return read.error();
    return format;
  }

  static Result<void> read_database(const std::string& path, FileRecords* out) {
    TESSERA_TRY(const record::Database database, record::Database::open_read_only(path));
    TESSERA_TRY(out->tasks, database.tasks());
    TESSERA_TRY(const std::vector<record::SessionRow> sessions, database.sessions());
    for (const record::SessionRow& s : sessions) add_models(s.model, out);
    return database.visit({}, [&](const Record& r) {
      out->records.push_back(slim(r));
      return true;
    });
  }

  static Result<void> read_export(const std::string& path, FileRecords* out) {
    return record::visit_lines(path, [&](std::string_view line, std::int64_t) -> Result<void> {
      TESSERA_TRY(record::Row row, record::row_from_json_line(line));
      if (auto* task = std::get_if<record::TaskRow>(&row)) out->tasks.push_back(std::move(*task));
      if (auto* session = std::get_if<record::SessionRow>(&row)) add_models(session->model, out);
      if (auto* r = std::get_if<Record>(&row)) out->records.push_back(slim(std::move(*r)));
      return {};
    });
  }

  Result<void> read_dataset(const std::string& path) {
    TESSERA_TRY(const Dataset d, dataset::load(path));
    for (const dataset::TaskInfo& t : d.tasks) {
      if (t.format == "tessera") rows_.emplace(t.key, row_of(t));
    }
    for (const dataset::Example& e : d.examples) {
      const dataset::TaskInfo& t = d.tasks[static_cast<std::size_t>(e.task)];
      const dataset::MachineInfo& machine = d.machines[static_cast<std::size_t>(e.machine)];
      Record r;
      r.format = t.format;
      r.task = t.format == "tessera" ? t.key : t.definition;
      r.target = machine.target;
      r.threads = machine.threads;
      r.candidate = e.candidate;
      r.schedule = e.schedule;
      r.outcome = e.outcome;
      r.quiet = e.quiet;
      take(r, e.seconds);
    }
    for (const dataset::NetworkInfo& network : d.networks) add_network(network);
    return {};
  }

  static record::TaskRow row_of(const dataset::TaskInfo& t) {
    record::TaskRow row;
    row.key = t.key;
    row.name = t.name;
    row.definition = t.definition;
    row.flops = t.flops;
    row.bytes = t.bytes;
    return row;
  }

  // Networks of one name are one: what either runs, it runs.
  void add_network(dataset::NetworkInfo network) {
    for (dataset::NetworkInfo& known : out_.dataset.networks) {
      if (known.name != network.name) continue;
      for (const auto& [key, count] : network.weights) {
        int& uses = known.weights[key];
        uses = std::max(uses, count);
      }
      return;
    }
    out_.dataset.networks.push_back(std::move(network));
  }

  // Without what a dataset has no use for: files of millions of records.
  static Record slim(Record r) {
    r.samples_s = {};
    r.reason.clear();
    if (r.format == "ansor") r.target += hardware_of(r);
    r.extra.clear();
    return r;
  }

  static void add_models(std::string_view names, FileRecords* out) {
    while (!names.empty()) {
      const std::size_t end = std::min(names.find(' '), names.size());
      const std::string_view name = names.substr(0, end);
      if (name.starts_with(kZoo)) out->models.emplace_back(name);
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }

  Result<void> read_log(const std::string& path) {
    std::string network = fs::path(path).filename().string();
    network = network.substr(0, network.find('.'));
    const std::string folder = fs::absolute(path).parent_path().filename().string();
    std::map<std::string, int> weights;
    const Result<record::ForeignLog> log =
        record::read_foreign_log(path, [&](Record& r) -> Result<void> {
          weights[dataset_key(r)] = 1;
          r.target += fmt::format(" folder={}{}", folder, hardware_of(r));
          take(r, r.seconds);
          return {};
        });
    if (!log) return log.error();
    add_network({network, weights});
    return {};
  }

  Result<void> add(FileRecords& file) {
    RecordUpdate update;
    for (const record::TaskRow& t : file.tasks) {
      const record::TaskRow row = update.task(t);
      rows_.emplace(row.key, row);
    }
    for (Record& r : file.records) update.record(&r);
    std::map<std::pair<std::string, int>, std::vector<double>> calibrations;
    for (const Record& r : file.records) {
      if (r.calibration_s > 0) calibrations[{r.target, r.threads}].push_back(r.calibration_s);
    }
    std::map<std::pair<std::string, int>, double> reference;
    for (auto& [machine, values] : calibrations) reference[machine] = median(std::move(values));
    for (const Record& r : file.records) {
      take(r, measure::without_drift(r.seconds, r.calibration_s, reference[{r.target, r.threads}]));
    }
    for (const std::string& model : file.models) models_.insert(model);
    return {};
  }

  static std::string dataset_key(const Record& r) {
    return r.format == "tessera" ? r.task : to_hex(hash_bytes(r.task));
  }

  void take(const Record& r, double seconds) {
    ++out_.read;
    const bool own = r.format == "tessera";
    // Neither says anything about the candidate.
    const bool lost = r.outcome == measure::to_text(measure::Outcome::kWorkerLost) ||
                      r.outcome == measure::to_text(measure::Outcome::kCompilerBug);
    if (lost || (own && !rows_.contains(r.task))) {
      ++out_.dropped;
      return;
    }
    if (own && r.schedule.empty()) {
      ++out_.without_steps;
      return;
    }
    if (options_.quiet && !r.quiet) {
      ++out_.loud;
      return;
    }
    const std::int32_t task = task_number(r);
    const std::int32_t machine = machine_number(r);
    Measured& m = measured_[{task, machine}].find(r, &out_.duplicates);
    measure::Outcome outcome = measure::Outcome::kRunError;
    const bool known = measure::outcome_from_text(r.outcome, &outcome);
    const bool timed = known && measure::is_timed(outcome) && seconds > 0;
    Measured::Times& times = outcome == measure::Outcome::kOk ? m.clean : m.censored;
    if (timed) (r.quiet ? times.quiet_s : times.other_s).push_back(seconds);
    if (!timed && m.failure.empty()) m.failure = r.outcome;
  }

  std::int32_t task_number(const Record& r) {
    const std::string key = dataset_key(r);
    Dataset& d = out_.dataset;
    const auto [at, added] = task_numbers_.emplace(key, static_cast<std::int32_t>(d.tasks.size()));
    if (!added) return at->second;
    dataset::TaskInfo t;
    t.key = key;
    t.format = r.format;
    if (r.format == "tessera") {
      const record::TaskRow& row = rows_.at(r.task);
      t.name = row.name;
      t.definition = row.definition;
      t.flops = row.flops;
      t.bytes = row.bytes;
    } else {
      t.name = workload_name(r.task);
      t.definition = r.task;
    }
    d.tasks.push_back(std::move(t));
    return at->second;
  }

  std::int32_t machine_number(const Record& r) {
    std::vector<dataset::MachineInfo>& machines = out_.dataset.machines;
    const auto [used, added] = used_.emplace(r.target, "");
    if (added) used->second = used_machine(r.target);
    const dataset::MachineInfo info{used->second, r.threads};
    const auto first = machines.begin() + static_cast<std::ptrdiff_t>(first_machine_);
    const auto at = std::find(first, machines.end(), info);
    if (at != machines.end()) return static_cast<std::int32_t>(at - machines.begin());
    machines.push_back(info);
    return static_cast<std::int32_t>(machines.size()) - 1;
  }

  // Cores that the code leaves idle make no other machine.
  static std::string used_machine(const std::string& text) {
    Result<target::Target> target = target::target_from_text(text);
    if (!target || target->is_gpu() || target->threads == 0) return text;
    target->cores = std::exchange(target->threads, 0);
    return target::to_text(*target);
  }

  void fill_examples() {
    for (const auto& [place, candidates] : measured_) {
      for (const Measured& m : candidates.measured) {
        dataset::Example e = m.example();
        e.task = place.first;
        e.machine = place.second;
        out_.dataset.examples.push_back(std::move(e));
      }
    }
    measured_.clear();
  }

  Result<void> add_networks() {
    std::vector<std::string> models = options_.networks;
    if (models.empty()) models.assign(models_.begin(), models_.end());
    const std::vector<LoadOptions> loads = loads_for(out_.dataset.machines);
    for (const std::string& model : models) {
      say(fmt::format("tasks of {}", model));
      TESSERA_TRY(dataset::NetworkInfo info, network_info(model, loads, &out_.dataset.tasks));
      add_network(std::move(info));
    }
    return {};
  }

  // Schedules in the order in which they came. Foreign records have their steps in the candidate.
  struct Candidates {
    std::vector<Measured> measured;
    std::unordered_map<std::string, std::size_t> numbers;

    Measured& find(const Record& r, std::size_t* duplicates) {
      const std::string& steps = r.schedule.empty() ? r.candidate : r.schedule;
      const auto [at, added] = numbers.emplace(steps, measured.size());
      if (added) {
        Measured& m = measured.emplace_back();
        m.candidate = r.candidate;
        m.schedule = r.schedule;
      } else {
        ++*duplicates;
      }
      return measured[at->second];
    }
  };

  const ImportOptions& options_;
  ImportResult out_;
  std::map<std::string, record::TaskRow> rows_;  // by key
  std::map<std::string, std::int32_t> task_numbers_;
  std::map<std::pair<std::int32_t, std::int32_t>, Candidates> measured_;  // task, machine
  std::set<std::string> models_;
  std::size_t first_machine_ = 0;            // of those that this file may add records to
  std::map<std::string, std::string> used_;  // texts of targets as used_machine() has them
};

}  // namespace

Result<ImportResult> import_dataset(const ImportOptions& options) {
  return Importer(options).run();
}

std::vector<LoadOptions> loads_for(const std::vector<dataset::MachineInfo>& machines) {
  std::vector<LoadOptions> out;
  bool processor = machines.empty();
  std::set<target::Kind> gpus;
  for (const dataset::MachineInfo& m : machines) {
    const Result<target::Target> target = target::target_from_text(m.target);
    if (!target || !target->is_gpu()) {
      processor = true;
    } else if (gpus.insert(target->kind).second) {
      for (const DType type : {DType::kF32, DType::kF16}) {
        LoadOptions load;
        load.passes = passes_for(*target);
        load.passes.floats = type;
        out.push_back(std::move(load));
      }
    }
  }
  if (processor) out.insert(out.begin(), LoadOptions());
  return out;
}

Result<dataset::NetworkInfo> network_info(const std::string& model,
                                          const std::vector<LoadOptions>& loads,
                                          std::vector<dataset::TaskInfo>* tasks) {
  dataset::NetworkInfo info;
  info.name = model.starts_with(kZoo) ? model.substr(kZoo.size()) : model;
  std::set<std::string> known;
  for (const dataset::TaskInfo& t : *tasks) known.insert(t.key);
  for (const LoadOptions& load : loads) {
    TESSERA_TRY(const TuneProblem problem, make_tune_problem({{model, false, load}}, {}));
    std::map<std::string, int> weights;
    const auto add = [&](const std::vector<TaskUse>& uses) {
      for (const TaskUse& use : uses) weights[problem.tasks[use.task].task.key] += use.count;
    };
    add(problem.base);
    for (const TuneChoice& choice : problem.choices) {
      add(choice.options[choice.preferred].uses);
      // Not run, but of the network all the same: held out with it.
      for (const TuneOption& option : choice.options) {
        for (const TaskUse& use : option.uses) weights[problem.tasks[use.task].task.key] += 0;
      }
    }
    // A task that is the same however it is loaded counts once.
    for (const auto& [key, count] : weights) {
      int& uses = info.weights[key];
      uses = std::max(uses, count);
    }
    for (const TuneTask& t : problem.tasks) {
      if (!known.insert(t.task.key).second) continue;
      tasks->push_back({t.task.key, t.task.name, "tessera", te::to_text(t.task.dag), t.task.flops,
                        t.task.bytes});
    }
  }
  return info;
}

void read_networks_again(dataset::Dataset* dataset,
                         const std::function<void(const std::string& what)>& progress) {
  const std::vector<LoadOptions> loads = loads_for(dataset->machines);
  for (dataset::NetworkInfo& network : dataset->networks) {
    if (progress) progress(fmt::format("tasks of {}", network.name));
    Result<dataset::NetworkInfo> info =
        network_info(std::string(kZoo) + network.name, loads, &dataset->tasks);
    if (info) network = std::move(*info);
  }
}

Result<std::vector<std::string>> read_names(const std::string& path) {
  TESSERA_TRY(const std::string text, read_file(path));
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    line = line.substr(0, line.find('#'));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos) {
      names.push_back(line.substr(first, line.find_last_not_of(" \t\r") + 1 - first));
    }
    at = end + 1;
  }
  return names;
}

}  // namespace tessera::driver
