// The files of a dataset: written in a folder beside, renamed when complete.
#include <filesystem>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/learn/dataset/gzip.h"
#include "tessera/learn/dataset/layout.h"
#include "tessera/learn/dataset/replace_folder.h"
#include "tessera/learn/dataset/text_column.h"
#include "tessera/support/files.h"

namespace tessera::dataset {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kPerFile = 50'000;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string lines_of(const std::vector<TaskInfo>& tasks) {
  std::string text;
  for (const TaskInfo& t : tasks) {
    text += dump({{"key", t.key},
                  {"name", t.name},
                  {"format", t.format},
                  {"definition", t.definition},
                  {"flops", t.flops},
                  {"bytes", t.bytes}}) +
            "\n";
  }
  return text;
}

}  // namespace

struct DatasetWriter::Impl {
  ~Impl() {
    std::error_code error;
    if (!staged.empty()) fs::remove_all(staged, error);
  }

  // Its entry of the manifest.
  Result<Json> write(const std::string& name, const std::string& text) const {
    const std::string bytes = gzip(text);
    TESSERA_DO(write_file((fs::path(staged) / name).string(), {bytes}));
    return Json{
        {"name", name}, {"bytes", bytes.size()}, {"crc32", fmt::format("{:08x}", crc32_of(bytes))}};
  }

  Result<void> flush() {
    if (schedules.empty()) return {};
    TESSERA_TRY(Json lines, write(fmt::format("records-{:03}.jsonl.gz", shards), records));
    records.clear();
    TESSERA_TRY(const std::string packed, pack_texts(schedules));
    schedules.clear();
    TESSERA_TRY(Json texts, write(fmt::format("{}{:03}.bin.gz", kSchedules, shards), packed));
    files.push_back(std::move(lines));
    files.push_back(std::move(texts));
    ++shards;
    return {};
  }

  std::string folder, staged;  // staged empty: nothing to remove
  Json files = Json::array();  // of the shards
  std::size_t shards = 0, examples = 0;
  std::string records;  // lines of the shard in the making
  std::vector<std::string> schedules;
};

DatasetWriter::DatasetWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;
DatasetWriter::~DatasetWriter() = default;

Result<DatasetWriter> DatasetWriter::create(const std::string& folder) {
  std::error_code error;
  const fs::path path = fs::path(folder).lexically_normal();
  const bool exists = fs::exists(path, error);
  if (exists && !fs::exists(path / kManifest, error) && !fs::is_empty(path, error)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: exists and is not a dataset", folder);
  }
  auto impl = std::make_unique<Impl>();
  impl->folder = path.has_filename() ? path.string() : path.parent_path().string();
  const std::string staged = fmt::format("{}.tmp.{}", impl->folder, ::getpid());
  fs::create_directories(staged, error);
  if (error) return make_error(ErrorCode::kIo, "{}: {}", staged, error.message());
  impl->staged = staged;
  return DatasetWriter(std::move(impl));
}

Result<void> DatasetWriter::add(const Example& e) {
  if (e.candidate.find(kBetween) != std::string::npos) {
    return make_error(ErrorCode::kInvalidArgument, "a candidate of several lines: {}", e.candidate);
  }
  // The shortest digits that read back to the same float.
  impl_->records +=
      fmt::format("{{\"task\":{},\"machine\":{},\"seconds\":{},\"outcome\":{}{}}}\n", e.task,
                  e.machine, e.seconds, dump(e.outcome), e.quiet ? ",\"quiet\":true" : "");
  impl_->schedules.push_back(e.candidate + kBetween + e.schedule);
  ++impl_->examples;
  return impl_->schedules.size() < kPerFile ? Result<void>() : impl_->flush();
}

Result<void> DatasetWriter::finish(const Dataset& header) {
  TESSERA_DO(impl_->flush());
  TESSERA_TRY(Json tasks, impl_->write(kTasks, lines_of(header.tasks)));
  impl_->files.insert(impl_->files.begin(), std::move(tasks));
  Json manifest = {
      {"format", kFormat},          {"version", kVersion},       {"tasks", header.tasks.size()},
      {"records", impl_->examples}, {"machines", Json::array()}, {"networks", Json::array()}};
  for (const MachineInfo& m : header.machines) {
    manifest["machines"].push_back({{"target", m.target}, {"threads", m.threads}});
  }
  for (const NetworkInfo& n : header.networks) {
    manifest["networks"].push_back({{"name", n.name}, {"weights", n.weights}});
  }
  manifest["files"] = std::move(impl_->files);
  TESSERA_DO(write_file((fs::path(impl_->staged) / kManifest).string(), {manifest.dump(1) + "\n"}));
  TESSERA_DO(replace_folder(impl_->staged, impl_->folder));
  impl_->staged.clear();
  return {};
}

std::size_t DatasetWriter::examples() const { return impl_->examples; }
const std::string& DatasetWriter::staging() const { return impl_->staged; }

Result<void> save(const Dataset& dataset, const std::string& folder) {
  TESSERA_TRY(DatasetWriter writer, DatasetWriter::create(folder));
  for (const Example& e : dataset.examples) TESSERA_DO(writer.add(e));
  return writer.finish(dataset);
}

}  // namespace tessera::dataset
