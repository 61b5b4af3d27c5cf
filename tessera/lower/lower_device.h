// Schedule -> device program: the passes for GPUs.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/launch.h"
#include "tessera/lower/pass_runner.h"
#include "tessera/schedule/step.h"
#include "tessera/support/result.h"

namespace tessera::lower {

struct LoweredDevice {
  ir::DeviceProgram program;  // only serial loops; flat buffers
  std::vector<schedule::Layout>
      param_layouts;  // per parameter; non-empty: pack the constant before the call
  std::vector<PassTime> times;
  std::string printed;  // what print_after asked for
};

// Applies the schedule to the Dag and lowers it to launches. kIllegalSchedule names the step, the
// stage or the loop. With `stop_after`, the loops of the program are those after that pass.
Result<LoweredDevice> lower_device(const te::Dag& dag, const schedule::Schedule& schedule,
                                   const PassOptions& options = {});
Result<LoweredDevice> lower_device(const schedule::State& state, const PassOptions& options = {});

// The names of the passes in order.
std::vector<std::string> device_pass_names();

}  // namespace tessera::lower
