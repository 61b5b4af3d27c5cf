// Schedule -> device program: the passes for GPUs.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/launch.h"
#include "tessera/lower/pass_runner.h"
#include "tessera/schedule/step.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"

namespace tessera::lower {

struct LoweredDevice {
  ir::DeviceProgram program;  // only serial loops; flat buffers
  std::vector<schedule::Layout>
      param_layouts;  // per parameter; non-empty: pack the constant before the call
  std::vector<PassTime> times;
  std::string printed;  // what print_after asked for
};

// Applies the schedule to the Dag and lowers it to launches that the target can run: the one place
// where they are compared with its limits (check_limits). kIllegalSchedule names the step, the
// stage, the loop or the limit.
Result<LoweredDevice> lower_device(const te::Dag& dag, const schedule::Schedule& schedule,
                                   const target::Target& target, const PassOptions& options = {});
Result<LoweredDevice> lower_device(const schedule::State& state, const target::Target& target,
                                   const PassOptions& options = {});

// The same for a device without limits, to look at. With `stop_after`, the loops of the program are
// those after that pass.
Result<LoweredDevice> lower_device(const te::Dag& dag, const schedule::Schedule& schedule,
                                   const PassOptions& options = {});
Result<LoweredDevice> lower_device(const schedule::State& state, const PassOptions& options = {});

// The names of the passes in order.
std::vector<std::string> device_pass_names();

}  // namespace tessera::lower
