// One operation from Dag and schedule to a function that can be called.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/codegen/codegen.h"
#include "tessera/kernel/kernel_cache.h"
#include "tessera/kernel/random_inputs.h"
#include "tessera/lower/lower.h"
#include "tessera/runtime/device/device.h"
#include "tessera/schedule/step.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"
#include "tessera/te/dag.h"

namespace tessera::kernel {

struct CompileOptions {
  lower::PassOptions passes;
  codegen::CodegenOptions codegen;
  // Where the code may be found: then `lowered` has nothing but the layouts, and `times` nothing.
  std::shared_ptr<const KernelCache> cache;
  runtime::Device* device = nullptr;  // that loads the code; null: this process
};

struct CompiledOp {
  te::Dag dag;
  lower::Lowered lowered;  // of GPUs: the layouts alone
  std::unique_ptr<runtime::LoadedCode> code;
  std::vector<lower::PassTime> times;  // every step from schedule to code, in order
  double total_ms = 0;                 // schedule text to loaded code
};

// Schedule text -> code of a device of this machine.
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
