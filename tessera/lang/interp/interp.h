// Slow reference execution: the definition of what te::Dag and ir::Func mean.
#pragma once

#include <vector>

#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/lang/te/dag.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::interp {

// Evaluates the Dag: one tensor per input, in order; returns one per output.
// kInvalidArgument when count, types or shapes of the inputs do not match; kRunFailed on an
// out-of-bounds read.
Result<std::vector<HostTensor>> run(const te::Dag& dag, const std::vector<HostTensor>& inputs);

// The values of output number `output` at the given row-major positions only: computes no more of
// the Dag than they need, so that samples of a large operation can be checked.
Result<std::vector<double>> run_points(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                                       std::size_t output, const std::vector<std::int64_t>& points);

// Executes a Func at any stage of lowering on params (inputs then outputs, as func.params); writes
// the outputs in place. Reports out-of-bounds accesses and reads of undefined temporaries as
// kRunFailed with buffer and index.
Result<void> run(const ir::Func& func, std::vector<HostTensor>& params);

// Runs the launches block by block, the threads of a block statement by statement. Besides the
// above, reports races between threads and between blocks, whatever the values, barriers that only
// some threads reach, exchanges with a thread that does not take part, and accesses to elements
// that an asynchronous copy may still change.
Result<void> run(const ir::DeviceProgram& program, std::vector<HostTensor>& params);

}  // namespace tessera::interp
