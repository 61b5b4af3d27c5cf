// Schedule -> loops of a processor or launches of a GPU, and what the caller must do with constant
// operands.
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/ir/launch.h"
#include "tessera/lang/ir/stmt.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/lower/pass_runner.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::lower {

struct Lowered {
  ir::Func func;              // for a processor: only serial and parallel loops
  ir::DeviceProgram program;  // for a GPU: launches with serial loops and flat buffers
  std::vector<schedule::Layout>
      param_layouts;  // per parameter; non-empty: pack the constant before the call
  std::vector<PassTime> times;
  std::string printed;  // what print_after asked for
};

// Applies the schedule to the Dag and lowers it for the kind of the target; launches are compared
// with the limits of the target. kIllegalSchedule names the step, the stage, the loop or the limit.
Result<Lowered> lower(const te::Dag& dag, const schedule::Schedule& schedule,
                      const target::Target& target, const PassOptions& options = {});
Result<Lowered> lower(const schedule::State& state, const target::Target& target,
                      const PassOptions& options = {});

// The names of the passes for a target in order, for --print-after and --skip.
std::vector<std::string> pass_names(const target::Target& target);

// Copies a tensor into the storage order of a layout, in parts that may run at the same time.
class Packer {
 public:
  Packer(const HostTensor& tensor, const schedule::Layout& layout);

  // Zeros, of which all but the padding of blocks are to be overwritten.
  HostTensor make() const { return HostTensor(tensor_.dtype(), shape_); }
  // Lines along the last dimension of the tensor.
  std::size_t rows() const { return rows_; }
  // Rows [begin, end) into what make() gave.
  void copy(std::size_t begin, std::size_t end, HostTensor& to) const;

 private:
  HostTensor tensor_;
  Shape shape_;
  std::size_t rows_ = 1;
  // Element `index` goes to the sum of terms_[d][index[d]], in bytes.
  std::vector<std::vector<std::size_t>> terms_;
};

// All of it; elements that pad a block are zero.
HostTensor pack(const HostTensor& tensor, const schedule::Layout& layout);

}  // namespace tessera::lower
