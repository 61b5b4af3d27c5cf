// What tuners and agents tell each other, as text (JSON). Whoever can write to the database can
// write it: all of it is read as input of a stranger, with limits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/trials/measure/measurer.h"

namespace tessera::fleet {

inline constexpr std::size_t kMostWorkBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMostBatchBytes = std::size_t{4} << 20;

// What the trials of a tuning need: the arguments of measure::start_local_measurer(). Of the
// options what a tuner may choose: no hooks, and workers are always confined.
struct Work {
  target::Target target;
  std::vector<measure::MeasuredTask> tasks;
  measure::MeasureOptions options;
};
std::string to_text(const Work& work);
// kInvalidArgument says what is wrong. Every task is verified; times and samples are cut to what an
// agent allows.
Result<Work> work_from_text(std::string_view text);

// One trial of the queue: candidates that one agent measures, more than one side by side.
struct Batch {
  std::vector<measure::Trial> trials;
};
std::string to_text(const Batch& batch);
// Ids are 0, 1 and so on. Schedules are read, not applied: workers do that.
Result<Batch> batch_from_text(std::string_view text);

// What came of it, in the order of the trials.
struct BatchResult {
  std::vector<measure::Measurement> measurements;
  measure::MachineState machine;
};
std::string to_text(const BatchResult& result);
Result<BatchResult> result_from_text(std::string_view text);

// Why nothing of it was measured: a result, too. Empty: `text` is none.
std::string refusal(const std::string& reason);
std::string reason_of_refusal(std::string_view text);

}  // namespace tessera::fleet
