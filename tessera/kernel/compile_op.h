// One operation from Dag and schedule to a function that can be called.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/codegen/codegen.h"
#include "tessera/kernel/kernel_cache.h"
#include "tessera/kernel/random_inputs.h"
#include "tessera/lower/lower.h"
#include "tessera/runtime/aligned_buffer.h"
#include "tessera/runtime/thread_pool.h"
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
};

struct CompiledOp {
  te::Dag dag;
  lower::Lowered lowered;
  std::unique_ptr<codegen::Kernel> kernel;
  std::vector<lower::PassTime> times;  // every step from schedule to code, in order
  double total_ms = 0;                 // schedule text to callable function
};

// Schedule text -> callable function on this machine.
Result<CompiledOp> compile_op(const te::Dag& dag, const std::string& schedule_text,
                              const target::Target& target, const CompileOptions& options = {});

// A compiled operation with its buffers. Constant inputs are packed as the schedule asks.
class OpRunner {
 public:
  // `op` and `pool` must outlive the runner.
  OpRunner(const CompiledOp& op, runtime::ThreadPool& pool);

  // Checks type and shape against the Dag.
  Result<void> set_input(std::size_t index, const HostTensor& tensor);
  void run();
  HostTensor output(std::size_t index) const;

 private:
  const CompiledOp& op_;
  runtime::ThreadPool& pool_;
  std::vector<runtime::AlignedBuffer> buffers_;
  std::vector<void*> params_;
  runtime::AlignedBuffer workspace_;
};

}  // namespace tessera::kernel
