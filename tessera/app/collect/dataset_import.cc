#include "tessera/app/collect/dataset_import.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tessera/app/collect/measured_spill.h"
#include "tessera/app/tune/record_update.h"
#include "tessera/app/tune/tune_problem.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/support/model_name.h"
#include "tessera/support/quantile.h"
#include "tessera/trials/measure/measurement.h"
#include "tessera/trials/record/database.h"
#include "tessera/trials/record/json_lines.h"
#include "tessera/trials/record/log_file.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;
using dataset::Dataset;
using record::Record;

constexpr std::string_view kSqlite = "SQLite format 3";

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

// What a record of an export begins with.
constexpr std::string_view kRecordLine = R"({"kind":"record",)";

class Importer {
 public:
  Importer(const ImportOptions& options, dataset::DatasetWriter writer, MeasuredSpill spill)
      : options_(options), writer_(std::move(writer)), spill_(std::move(spill)) {}

  Result<ImportResult> run() {
    for (const std::string& path : options_.files) {
      say(fmt::format("reading {}", path));
      if (options_.apart) first_machine_ = out_.header.machines.size();
      TESSERA_DO(read(path));
    }
    TESSERA_DO(add_networks());
    say("writing");
    TESSERA_TRY(out_.duplicates, spill_.write(&writer_));
    out_.examples = writer_.examples();
    TESSERA_DO(writer_.finish(out_.header));
    return std::move(out_);
  }

