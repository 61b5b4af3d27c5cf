// What `tessera tune` prints: progress, the summary for people, and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/app/bench/write_artifact.h"
#include "tessera/app/tune/after_tuning.h"
#include "tessera/support/json.h"

namespace tessera::cli {

// For programs: one line on stderr.
void print_progress_json(const app::TuneProgress& progress);
// A line of at most `width` characters: the time left, what was gained, then the rest.
std::string progress_text(const app::TuneProgress& progress, std::size_t width);

struct TuneSummary {
  app::TuneResult result;
  std::vector<app::PeerComparison> peers;
  std::string plan_path, unproved_path, artifact_path;  // empty: not written
  std::optional<app::ArtifactCheck> artifact_check;
  double peak_gflops = 0;  // of all threads; 0: unknown
  int threads = 1;
};

void print_summary(const TuneSummary& summary);
Json to_json(const TuneSummary& summary);

}  // namespace tessera::cli
