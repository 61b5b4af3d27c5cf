#include "tessera/learn/dataset/store_writer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include <nlohmann/json.hpp>

#include "tessera/learn/dataset/ansor_rows.h"
#include "tessera/learn/dataset/autotvm_rows.h"
#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/learn/dataset/gzip.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/files.h"
#include "tessera/support/npz.h"
#include "tessera/support/parallel.h"

namespace tessera::dataset {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kPerShard = 2048;

template <class T>
HostTensor tensor_of(DType dtype, Shape shape, const std::vector<T>& values) {
  HostTensor out(dtype, std::move(shape));
  TESSERA_CHECK(out.bytes() == values.size() * sizeof(T), "a tensor of {} bytes from {} values",
                out.bytes(), values.size());
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.bytes());
  return out;
}

// Reads the candidates of one task on one machine.
class TaskReader {
 public:
  TaskReader(const TaskInfo& task, const MachineInfo& machine, feature::Rows kind)
      : task_(task), machine_(machine), kind_(kind) {
    if (task.format == "tessera") {
      open();
    } else if (!foreign() || kind != feature::Rows::kStep) {
      problem_ = make_error(ErrorCode::kUnsupported,
                            "task {}: records of \"{}\" have steps alone, no {} rows", task.key,
                            task.format, feature::to_text(kind));
    }
  }

  // Of the task, not of one candidate: the dataset cannot be read as these rows.
  const std::optional<Error>& problem() const { return problem_; }
  std::size_t cut() const { return cut_ + (rows_ ? rows_->cut() : 0); }

  void append_context(std::vector<float>* out) const {
    if (rows_) {
      rows_->append_context(*dag_, out);
    } else {
      append_ansor_context(task_, machine_, out);
    }
  }

  Result<std::size_t> append(const Example& e, std::vector<float>* rows,
                             std::vector<std::int16_t>* parents) {
    if (task_.format == "autotvm") return append_autotvm_rows(e.candidate, rows, &cut_);
    if (!rows_) return append_ansor_rows(e.candidate, rows, &cut_);
    if (e.schedule.empty()) return make_error(ErrorCode::kUnavailable, "a record without steps");
    TESSERA_TRY(const schedule::Schedule steps, schedule::schedule_from_text(e.schedule));
    return rows_->append(*dag_, steps, rows, parents);
  }

 private:
  bool foreign() const { return task_.format == "ansor" || task_.format == "autotvm"; }
  void open() {
    const Result<target::Target> target = target::target_from_text(machine_.target);
    if (!target) return fail(target.error());
    Result<te::Dag> dag = te::dag_from_text(task_.definition);
    if (!dag) return fail(dag.error());
    dag_.emplace(std::move(*dag));
    rows_.emplace(*target, machine_.threads, kind_);
  }
  void fail(const Error& error) {
    problem_ = error.with_context(fmt::format("task {} {}", task_.key, task_.name));
  }

  const TaskInfo& task_;
  const MachineInfo& machine_;
  feature::Rows kind_;
  std::optional<Error> problem_;
  std::optional<te::Dag> dag_;
  std::optional<CandidateRows> rows_;  // absent: of other compilers
  std::size_t cut_ = 0;
};

struct Shard {
  std::vector<float> rows, context;
  std::vector<std::int64_t> begin = {0};
  std::vector<std::int16_t> parents;
  std::vector<std::int32_t> pair;
  std::vector<std::uint8_t> readable;
  std::size_t unreadable = 0, cut = 0;
};

Result<Shard> read_shard(const Dataset& d, feature::Rows kind, std::size_t first,
                         std::size_t last) {
  const std::size_t columns = row_names(kind).size();
  Shard shard;
  std::unique_ptr<TaskReader> reader;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> pairs;
  std::pair<std::int32_t, std::int32_t> current = {-1, -1};
  for (std::size_t i = first; i < last; ++i) {
    const Example& e = d.examples[i];
    if (current != std::pair(e.task, e.machine)) {
      current = {e.task, e.machine};
      if (reader) shard.cut += reader->cut();
      reader = std::make_unique<TaskReader>(d.tasks[static_cast<std::size_t>(e.task)],
                                            d.machines[static_cast<std::size_t>(e.machine)], kind);
      if (reader->problem()) return *reader->problem();
      if (pairs.emplace(current, static_cast<std::int32_t>(pairs.size())).second) {
        reader->append_context(&shard.context);
      }
    }
    Result<std::size_t> added = reader->append(e, &shard.rows, &shard.parents);
    shard.readable.push_back(added.ok() ? 1 : 0);
    if (!added) {
      ++shard.unreadable;
      shard.rows.resize(shard.rows.size() + columns);
      if (kind == feature::Rows::kLoop) shard.parents.push_back(-1);
    }
    shard.begin.push_back(static_cast<std::int64_t>(shard.rows.size() / columns));
    shard.pair.push_back(pairs.at(current));
  }
  if (reader) shard.cut += reader->cut();
  return shard;
}