 private:
  void say(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  Result<void> read(const std::string& path) {
    if (fs::is_directory(path)) return read_dataset(path);
    TESSERA_TRY(const bool database, is_database(path));
    if (database) return read_database(path);
    TESSERA_TRY(const record::LogFormat format, format_of(path));
    return format == record::LogFormat::kTessera ? read_export(path) : read_log(path);
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
    const Result<void> read =
        record::visit_lines(path, [&](std::string_view line, std::int64_t) -> Result<void> {
          format = record::detect_format(line);
          if (!format) return format.error();
          return make_error(ErrorCode::kInvalidArgument, "one line is enough");
        });
    if (!format && !read) return read.error();
    return format;
  }

  // Of the records of one file.
  class File {
   public:
    explicit File(Importer* importer) : importer_(importer) {}

    void add(const record::TaskRow& task) {
      const record::TaskRow row = update_.task(task);
      importer_->rows_.emplace(row.key, row);
    }

    void add_models(std::string_view names) {
      while (!names.empty()) {
        const std::size_t end = std::min(names.find(' '), names.size());
        const std::string_view name = names.substr(0, end);
        if (is_built_in(name)) importer_->models_.emplace(name);
        names.remove_prefix(std::min(end + 1, names.size()));
      }
    }

    // After all tasks.
    Result<void> add(Record r) {
      const bool in_place = importer_->options_.in_place;
      if (r.subject != importer_->subject()) return {};
      if (r.format == "ansor") r.target += hardware_of(r);
      update_.record(&r);
      if (in_place) {
        // The drift that is taken out is that of the default, which ran in turns with it.
        r.calibration_s = r.default_s;
        if (r.seconds > 0 && r.default_s <= 0) return importer_->drop();
      }
      const auto [machine, added] =
          machines_.try_emplace({r.target, r.threads, in_place ? r.task : std::string()});
      if (added) machine->second.reference = importer_->spill_.new_reference();
      if (r.calibration_s > 0) machine->second.calibrations.push_back(r.calibration_s);
      return importer_->take(r, machine->second.reference);
    }

    void finish() {
      for (auto& [name, machine] : machines_) {
        importer_->spill_.set_reference(machine.reference,
                                        upper_median(std::move(machine.calibrations)));
      }
    }

   private:
    struct Machine {
      std::uint32_t reference = 0;
      std::vector<double> calibrations;
    };
    Importer* importer_;
    RecordUpdate update_;
    // By target, threads and, in place, task.
    std::map<std::tuple<std::string, int, std::string>, Machine> machines_;
  };

  Result<void> read_database(const std::string& path) {
    TESSERA_TRY(const record::Database database, record::Database::open_read_only(path));
    File file(this);
    TESSERA_TRY(const std::vector<record::TaskRow> tasks, database.tasks());
    for (const record::TaskRow& t : tasks) file.add(t);
    TESSERA_TRY(const std::vector<record::SessionRow> sessions, database.sessions());
    for (const record::SessionRow& s : sessions) file.add_models(s.model);
    Result<void> added;
    TESSERA_DO(database.visit({.subject = subject()}, [&](const Record& r) {
      added = file.add(r);
      return added.ok();
    }));
    if (added) file.finish();
    return added;
  }

  // Twice: tasks may come after their records.
  Result<void> read_export(const std::string& path) {
    File file(this);
    TESSERA_DO(record::visit_lines(path, [&](std::string_view line, std::int64_t) -> Result<void> {
      if (line.starts_with(kRecordLine)) return {};
      TESSERA_TRY(const record::Row row, record::row_from_json_line(line));
      if (const auto* task = std::get_if<record::TaskRow>(&row)) file.add(*task);
      if (const auto* session = std::get_if<record::SessionRow>(&row)) {
        file.add_models(session->model);
      }
      return {};
    }));
    TESSERA_DO(record::visit_lines(path, [&](std::string_view line, std::int64_t) -> Result<void> {
      TESSERA_TRY(record::Row row, record::row_from_json_line(line));
      auto* r = std::get_if<Record>(&row);
      return r == nullptr ? Result<void>() : file.add(std::move(*r));
    }));
    file.finish();
    return {};
  }

  Result<void> read_dataset(const std::string& path) {
    TESSERA_TRY(const dataset::DatasetReader reader, dataset::DatasetReader::open(path));
    const Dataset& d = reader.header();
    for (const dataset::MachineInfo& m : d.machines)
      TESSERA_DO(check_subject(path, m.target.ends_with(kInPlaceMark)));
    for (const dataset::TaskInfo& t : d.tasks) {
      if (t.format == "tessera") rows_.emplace(t.key, row_of(t));
    }
    TESSERA_DO(reader.visit([&](dataset::Example& e) {
      const dataset::TaskInfo& t = d.tasks[static_cast<std::size_t>(e.task)];
      const dataset::MachineInfo& machine = d.machines[static_cast<std::size_t>(e.machine)];
      Record r;
      r.format = t.format;
      r.task = t.format == "tessera" ? t.key : t.definition;
      r.target = machine.target;
      r.threads = machine.threads;
      r.candidate = std::move(e.candidate);
      r.schedule = std::move(e.schedule);
      r.outcome = e.outcome;
      r.quiet = e.quiet;
      r.seconds = e.seconds;
      return take(r, MeasuredSpill::kNoReference);
    }));
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
    for (dataset::NetworkInfo& known : out_.header.networks) {
      if (known.name != network.name) continue;
      for (const auto& [key, count] : network.weights) {
        int& uses = known.weights[key];
        uses = std::max(uses, count);
      }
      return;
    }
    out_.header.networks.push_back(std::move(network));
  }

  Result<void> check_subject(const std::string& path, bool in_place) const {
    if (in_place == options_.in_place) return {};
    const auto what = [](bool placed) { return placed ? "in place" : "alone"; };
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: has times of kernels {}, which do not mix with those of kernels {}",
                      path, what(in_place), what(options_.in_place));
  }

  record::Subject subject() const {
    return options_.in_place ? record::Subject::kInPlace : record::Subject::kKernel;
  }

  Result<void> drop() {
    ++out_.read;
    ++out_.dropped;
    return {};
  }

  Result<void> read_log(const std::string& path) {
    TESSERA_DO(check_subject(path, false));
    std::string network = fs::path(path).filename().string();
    network = network.substr(0, network.find('.'));
    const std::string folder = fs::absolute(path).parent_path().filename().string();
    std::map<std::string, int> weights;
    const Result<record::ForeignLog> log =
        record::read_foreign_log(path, [&](Record& r) -> Result<void> {
          weights[dataset_key(r)] = 1;
          r.target += fmt::format(" folder={}{}", folder, hardware_of(r));
          return take(r, MeasuredSpill::kNoReference);
        });
    if (!log) return log.error();
    add_network({network, weights});
    return {};
  }

  static std::string dataset_key(const Record& r) {
    return r.format == "tessera" ? r.task : to_hex(hash_bytes(r.task));
  }

