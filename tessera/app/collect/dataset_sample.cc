#include "tessera/app/collect/dataset_sample.h"

#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "tessera/support/files.h"
#include "tessera/support/hash.h"

namespace tessera::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "tessera-sample";
constexpr int kVersion = 3;
constexpr std::size_t kMostShards = 10000;

std::string manifest_path(const std::string& folder) { return folder + "/manifest.json"; }
std::string sample_path(const std::string& folder, std::size_t shard) {
  return fmt::format("{}/sample-{:04}.jsonl", folder, shard);
}

std::string to_json(const SampleManifest& m) {
  Json tasks = Json::array();
  for (const SampledTask& t : m.tasks) {
    tasks.push_back({{"key", t.key},
                     {"name", t.name},
                     {"flops", t.flops},
                     {"bytes", t.bytes},
                     {"shard", t.shard},
                     {"definition", t.definition}});
  }
  const Json json = {{"format", kFormat},          {"version", kVersion}, {"target", m.target},
                     {"threads", m.threads},       {"seed", m.seed},      {"per_task", m.per_task},
                     {"uniform", m.uniform_share}, {"shards", m.shards},  {"subjects", m.subjects},
                     {"tasks", std::move(tasks)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

SampleManifest manifest_from(const Json& json) {
  SampleManifest m;
  json.at("target").get_to(m.target);
  json.at("threads").get_to(m.threads);
  json.at("seed").get_to(m.seed);
  json.at("per_task").get_to(m.per_task);
  json.at("uniform").get_to(m.uniform_share);
  json.at("shards").get_to(m.shards);
  json.at("subjects").get_to(m.subjects);
  for (const Json& t : json.at("tasks")) {
    SampledTask task;
    t.at("key").get_to(task.key);
    t.at("name").get_to(task.name);
    t.at("definition").get_to(task.definition);
    t.at("flops").get_to(task.flops);
    t.at("bytes").get_to(task.bytes);
    t.at("shard").get_to(task.shard);
    m.tasks.push_back(std::move(task));
  }
  return m;
}

SampleManifest describe(const SampleOptions& options, const Samplers& samplers) {
  SampleManifest m;
  m.target = target::to_text(options.scope.target);
  m.threads = options.threads;
  m.seed = options.scope.seed;
  m.per_task = options.per_task;
  m.uniform_share = options.uniform_share;
  m.shards = options.scope.shards;
  for (const TuneSubject& s : options.scope.subjects) m.subjects.push_back(s.name);
  std::size_t number = 0;
  for (const auto& s : samplers.samplers) {
    const task::Task& t = s->task();
    m.tasks.push_back(
        {t.key, t.name, te::to_text(t.dag), t.flops, t.bytes, number++ % options.scope.shards});
  }
  return m;
}

// A manifest that is there must be the same.
Result<void> write_manifest(const std::string& folder, const SampleManifest& manifest) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = manifest_path(folder), text = to_json(manifest);
  if (!std::filesystem::exists(path, error)) return write_file(path, {text});
  TESSERA_TRY(const std::string earlier, read_file(path));
  if (earlier == text) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "{} is of another sample (other models, target, seed or numbers): take a new "
                    "folder",
                    path);
}

// Lines of one task. Candidates with one schedule are one.
Result<std::int64_t> draw_lines(CandidateSampler& sampler, const SampleOptions& options,
                                std::string* out) {
  std::set<std::string> schedules;
  while (std::ssize(schedules) < options.per_task && !sampler.exhausted()) {
    const std::int64_t left = options.per_task - std::ssize(schedules);
    for (const decide::Candidate& c : sampler.draw(left, options.uniform_share)) {
      TESSERA_TRY(const schedule::Schedule steps, sampler.space().schedule(c));
      const std::string text = schedule::to_text(steps);
      if (!schedules.insert(text).second || std::ssize(schedules) > options.per_task) continue;
      const Json line = {{"task", sampler.task().key},
                         {"trial", std::ssize(schedules) - 1},
                         {"candidate", sampler.space().to_text(c)},
                         {"schedule", text}};
      *out += line.dump() + "\n";
    }
  }
  return std::min<std::int64_t>(std::ssize(schedules), options.per_task);
}

}  // namespace

std::string bundle_path(const std::string& folder, std::size_t shard) {
  return fmt::format("{}/bundle-{:04}.tsb", folder, shard);
}

Result<SampleResult> sample_dataset(const SampleOptions& options,
                                    const std::function<bool(std::size_t, std::size_t)>& progress) {
  if (options.scope.shards < 1 || options.scope.shards > kMostShards) {
    return make_error(ErrorCode::kInvalidArgument, "{} shards: 1 to {}", options.scope.shards,
                      kMostShards);
  }
  TESSERA_DO(check_numbers(options.per_task, options.uniform_share, options.threads));
  SampleScope all = options.scope;
  all.shard = 0;
  all.shards = 1;
  TESSERA_TRY(const Samplers samplers, make_samplers(all));
  TESSERA_DO(write_manifest(options.folder, describe(options, samplers)));
  SampleResult result;
  result.tasks = samplers.samplers.size();
  result.skipped = samplers.skipped;
  std::size_t done = 0;
  for (std::size_t shard = 0; shard < options.scope.shards; ++shard) {
    const std::string path = sample_path(options.folder, shard);
    std::error_code error;
    if (std::filesystem::exists(path, error)) {
      ++result.earlier;
      continue;
    }
    std::string lines;
    for (std::size_t t = shard; t < samplers.samplers.size(); t += options.scope.shards) {
      if (progress && !progress(done++, result.tasks)) return result;
      TESSERA_TRY(const std::int64_t drawn, draw_lines(*samplers.samplers[t], options, &lines));
      result.candidates += drawn;
    }
    TESSERA_DO(write_file(path, {lines}));
  }
  return result;
}

Result<SampleManifest> read_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  TESSERA_TRY(const std::string text, read_file(path));
  const Json json = Json::parse(text, nullptr, false);
  try {
    if (json.at("format") != kFormat || json.at("version") != kVersion) {
      return make_error(ErrorCode::kInvalidArgument, "{}: of another format or version", path);
    }
    return manifest_from(json);
  } catch (const Json::exception& e) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {}", path, e.what());
  }
}

Result<std::string> sample_digest(const std::string& folder, std::size_t shard) {
  TESSERA_TRY(const std::string manifest, read_file(manifest_path(folder)));
  TESSERA_TRY(const std::string candidates, read_file(sample_path(folder, shard)));
  return to_hex(hash_bytes(candidates, hash_bytes(manifest)));
}

Result<std::vector<SampledCandidate>> read_sample(const std::string& folder, std::size_t shard) {
  const std::string path = sample_path(folder, shard);
  TESSERA_TRY(const std::string text, read_file(path));
  std::vector<SampledCandidate> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const Json json = Json::parse(text.substr(at, end - at), nullptr, false);
    try {
      SampledCandidate c;
      json.at("task").get_to(c.task);
      json.at("trial").get_to(c.trial);
      json.at("candidate").get_to(c.candidate);
      json.at("schedule").get_to(c.schedule);
      out.push_back(std::move(c));
    } catch (const Json::exception& e) {
      return make_error(ErrorCode::kInvalidArgument, "{}:{}: {}", path, out.size() + 1, e.what());
    }
    at = end + 1;
  }
  return out;
}

}  // namespace tessera::app
