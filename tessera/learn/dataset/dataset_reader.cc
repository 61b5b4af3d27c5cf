// The files of a dataset, read shard by shard.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/learn/dataset/gzip.h"
#include "tessera/learn/dataset/layout.h"
#include "tessera/learn/dataset/text_column.h"
#include "tessera/support/files.h"

namespace tessera::dataset {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A line of a damaged or hostile file must not take all memory.
constexpr std::size_t kMostBytes = std::size_t{4} << 30;

Error io_error(const std::string& path, const std::string& what) {
  return make_error(ErrorCode::kIo, "{}: {}", path, what);
}

Result<Json> read_manifest(const std::string& folder) {
  const std::string path = (fs::path(folder) / kManifest).string();
  TESSERA_TRY(const std::string text, read_file(path));
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    return io_error(path, "is not the manifest of a dataset");
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

Example example_of(const Json& line) {
  Example e;
  e.task = line.at("task").get<std::int32_t>();
  e.machine = line.at("machine").get<std::int32_t>();
  e.seconds = line.at("seconds").get<float>();
  e.outcome = line.at("outcome").get<std::string>();
  e.quiet = line.value("quiet", false);
  e.candidate = line.value("candidate", "");  // of version 1
  return e;
}

// Those of the examples.
Result<void> take_schedules(const std::string& bytes, std::vector<Example>* examples) {
  TESSERA_TRY(std::vector<std::string> texts, unpack_texts(bytes, kMostBytes));
  if (texts.size() != examples->size()) {
    return make_error(ErrorCode::kIo, "{} schedules of {} records", texts.size(), examples->size());
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Example& e = (*examples)[i];
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

Result<void> check_header(const Dataset& d, const std::string& folder) {
  for (const MachineInfo& m : d.machines) {
    if (m.threads < 1) return io_error(folder, "a machine without threads");
  }
  for (const NetworkInfo& n : d.networks) {
    for (const auto& [key, weight] : n.weights) {
      if (weight < 0) return io_error(folder, "a network with a negative weight: " + n.name);
    }
  }
  return {};
}

// Whatever the files say, indices, ranges and order hold for the examples that came through.
class ExampleCheck {
 public:
  ExampleCheck(const Dataset& header, const std::string& folder)
      : d_(header), folder_(folder), ended_(header.tasks.size()) {}

  Result<void> operator()(const Example& e) {
    const bool task = e.task >= 0 && static_cast<std::size_t>(e.task) < d_.tasks.size();
    const bool machine = e.machine >= 0 && static_cast<std::size_t>(e.machine) < d_.machines.size();
    if (!task || !machine) return io_error(folder_, "a record of a task or machine it has not");
    if (!(e.seconds >= 0) || !std::isfinite(e.seconds)) {
      return io_error(folder_, "a record with a time that is negative or no number");
    }
    if (e.task == last_) return {};
    if (last_ >= 0) ended_[static_cast<std::size_t>(last_)] = true;
    if (ended_[static_cast<std::size_t>(e.task)]) {
      return io_error(folder_, "records of a task are not together");
    }
    last_ = e.task;
    return {};
  }

 private:
  const Dataset& d_;
  const std::string& folder_;
  std::vector<bool> ended_;  // by task
  std::int32_t last_ = -1;
};

}  // namespace

struct DatasetReader::Impl {
  Result<void> read_header() {
    TESSERA_TRY(const Json manifest, read_manifest(folder));
    try {
      take_manifest(manifest, &header);
      with_schedules = manifest.at("version").get<int>() > 1;
      for (const Json& entry : manifest.at("files")) {
        FileCheck file = file_of(entry);
        if (file.name != kTasks) {
          files.push_back(std::move(file));
          continue;
        }
        TESSERA_TRY(const std::string text, read_checked(folder, file));
        visit_lines(text, [&](const Json& line) { take_task(line, &header); });
      }
    } catch (const Json::exception& e) {
      return io_error(folder, e.what());
    }
    return check_header(header, folder);
  }

  std::string folder;
  Dataset header;
  std::vector<FileCheck> files;  // of examples and their schedules
  bool with_schedules = true;
};

DatasetReader::DatasetReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DatasetReader::DatasetReader(DatasetReader&&) noexcept = default;
DatasetReader::~DatasetReader() = default;

const Dataset& DatasetReader::header() const { return impl_->header; }

Result<DatasetReader> DatasetReader::open(const std::string& folder) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  TESSERA_DO(impl->read_header());
  return DatasetReader(std::move(impl));
}

Result<void> DatasetReader::visit(const std::function<Result<void>(Example&)>& visit) const {
  ExampleCheck check(impl_->header, impl_->folder);
  std::vector<Example> examples;  // whose schedules come next
  const auto pass = [&]() -> Result<void> {
    for (Example& e : examples) {
      TESSERA_DO(check(e));
      TESSERA_DO(visit(e));
    }
    examples.clear();
    return {};
  };
  for (const FileCheck& file : impl_->files) {
    TESSERA_TRY(const std::string text, read_checked(impl_->folder, file));
    const bool schedules = file.name.starts_with(kSchedules);
    if (schedules) {
      const Result<void> taken = take_schedules(text, &examples);
      if (!taken) return taken.error().with_context((fs::path(impl_->folder) / file.name).string());
    } else {
      try {
        visit_lines(text, [&](const Json& line) { examples.push_back(example_of(line)); });
      } catch (const Json::exception& e) {
        return io_error(impl_->folder, e.what());
      }
    }
    if (schedules || !impl_->with_schedules) TESSERA_DO(pass());
  }
  return pass();
}

Result<Dataset> load(const std::string& folder) {
  TESSERA_TRY(const DatasetReader reader, DatasetReader::open(folder));
  Dataset d = reader.header();
  TESSERA_DO(reader.visit([&](Example& e) -> Result<void> {
    d.examples.push_back(std::move(e));
    return {};
  }));
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
