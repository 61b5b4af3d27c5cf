// Studies of recorded plans: how a network that ships orders those of graphs that it was not
// trained on, and what that takes.
#pragma once

#include "tessera/app/study/paper_study.h"

namespace tessera::app {

Result<StudyResult> plan_counts(const StudyOptions& options);      // TpuGraphs, table 1
Result<StudyResult> plans_of_others(const StudyOptions& options);  // table 2
Result<StudyResult> plans_by_file(const StudyOptions& options);    // table 7
Result<StudyResult> scoring_times(const StudyOptions& options);    // table 10

}  // namespace tessera::app
