// Features of a schedule, computed from its loops without lowering it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/feature/stage_reads.h"
#include "tessera/scheduling/schedule/state.h"
#include "tessera/support/result.h"

namespace tessera::feature {

enum class FeatureKind : std::uint8_t {
  kStatement,  // one row a statement: Ansor's 164 with their defects mended, then the machine
  kLoop,       // one row a loop: AutoTVM's context vectors
  kCurve,      // one row: AutoTVM's relations between them
  kLaunch,     // of GPUs: kStatement, then the launch that a statement is in and the device
};

const char* to_text(FeatureKind kind);  // "statement", "loop", "curve", "launch"

// Names of the columns; equal length for every program. Values and names come from one table.
const std::vector<std::string>& feature_names(FeatureKind kind);
// 16 hex digits of the names and the version: stored in model files, compared on loading.
std::string schema_digest(FeatureKind kind);

// Extracts for one target, whose `cores` are the threads of the code, and keeps its working memory:
// much faster than extract() for many candidates. Not for use by two threads at once.
class Extractor {
 public:
  explicit Extractor(target::Target target);

  // The programs that follow are schedules of this Dag: what they share is computed once.
  void remember(const te::Dag& dag) { reads_.remember(dag); }

  // Appends the rows of the program to `out` (feature_names(kind).size() values each), statements
  // or loops in program order, inlined stages left out; at least one row. kIllegalSchedule when the
  // loops make no sense, with `out` as it was.
  Result<void> extract(const schedule::State& state, FeatureKind kind, std::vector<float>* out);
  // The rows of kLoop with the tree they form: `parents` gains, per row, the number among the rows
  // of this program of the loop right around it, or -1. A loop comes before those inside it.
  Result<void> extract_loops(const schedule::State& state, std::vector<float>* out,
                             std::vector<std::int16_t>* parents);

 private:
  target::Target target_;
  std::vector<float> machine_;  // columns that the rows of all programs share
  std::vector<std::byte> memory_;
  ReadsCache reads_;
};

// The same for a single program.
Result<void> extract(const schedule::State& state, const target::Target& target, FeatureKind kind,
                     std::vector<float>* out);

}  // namespace tessera::feature
