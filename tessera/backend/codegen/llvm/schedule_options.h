// Options of LLVM that are global to the process, and differ between targets.
#pragma once

namespace tessera::codegen {

// Those that are the same for all targets. Before a machine is made; once.
void set_common_options();

// Holds the options of a kind of target: others wait until nobody emits code of this one.
class ScheduleOptions {
 public:
  explicit ScheduleOptions(bool aarch64);
  ~ScheduleOptions();
  ScheduleOptions(const ScheduleOptions&) = delete;
  ScheduleOptions& operator=(const ScheduleOptions&) = delete;
};

}  // namespace tessera::codegen
