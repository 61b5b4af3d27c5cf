// Everything that may be said about compiling a model; what graph passes, tasks and code follow
// from it is derived here.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/compile/plan_schedules.h"
#include "tessera/app/compile/shipped_model.h"
#include "tessera/backend/exec/compile_model.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/frontend/graph/passes/passes.h"
#include "tessera/frontend/onnx/import.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

struct CompileOptions {
  target::Target target = target::host();  // of the code, with its threads
  onnx::ImportOptions import;
  // QDQ models multiply bytes where a multiple of so many elements is summed (0: nowhere;
  // onnx/integer_products.h), unless f32 is computed in another type. Nothing: as the target needs.
  std::optional<std::int64_t> integer_products;
  bool optimize = true;  // false: the graph as import leaves it, but for widen_floats
  std::vector<std::string> skip_passes;
  DType floats = DType::kF32;  // as graph::PassOptions has it
  graph::Rounding rounding = graph::Rounding::kAsModel;
  bool fuse = true;  // false: every node its own kernel
  std::optional<PlanSchedules> plan;
  // Judges schedules that the plan lacks, nothing measured: files, kShipped or kNoModel. A shipped
  // one that cannot be read is noted and left out.
  std::string cost_model = kNoModel;
  // Proposes schedules to the cost model: a file, kShipped (where one ships) or kNoModel.
  std::string language = kNoModel;

  // What is compiled does not depend on the rest.
  int build_threads = 0;                             // 0: one per core
  std::shared_ptr<const kernel::KernelCache> cache;  // of code, and of whole models; null: none
  std::function<void(std::size_t done, std::size_t total)> progress;  // as exec::ModelOptions'
  std::function<void(const std::string&)> note;                       // one line for people
  // Asked once the graph is known, before schedules are judged: an error ends it there.
  std::function<Result<void>(const graph::Graph&)> accept;
};

// The passes of the graph, with the rules of the target and the decisions of the plan.
graph::PassOptions passes_for(const CompileOptions& options);
// Those of the target where the options leave them open.
std::int64_t integer_products_for(const CompileOptions& options);
// How kernels are built, with the schedules of the plan.
exec::ModelOptions build_options(const CompileOptions& options);

// Differs for options that may give different code: every member is in it, or known not to matter.
std::string compile_digest(const CompileOptions& options);

}  // namespace tessera::app
