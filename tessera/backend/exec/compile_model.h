// A whole model: graph -> groups -> kernels -> something that runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/codegen/codegen.h"
#include "tessera/backend/exec/index_checks.h"
#include "tessera/backend/exec/memory_plan.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/frontend/graph/graph.h"
#include "tessera/frontend/task/task.h"
#include "tessera/machine/runtime/device/device.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/lower/lower.h"
#include "tessera/support/host_tensor.h"

namespace tessera::exec {

struct ModelOptions {
  codegen::CodegenOptions codegen;
  int build_threads = 0;                             // 0: one per core
  std::shared_ptr<const kernel::KernelCache> cache;  // of code; null: everything is built
  runtime::Device* device = nullptr;                 // that loads the code; null: this process
  // The schedule of a task; empty: space::default_schedule.
  std::function<Result<schedule::Schedule>(const task::Task&)> schedule;
  // Called as kernels finish, from the building threads, one at a time: progress on long work.
  std::function<void(std::size_t done, std::size_t total)> progress;
};

// Everything a run needs; holds no part of the graph but types, names and packed constants.
struct CompiledModel {
  struct Step {
    task::GroupKind kind = task::GroupKind::kKernel;
    std::size_t kernel = 0;  // index into kernels
    // Inputs, outputs and, of GPUs, temporaries; kConstant: index into constants.
    std::vector<Storage> params;
    std::size_t reads = 0;  // of params, the first ones; the others are written
    std::string name;       // operators of the group, for the profile
    std::string origin;     // the model's node
    double flops = 0, bytes = 0;
    // Host operators: what to call.
    const graph::OpDef* op = nullptr;
    graph::Attrs attrs;
    std::vector<graph::TensorType> input_types, output_types;
    std::vector<bool> omitted;  // by operand of the operator
    // Of kernels: what to look at before they run, with the parameter that holds it.
    std::vector<std::pair<std::size_t, ComputedIndices>> indices;
  };

  std::string name;
  target::Target target;
  std::vector<std::string> input_names, output_names;
  std::vector<graph::TensorType> input_types, output_types;
  std::vector<std::unique_ptr<runtime::LoadedCode>> kernels;
  std::vector<HostTensor> constants;  // as the kernels read them
  // The same on a device with memory of its own, all in one piece; empty: in this process.
  runtime::DeviceBuffer constant_memory;
  std::vector<void*> device_constants;
  // What constants[i] is: a value of the graph and the order it was packed in (empty: as it was).
  struct ConstantName {
    std::string value, layout;
  };
  std::vector<ConstantName> constant_names;
  std::vector<Step> steps;
  std::string launches = plan::kTimed;  // as task::TaskGraph has it
  struct Copy {
    Storage from;
    std::size_t output;
  };
  std::vector<Copy> copies;
  std::vector<IndexCheck> index_checks;  // before a run
  std::int64_t arena_bytes = 0, live_bytes = 0, constant_bytes = 0;
  std::int64_t cached_kernels = 0;  // that were not built but found
  double build_ms = 0;
  // Of the machine and all kernels (kernel::kernel_digest), 16 hexadecimal digits: the same for
  // every way to the same code, in an artifact too.
  std::string digest;
};

// kInvalidArgument when the inputs and outputs, or any one value, are larger than the memory of
// this machine: a size given by mistake must not end in the system's out-of-memory killer.
Result<void> check_memory(const graph::Graph& graph);

// `graph` is as the passes left it, `tasks` are its. kUnsupported when the target is neither this
// machine nor options.device, which must outlive the model; kRunFailed when that has too little
// memory.
Result<CompiledModel> compile_model(const graph::Graph& graph, const task::TaskGraph& tasks,
                                    const target::Target& target, const ModelOptions& options = {});
// With the tasks of the default partition.
Result<CompiledModel> compile_model(const graph::Graph& graph, const target::Target& target,
                                    const ModelOptions& options = {});

}  // namespace tessera::exec
