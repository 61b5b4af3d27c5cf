// Times a whole model in turns with its peers in one interleaved run, after comparing the results.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/bench/bench_op.h"
#include "tessera/app/bench/breakdown.h"
#include "tessera/app/bench/model_inputs.h"
#include "tessera/app/compile/compile_options.h"
#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {

// The same model with another plan, or with none, timed in turns with it.
struct BesideModel {
  std::string name;
  std::optional<PlanSchedules> plan;
  bool as_written = false;  // no kernel is scheduled at all
};

struct ModelBenchOptions {
  int threads = 1;  // of the code
  std::vector<std::string> peers;
  CompileOptions compile;
  std::map<std::string, HostTensor> inputs;  // by name; others are random
  runtime::TimingOptions timing;
  std::vector<BesideModel> beside;  // reported as peers
  double warmup_s = 0;              // of calls of ours before the first that is timed
  bool profile = false;
};

struct StepTime {
  std::string name, origin, task;  // key of the task; empty: an operator of the host
  double us = 0, gflops = 0, gbytes_per_s = 0;
  int calls = 1;
};

struct ModelBenchResult {
  BenchResult bench;  // build_ms: passes, schedules and code; not reading the file
  double import_ms = 0;
  std::int64_t kernels = 0, cached_kernels = 0, steps = 0;
  std::int64_t arena_bytes = 0, live_bytes = 0, constant_bytes = 0;
  // Outputs whose every value is not a number: whatever they are compared with, it proves nothing.
  std::vector<std::string> not_numbers;
  // "ort 1.30", "every node alone", of GPUs "this machine's cores"; of models with narrow types
  // "the interpreter, kernel by kernel".
  std::string verified_by;
  double narrow_share = 0;     // of the products (app/compile/float_products.h)
  std::string faster_floats;   // likewise
  double error_of_floats = 0;  // with f32 computed in another type: range_error() against f32
  std::string wrong_node;      // of the first kernel that differs, where kernels were compared
  // Of quantised models, with the same code made in another way: what that is, and how much of it
  // is the same.
  std::string agrees_with;
  std::optional<OutputAgreement> agreement;
  std::vector<StepTime> profile;                       // in running order; medians of several runs
  std::vector<std::vector<StepTime>> beside_profiles;  // by options.beside, taken in turns
  std::vector<Breakdown>
      breakdown;  // as the profile; none where the rates of the machine are not known

  double kernels_us() const;  // the sum of the profile
};

// What a model computes by code of ours that is made in another way: for a GPU by the cores of this
// machine, else by every node alone, with nothing rewritten, fused or reordered. `device` runs it.
Result<std::vector<HostTensor>> outputs_otherwise(const onnx::Model& model,
                                                  const CompileOptions& options,
                                                  const std::vector<HostTensor>& inputs,
                                                  runtime::Device& device);

Result<ModelBenchResult> bench_model(const std::string& spec, const ModelBenchOptions& options);

}  // namespace tessera::app
