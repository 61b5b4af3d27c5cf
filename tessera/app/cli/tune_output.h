// What `tessera tune` prints: progress, the summary for people, and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/cli/artifact_check.h"
#include "tessera/app/tune/tune.h"

namespace tessera::cli {

// For programs: one line on stderr.
void print_progress_json(const app::TuneProgress& progress);
// A line of at most `width` characters: the time left, what was gained, then the rest.
std::string progress_text(const app::TuneProgress& progress, std::size_t width);

// A tuned model beside a peer, if it is installed.
struct PeerComparison {
  std::string subject, peer;
  double ours_s = 0, theirs_s = 0;
};

struct TuneSummary {
  app::TuneResult result;
  std::vector<PeerComparison> peers;
  std::string plan_path, unproved_path, artifact_path;  // empty: not written
  std::optional<ArtifactCheck> artifact_check;
  double peak_gflops = 0;  // of all threads; 0: unknown
  int threads = 1;
};

void print_summary(const TuneSummary& summary);
nlohmann::ordered_json to_json(const TuneSummary& summary);

}  // namespace tessera::cli
