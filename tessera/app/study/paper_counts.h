// Studies that draw nothing: what datasets hold, and how a network that ships orders plans of
// graphs that it was not trained on.
#pragma once

#include "tessera/app/study/paper_study.h"

namespace tessera::app {

Result<StudyResult> dataset_counts(const StudyOptions& options);   // TenSet, table 1
Result<StudyResult> machine_counts(const StudyOptions& options);   // TenSet, table 2
Result<StudyResult> plan_counts(const StudyOptions& options);      // TpuGraphs, table 1
Result<StudyResult> plans_of_others(const StudyOptions& options);  // TpuGraphs, table 2

}  // namespace tessera::app
