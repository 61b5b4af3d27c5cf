// The files of a dataset: written in a folder beside, renamed when complete.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tessera/dataset/dataset.h"
#include "tessera/dataset/gzip.h"
#include "tessera/dataset/replace_folder.h"
#include "tessera/dataset/text_column.h"
#include "tessera/support/files.h"

namespace tessera::dataset {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kManifest = "dataset.json";
constexpr const char* kTasks = "tasks.jsonl.gz";
constexpr const char* kFormat = "tessera dataset";
constexpr int kVersion = 2;  // 1 had candidates in the lines of records, and no steps
constexpr std::string_view kSchedules = "schedules-";
constexpr char kBetween = '\n';  // of a candidate and its steps
constexpr std::size_t kPerFile = 50'000;
// A line of a damaged or hostile file must not take all memory.
constexpr std::size_t kMostBytes = std::size_t{4} << 30;

Error io_error(const std::string& path, const std::string& what) {
  return make_error(ErrorCode::kIo, "{}: {}", path, what);
}

Error io_error(const std::string& path, const std::error_code& code) {
  return io_error(path, code.message());
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Writer {
 public:
  explicit Writer(fs::path folder) : folder_(std::move(folder)) {}

  Result<void> write(const std::string& name, const std::string& text) {
    const std::string bytes = gzip(text);
    TESSERA_DO(write_file((folder_ / name).string(), {bytes}));
    files_.push_back({{"name", name},
                      {"bytes", bytes.size()},
                      {"crc32", fmt::format("{:08x}", crc32_of(bytes))}});
    return {};
  }

  Result<void> finish(Json manifest) {
    manifest["files"] = std::move(files_);
    return write_file((folder_ / kManifest).string(), {manifest.dump(1) + "\n"});
  }

 private:
  fs::path folder_;
  Json files_ = Json::array();
};

Result<void> write_all(const Dataset& d, Writer writer) {
  std::string text;
  for (const TaskInfo& t : d.tasks) {
    text += dump({{"key", t.key},
                  {"name", t.name},
                  {"format", t.format},
                  {"definition", t.definition},
                  {"flops", t.flops},
                  {"bytes", t.bytes}}) +
            "\n";
  }
  TESSERA_DO(writer.write(kTasks, text));
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < d.examples.size(); begin += kPerFile, ++number) {
    text.clear();
    std::vector<std::string> schedules;
    for (std::size_t i = begin; i < std::min(d.examples.size(), begin + kPerFile); ++i) {
      const Example& e = d.examples[i];
      // The shortest digits that read back to the same float.
      text +=
          fmt::format("{{\"task\":{},\"machine\":{},\"seconds\":{},\"outcome\":{}{}}}\n", e.task,
                      e.machine, e.seconds, dump(e.outcome), e.quiet ? ",\"quiet\":true" : "");
      if (e.candidate.find(kBetween) != std::string::npos) {
        return make_error(ErrorCode::kInvalidArgument, "a candidate of several lines: {}",
                          e.candidate);
      }
      schedules.push_back(e.candidate + kBetween + e.schedule);
    }
    TESSERA_DO(writer.write(fmt::format("records-{:03}.jsonl.gz", number), text));
    TESSERA_TRY(const std::string packed, pack_texts(schedules));
    TESSERA_DO(writer.write(fmt::format("{}{:03}.bin.gz", kSchedules, number), packed));
  }
  Json manifest = {{"format", kFormat},         {"version", kVersion},
                   {"tasks", d.tasks.size()},   {"records", d.examples.size()},
                   {"machines", Json::array()}, {"networks", Json::array()}};
  for (const MachineInfo& m : d.machines) {
    manifest["machines"].push_back({{"target", m.target}, {"threads", m.threads}});
  }
  for (const NetworkInfo& n : d.networks) {
    manifest["networks"].push_back({{"name", n.name}, {"weights", n.weights}});
  }
  return writer.finish(std::move(manifest));
}

Result<Json> read_manifest(const std::string& folder) {
  const std::string path = (fs::path(folder) / kManifest).string();
  TESSERA_TRY(const std::string text, read_file(path));
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    return io_error(path, "is no manifest of a dataset");
  }
  const Json version = json.value("version", Json());
  if (!version.is_number_integer() || version.get<int>() > kVersion) {
    return make_error(ErrorCode::kUnsupported, "{}: version {}, this program reads {}", path,
                      version.dump(), kVersion);
  }
  if (!json.value("files", Json()).is_array()) return io_error(path, "names no files");
  return json;
}

std::string problem_of(const std::string& bytes, const FileCheck& file) {
  if (bytes.size() != file.bytes) {
    return fmt::format("has {} bytes, the manifest says {}", bytes.size(), file.bytes);
  }
  const std::string crc = fmt::format("{:08x}", crc32_of(bytes));
  return crc == file.crc32 ? "" : fmt::format("checksum {} where {} is due", crc, file.crc32);
}

// Throws what nlohmann throws.
FileCheck file_of(const Json& entry) {
  FileCheck file;
  file.name = entry.at("name").get<std::string>();
  file.bytes = entry.at("bytes").get<std::uint64_t>();
  file.crc32 = entry.at("crc32").get<std::string>();
  return file;
}

// Names from a manifest must not lead out of its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

Result<std::string> read_checked(const std::string& folder, const FileCheck& file) {
  if (!is_plain_name(file.name)) return io_error(folder, "a file with the name " + file.name);
  const std::string path = (fs::path(folder) / file.name).string();
  TESSERA_TRY(const std::string bytes, read_file(path));
  if (const std::string problem = problem_of(bytes, file); !problem.empty()) {
    return io_error(path, problem);
  }
  Result<std::string> text = gunzip(bytes, kMostBytes);
  if (!text) return text.error().with_context(path);
  return text;
}

