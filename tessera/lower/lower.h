// Schedule -> loop program: the list of passes, and what the caller must do with constant operands.
#pragma once

#include <string>
#include <vector>

#include "tessera/ir/stmt.h"
#include "tessera/lower/pass_runner.h"
#include "tessera/schedule/step.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"

namespace tessera::lower {

struct Lowered {
  ir::Func func;  // only serial and parallel loops
  std::vector<schedule::Layout>
      param_layouts;  // per parameter; non-empty: pack the constant before the call
  std::vector<PassTime> times;
  std::string printed;  // what print_after asked for
};

// Applies the schedule to the Dag and lowers it. kIllegalSchedule names the step or the stage.
Result<Lowered> lower(const te::Dag& dag, const schedule::Schedule& schedule,
                      const target::Target& target, const PassOptions& options = {});
Result<Lowered> lower(const schedule::State& state, const target::Target& target,
                      const PassOptions& options = {});

// The names of the passes in order, for --print-after and --skip.
std::vector<std::string> pass_names();

// Copies `tensor` into the storage order of `layout`; elements that pad a block are zero.
HostTensor pack(const HostTensor& tensor, const schedule::Layout& layout);

}  // namespace tessera::lower
