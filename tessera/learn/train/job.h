// One training as its flags describe it, from a dataset's folder to files and numbers.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tessera/learn/dataset/features.h"
#include "tessera/learn/dataset/metrics.h"
#include "tessera/learn/train/args.h"
#include "tessera/learn/train/trainer.h"
#include "tessera/support/json.h"

namespace tessera::train {

// A long training must not end with a file that cannot be written. Empty: none is asked for.
Result<void> check_writable(const std::string& path);

// Datasets and features that several jobs read, loaded once.
class Library {
 public:
  Result<const dataset::Dataset*> dataset(const std::string& folder);
  Result<const dataset::FeatureStore*> features(const std::string& folder, feature::Rows kind,
                                                const std::string& cache, int threads);

 private:
  std::map<std::string, std::unique_ptr<dataset::Dataset>> datasets_;
  std::map<std::string, std::unique_ptr<dataset::FeatureStore>> stores_;
};

struct JobResult {
  Trained trained;
  double seconds = 0;
  dataset::Evaluation test;  // empty when stopped
};

// Trains, writes the files that are asked for and measures on the test part. No network is written
// when no epoch was better than what training began with. Progress goes to stderr. `flags` are
// resolved. `begun` is called before the first step: until then there is nothing that `stop` could
// keep.
Result<JobResult> run_job(const Flags& flags, Library& library, const std::atomic<bool>& stop,
                          const std::function<void()>& begun = {});

Json to_json(const Flags& flags, const JobResult& result);
std::string to_text(const JobResult& result);
// Why no network was written; empty where one was.
std::string unimproved_note(const Flags& flags, const Trained& trained);

}  // namespace tessera::train
