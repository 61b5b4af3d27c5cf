// Which tasks of a tuning find their constants in memory rather than in a cache.
#pragma once

#include <vector>

#include "tessera/app/tune/tune_problem.h"
#include "tessera/trials/record/record.h"

namespace tessera::app {

// By task. A model whose constants exceed the last cache has none of them there when it runs again:
// its kernels must be timed as they run in it. Operations of their own run again and again.
std::vector<bool> cold_tasks(const TuneProblem& problem, const target::Target& target);

// Records of times that were taken so, or whose outputs nobody compared, carry marks.
// `evicted_bytes`: of cold ones, as measure::MeasureOptions has it.
void mark_record(record::Record* record, bool cold, bool unchecked, std::int64_t evicted_bytes = 0,
                 double memory_s = 0);
bool was_cold(const record::Record& record);
std::int64_t evicted_bytes(const record::Record& record);  // 0: everything, or it was warm
bool was_unchecked(const record::Record& record);

}  // namespace tessera::app