  Result<void> take(const Record& r, std::uint32_t reference) {
    ++out_.read;
    const bool own = r.format == "tessera";
    // Neither says anything about the candidate.
    const bool lost = r.outcome == measure::to_text(measure::Outcome::kWorkerLost) ||
                      r.outcome == measure::to_text(measure::Outcome::kCompilerBug);
    if (lost || (own && !rows_.contains(r.task))) {
      ++out_.dropped;
    } else if (own && r.schedule.empty()) {
      ++out_.without_steps;
    } else if (options_.quiet && !r.quiet) {
      ++out_.loud;
    } else {
      return spill_.add(task_number(r), machine_number(r), r, reference);
    }
    return {};
  }

  std::int32_t task_number(const Record& r) {
    const std::string key = dataset_key(r);
    Dataset& d = out_.header;
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
    std::vector<dataset::MachineInfo>& machines = out_.header.machines;
    const auto [used, added] = used_.emplace(r.target, "");
    if (added) {
      used->second = used_machine(r.target);
      if (options_.in_place && !used->second.ends_with(kInPlaceMark)) used->second += kInPlaceMark;
    }
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
    if (!target || target->threads == 0) return text;
    target->cores = std::exchange(target->threads, 0);
    return target::to_text(*target);
  }

  Result<void> add_networks() {
    std::vector<std::string> models = options_.networks;
    if (models.empty()) models.assign(models_.begin(), models_.end());
    const std::vector<CompileOptions> loads = loads_for(out_.header.machines);
    for (const std::string& model : models) {
      say(fmt::format("tasks of {}", model));
      TESSERA_TRY(dataset::NetworkInfo info, network_info(model, loads, &out_.header.tasks));
      add_network(std::move(info));
    }
    return {};
  }

  const ImportOptions& options_;
  dataset::DatasetWriter writer_;
  MeasuredSpill spill_;
  ImportResult out_;
  std::map<std::string, record::TaskRow> rows_;  // by key
  std::map<std::string, std::int32_t> task_numbers_;
  std::set<std::string> models_;
  std::size_t first_machine_ = 0;            // of those that this file may add records to
  std::map<std::string, std::string> used_;  // texts of targets as used_machine() has them
};

}  // namespace

Result<ImportResult> import_dataset(const ImportOptions& options, const std::string& folder) {
  TESSERA_TRY(dataset::DatasetWriter writer, dataset::DatasetWriter::create(folder));
  TESSERA_TRY(MeasuredSpill spill, MeasuredSpill::create(writer.staging()));
  return Importer(options, std::move(writer), std::move(spill)).run();
}

std::vector<CompileOptions> loads_for(const std::vector<dataset::MachineInfo>& machines) {
  std::vector<CompileOptions> out;
  bool processor = machines.empty();
  std::set<target::Kind> gpus;
  for (const dataset::MachineInfo& m : machines) {
    const Result<target::Target> target = target::target_from_text(m.target);
    if (!target || !target->is_gpu()) {
      processor = true;
    } else if (gpus.insert(target->kind).second) {
      for (const DType type : {DType::kF32, DType::kF16}) {
        CompileOptions load;
        load.target = *target;
        load.floats = type;
        out.push_back(std::move(load));
      }
    }
  }
  if (processor) out.insert(out.begin(), CompileOptions());
  return out;
}

Result<dataset::NetworkInfo> network_info(const std::string& model,
                                          const std::vector<CompileOptions>& loads,
                                          std::vector<dataset::TaskInfo>* tasks) {
  dataset::NetworkInfo info;
  info.name = without_zoo(model);
  std::set<std::string> known;
  for (const dataset::TaskInfo& t : *tasks) known.insert(t.key);
  for (const CompileOptions& load : loads) {
    TESSERA_TRY(const TuneProblem problem, make_tune_problem({{model, false, load}}, {}));
    std::map<std::string, int> weights;
    const auto add = [&](const std::vector<TaskUse>& uses) {
      for (const TaskUse& use : uses) weights[problem.tasks[use.task].task.key] += use.count;
    };
    add(problem.base);
    for (const TunePoint& point : problem.points) {
      add(point.preferred());
      // Not run, but of the network all the same: held out with it.
      for (const std::vector<TaskUse>& uses : point.uses) {
        for (const TaskUse& use : uses) weights[problem.tasks[use.task].task.key] += 0;
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
  const std::vector<CompileOptions> loads = loads_for(dataset->machines);
  for (dataset::NetworkInfo& network : dataset->networks) {
    if (progress) progress(fmt::format("tasks of {}", network.name));
    Result<dataset::NetworkInfo> info =
        network_info(with_zoo(network.name), loads, &dataset->tasks);
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

}  // namespace tessera::app
