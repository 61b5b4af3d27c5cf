// One operation from Dag and schedule to a function that can be called.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/kernel/build_kernel.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/lang/te/dag.h"
#include "tessera/machine/runtime/device/device.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::kernel {

struct CompileOptions {
  BuildOptions build;
  std::shared_ptr<const KernelCache> cache;  // where the code may be found: then `times` is empty
  runtime::Device* device = nullptr;         // that loads the code; null: this process
};

struct CompiledOp {
  te::Dag dag;
  std::vector<schedule::Layout> param_layouts;
  std::unique_ptr<runtime::LoadedCode> code;
  BuildTimes times;
  double total_ms = 0;  // from the schedule to loaded code
};

// Code of a device of this machine, by the default schedule where none is given.
Result<CompiledOp> compile_op(const te::Dag& dag, const std::optional<schedule::Schedule>& schedule,
                              const target::Target& target, const CompileOptions& options = {});
// By the text of a schedule.
Result<CompiledOp> compile_op(const te::Dag& dag, const std::string& schedule_text,
                              const target::Target& target, const CompileOptions& options = {});

// A compiled operation with its buffers. Constant inputs are packed as the schedule asks.
class OpRunner {
 public:
  // `op` and `device`, which has loaded it, must outlive the runner.
  OpRunner(const CompiledOp& op, runtime::Device& device) : op_(op), device_(device) {}

  // Checks type and shape against the Dag.
  Result<void> set_input(std::size_t index, const HostTensor& tensor);
  Result<void> run();              // inputs that were not set are 0
  Result<double> time(int calls);  // seconds of so many, by the device's clock
  Result<HostTensor> output(std::size_t index);

 private:
  Result<void> allocate();

  const CompiledOp& op_;
  runtime::Device& device_;
  std::vector<runtime::DeviceBuffer> buffers_;
  std::vector<void*> params_;
};

}  // namespace tessera::kernel