Result<ShardInfo> write_shard(const Shard& shard, feature::Rows kind, const std::string& folder,
                              std::size_t number, std::size_t first) {
  const auto rows = shard.begin.back();
  const auto n = static_cast<std::int64_t>(shard.pair.size());
  const auto columns = static_cast<std::int64_t>(row_names(kind).size());
  const auto context = static_cast<std::int64_t>(context_names(kind).size());
  const auto pairs = static_cast<std::int64_t>(shard.context.size()) / context;
  NamedTensors tensors;
  tensors.push_back({"rows", tensor_of(DType::kF32, {rows, columns}, shard.rows)});
  tensors.push_back({"begin", tensor_of(DType::kI64, {n + 1}, shard.begin)});
  tensors.push_back({"context", tensor_of(DType::kF32, {pairs, context}, shard.context)});
  tensors.push_back({"pair", tensor_of(DType::kI32, {n}, shard.pair)});
  tensors.push_back({"readable", tensor_of(DType::kU8, {n}, shard.readable)});
  if (kind == feature::Rows::kLoop) {
    tensors.push_back({"parents", tensor_of(DType::kI16, {rows}, shard.parents)});
  }
  ShardInfo info;
  info.file = fmt::format("{}-{:04}.npz", feature::to_text(kind), number);
  info.first = first;
  info.examples = static_cast<std::size_t>(n);
  info.rows = static_cast<std::size_t>(rows);
  const std::string path = (fs::path(folder) / info.file).string();
  TESSERA_DO(write_npz(path, tensors));
  TESSERA_TRY(const std::string bytes, read_file(path));
  info.bytes = bytes.size();
  info.crc32 = fmt::format("{:08x}", crc32_of(bytes));
  return info;
}

// Shards in any order by several threads; the first error ends the work of all.
class ShardWork {
 public:
  ShardWork(const Dataset& d, feature::Rows kind, const std::string& folder,
            const std::function<void(std::size_t, std::size_t)>& progress, StoreManifest* manifest)
      : d_(d), kind_(kind), folder_(folder), progress_(progress), manifest_(manifest) {
    manifest_->shards.resize((d.examples.size() + kPerShard - 1) / kPerShard);
  }

  Result<void> run(int threads) {
    return try_parallel_for(manifest_->shards.size(), threads,
                            [this](std::size_t number) { return add_shard(number); });
  }

 private:
  Result<void> add_shard(std::size_t number) {
    const std::size_t first = number * kPerShard;
    const std::size_t last = std::min(d_.examples.size(), first + kPerShard);
    TESSERA_TRY(const Shard shard, read_shard(d_, kind_, first, last));
    TESSERA_TRY(ShardInfo info, write_shard(shard, kind_, folder_, number, first));
    const std::lock_guard lock(mutex_);
    manifest_->shards[number] = std::move(info);
    manifest_->unreadable += shard.unreadable;
    manifest_->cut += shard.cut;
    done_ += last - first;
    if (progress_) progress_(done_, d_.examples.size());
    return {};
  }

  const Dataset& d_;
  feature::Rows kind_;
  const std::string& folder_;
  const std::function<void(std::size_t, std::size_t)>& progress_;
  StoreManifest* manifest_;
  std::mutex mutex_;
  std::size_t done_ = 0;
};

Json json_of(const StoreManifest& m) {
  Json json = {{"version", kVersion},        {"kind", m.kind},
               {"row_schema", m.row_schema}, {"context_schema", m.context_schema},
               {"dataset", m.dataset},       {"examples", m.examples},
               {"unreadable", m.unreadable}, {"cut", m.cut},
               {"shards", Json::array()}};
  for (const ShardInfo& s : m.shards) {
    json["shards"].push_back({{"file", s.file},
                              {"first", s.first},
                              {"examples", s.examples},
                              {"rows", s.rows},
                              {"bytes", s.bytes},
                              {"crc32", s.crc32}});
  }
  return json;
}

// Throws what nlohmann throws.
StoreManifest manifest_of(const Json& json) {
  StoreManifest m;
  m.kind = json.at("kind").get<std::string>();
  m.row_schema = json.at("row_schema").get<std::string>();
  m.context_schema = json.at("context_schema").get<std::string>();
  m.dataset = json.at("dataset").get<std::string>();
  m.examples = json.at("examples").get<std::size_t>();
  m.unreadable = json.at("unreadable").get<std::size_t>();
  m.cut = json.at("cut").get<std::size_t>();
  for (const Json& s : json.at("shards")) {
    m.shards.push_back({s.at("file").get<std::string>(), s.at("first").get<std::size_t>(),
                        s.at("examples").get<std::size_t>(), s.at("rows").get<std::size_t>(),
                        s.at("bytes").get<std::uint64_t>(), s.at("crc32").get<std::string>()});
  }
  return m;
}

}  // namespace

StoreManifest expected_manifest(const Dataset& dataset, feature::Rows kind) {
  StoreManifest m;
  m.kind = feature::to_text(kind);
  m.row_schema = row_schema(kind);
  m.context_schema = context_schema(kind);
  m.dataset = digest(dataset);
  m.examples = dataset.examples.size();
  return m;
}

std::string manifest_path(const std::string& folder, feature::Rows kind) {
  return (fs::path(folder) / fmt::format("{}.json", feature::to_text(kind))).string();
}

Result<StoreManifest> read_manifest(const std::string& folder, feature::Rows kind) {
  const std::string path = manifest_path(folder, kind);
  TESSERA_TRY(const std::string text, read_file(path));
  const Json json = Json::parse(text, nullptr, false);
  try {
    if (json.is_object() && json.at("version") == kVersion) return manifest_of(json);
  } catch (const Json::exception& e) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {}", path, e.what());
  }
  return make_error(ErrorCode::kInvalidArgument, "{}: of another version", path);
}

Result<StoreManifest> write_store(const Dataset& dataset, feature::Rows kind,
                                  const std::string& folder, int threads,
                                  const std::function<void(std::size_t, std::size_t)>& progress) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return make_error(ErrorCode::kIo, "{}: {}", folder, error.message());
  // Whatever stops the work leaves no manifest, and so no store.
  const std::string path = manifest_path(folder, kind);
  fs::remove(path, error);
  StoreManifest manifest = expected_manifest(dataset, kind);
  TESSERA_DO(ShardWork(dataset, kind, folder, progress, &manifest).run(threads));
  TESSERA_DO(write_file(path, {json_of(manifest).dump(1) + "\n"}));
  return manifest;
}

}  // namespace tessera::dataset