void visit_lines(std::string_view text, const std::function<void(const Json&)>& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(Json::parse(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void take_task(const Json& line, Dataset* d) {
  TaskInfo t;
  t.key = line.at("key").get<std::string>();
  t.name = line.at("name").get<std::string>();
  t.format = line.at("format").get<std::string>();
  t.definition = line.at("definition").get<std::string>();
  t.flops = line.at("flops").get<double>();
  t.bytes = line.at("bytes").get<double>();
  d->tasks.push_back(std::move(t));
}

void take_example(const Json& line, Dataset* d) {
  Example e;
  e.task = line.at("task").get<std::int32_t>();
  e.machine = line.at("machine").get<std::int32_t>();
  e.seconds = line.at("seconds").get<float>();
  e.outcome = line.at("outcome").get<std::string>();
  e.quiet = line.value("quiet", false);
  e.candidate = line.value("candidate", "");  // of version 1
  d->examples.push_back(std::move(e));
}

// Those of the records from `first` on.
Result<void> take_schedules(const std::string& bytes, std::size_t first, Dataset* d) {
  TESSERA_TRY(std::vector<std::string> texts, unpack_texts(bytes, kMostBytes));
  if (first + texts.size() != d->examples.size()) {
    return make_error(ErrorCode::kIo, "{} schedules of {} records", texts.size(),
                      d->examples.size() - first);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Example& e = d->examples[first + i];
    const std::size_t end = std::min(texts[i].find(kBetween), texts[i].size());
    e.candidate = texts[i].substr(0, end);
    e.schedule = texts[i].substr(std::min(end + 1, texts[i].size()));
  }
  return {};
}

void take_manifest(const Json& json, Dataset* d) {
  for (const Json& m : json.at("machines")) {
    d->machines.push_back({m.at("target").get<std::string>(), m.at("threads").get<int>()});
  }
  for (const Json& n : json.at("networks")) {
    d->networks.push_back(
        {n.at("name").get<std::string>(), n.at("weights").get<std::map<std::string, int>>()});
  }
}

// Whatever the files say, indices, ranges and order hold from here on.
Result<void> check(const Dataset& d, const std::string& folder) {
  for (const MachineInfo& m : d.machines) {
    if (m.threads < 1) return io_error(folder, "a machine without threads");
  }
  for (const NetworkInfo& n : d.networks) {
    for (const auto& [key, weight] : n.weights) {
      if (weight < 0) return io_error(folder, "a network with a negative weight: " + n.name);
    }
  }
  std::set<std::int32_t> ended;
  std::int32_t last = -1;
  for (const Example& e : d.examples) {
    const bool task = e.task >= 0 && static_cast<std::size_t>(e.task) < d.tasks.size();
    const bool machine = e.machine >= 0 && static_cast<std::size_t>(e.machine) < d.machines.size();
    if (!task || !machine) return io_error(folder, "a record of a task or machine it has not");
    if (!(e.seconds >= 0) || !std::isfinite(e.seconds)) {
      return io_error(folder, "a record with a time that is negative or no number");
    }
    if (e.task == last) continue;
    if (last >= 0) ended.insert(last);
    if (ended.contains(e.task)) return io_error(folder, "records of a task are not together");
    last = e.task;
  }
  return {};
}

}  // namespace

Result<void> save(const Dataset& dataset, const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::path(folder).lexically_normal();
  const bool exists = fs::exists(path, error);
  if (exists && !fs::exists(path / kManifest, error) && !fs::is_empty(path, error)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: exists and is no dataset", folder);
  }
  const std::string plain = path.has_filename() ? path.string() : path.parent_path().string();
  const fs::path staged = fmt::format("{}.tmp.{}", plain, ::getpid());
  fs::create_directories(staged, error);
  if (error) return io_error(staged.string(), error);
  Result<void> done = write_all(dataset, Writer(staged));
  if (done) done = replace_folder(staged, plain);
  if (!done) fs::remove_all(staged, error);
  return done;
}

Result<Dataset> load(const std::string& folder) {
  TESSERA_TRY(const Json manifest, read_manifest(folder));
  Dataset d;
  try {
    take_manifest(manifest, &d);
    std::size_t complete = 0;  // records with their schedules
    for (const Json& entry : manifest.at("files")) {
      const FileCheck file = file_of(entry);
      TESSERA_TRY(const std::string text, read_checked(folder, file));
      if (file.name.starts_with(kSchedules)) {
        const Result<void> taken = take_schedules(text, complete, &d);
        if (!taken) return taken.error().with_context((fs::path(folder) / file.name).string());
        complete = d.examples.size();
        continue;
      }
      const bool tasks = file.name == kTasks;
      visit_lines(text,
                  [&](const Json& line) { tasks ? take_task(line, &d) : take_example(line, &d); });
    }
  } catch (const Json::exception& e) {
    return io_error(folder, e.what());
  }
  TESSERA_DO(check(d, folder));
  return d;
}

Result<std::vector<FileCheck>> verify(const std::string& folder) {
  TESSERA_TRY(const Json manifest, read_manifest(folder));
  std::vector<FileCheck> out;
  try {
    for (const Json& entry : manifest.at("files")) out.push_back(file_of(entry));
  } catch (const Json::exception& e) {
    return io_error(folder, e.what());
  }
  for (FileCheck& file : out) {
    const Result<std::string> text = read_checked(folder, file);
    if (!text) file.problem = text.error().message;
  }
  return out;
}

}  // namespace tessera::dataset
