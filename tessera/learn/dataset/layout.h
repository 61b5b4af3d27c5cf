// Names and numbers that the writer and the reader of a dataset's files share.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::dataset {

inline constexpr const char* kManifest = "dataset.json";
inline constexpr const char* kTasks = "tasks.jsonl.gz";
inline constexpr const char* kFormat = "tessera dataset";
inline constexpr int kVersion = 2;  // 1 had candidates in the lines of records, and no steps
inline constexpr std::string_view kSchedules = "schedules-";
inline constexpr char kBetween = '\n';  // of a candidate and its steps

}  // namespace tessera::dataset
