// Studies of what datasets hold.
#pragma once

#include "tessera/app/study/paper_study.h"

namespace tessera::app {

Result<StudyResult> dataset_counts(const StudyOptions& options);  // TenSet, table 1
Result<StudyResult> machine_counts(const StudyOptions& options);  // TenSet, table 2

}  // namespace tessera::app
