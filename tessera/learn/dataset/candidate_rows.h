// The numbers of one candidate as networks read them, the same in training and in search.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/scheduling/feature/extract.h"
#include "tessera/scheduling/feature/rows.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::dataset {

// Names of the columns of a row, and of the context of a task on a machine:
//   kStatement  context: the operator
//   kLoop       context: the operator, the machine
//   kStep       context: the operator, the machine, extents, foreign: bits of digests
const std::vector<std::string>& row_names(feature::Rows kind);
const std::vector<std::string>& context_names(feature::Rows kind);
// 16 hex digits of names and version, for NetworkFile and caches.
std::string row_schema(feature::Rows kind);
std::string context_schema(feature::Rows kind);

// Makes rows for code of `threads` threads on `target`: the machine columns show the threads as
// cores, whatever the machine has. Not for use by two threads at once.
class CandidateRows {
 public:
  CandidateRows(const target::Target& target, int threads, feature::Rows kind);

  // Appends the rows of the candidate and, for kLoop, their parents (else `parents` may be null).
  // Returns the number of rows, at least 1. Errors (the space has no such candidate, its steps do
  // not apply) leave both as they were.
  Result<std::size_t> append(const space::Space& space, const decide::Candidate& candidate,
                             std::vector<float>* rows, std::vector<std::int16_t>* parents);
  // The same for steps that are known already.
  Result<std::size_t> append(const te::Dag& dag, const schedule::Schedule& steps,
                             std::vector<float>* rows, std::vector<std::int16_t>* parents);
  // Appends context_names(kind).size() values.
  void append_context(const te::Dag& dag, std::vector<float>* out) const;

  std::size_t cut() const { return cut_; }  // steps left out so far: kStep of long schedules

 private:
  target::Target target_;  // with the threads as cores
  feature::Rows kind_;
  feature::Extractor extractor_;
  std::size_t cut_ = 0;
};

// The columns of kStep beyond operator and machine.
inline constexpr std::size_t kExtents = 24, kTaskBits = 16, kTargetBits = 8;

}  // namespace tessera::dataset
