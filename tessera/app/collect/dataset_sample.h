// The first step of making a dataset: which candidates, for whatever machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/app/collect/candidate_sampler.h"

namespace tessera::app {

struct SampledTask {
  std::string key, name;
  std::string definition;  // te::to_text
  double flops = 0, bytes = 0;
  std::size_t shard = 0;
};

// FOLDER/manifest.json: what was sampled. The shards are FOLDER/sample-NNNN.jsonl.
struct SampleManifest {
  std::string target;  // target::to_text
  int threads = 1;     // of the measured code
  std::uint64_t seed = 1;
  std::int64_t per_task = 0;
  double uniform_share = 0.5;
  std::size_t shards = 1;
  std::vector<std::string> subjects;
  std::vector<SampledTask> tasks;
};

struct SampledCandidate {
  std::string task;  // key
  std::int64_t trial = 0;
  std::string candidate;  // text of space::Space::to_text
  std::string schedule;   // its steps: what is built
};

struct SampleOptions {
  SampleScope scope;  // its `shards` is the number of files
  int threads = 1;
  std::int64_t per_task = 240;
  double uniform_share = 0.5;
  std::string folder;
};

struct SampleResult {
  std::size_t tasks = 0, skipped = 0;
  std::int64_t candidates = 0;
  std::size_t earlier = 0;  // shards that were there
};

// Writes the manifest, then shard after shard, each whole or not at all; the same call goes on
// where one was interrupted. kInvalidArgument where the folder holds another sample.
// `progress` gets tasks done and all; it returns false to stop.
Result<SampleResult> sample_dataset(const SampleOptions& options,
                                    const std::function<bool(std::size_t, std::size_t)>& progress);

Result<SampleManifest> read_manifest(const std::string& folder);
Result<std::vector<SampledCandidate>> read_sample(const std::string& folder, std::size_t shard);

// 16 hex digits of the manifest and a shard's candidates: a bundle of it carries them.
Result<std::string> sample_digest(const std::string& folder, std::size_t shard);

// FOLDER/bundle-NNNN.tsb
std::string bundle_path(const std::string& folder, std::size_t shard);

}  // namespace tessera::app
