// Times a whole model beside its peers in one interleaved run, after comparing the results.
#pragma once

#include <string>
#include <vector>

#include "tessera/driver/bench/bench_op.h"
#include "tessera/driver/compile/load_graph.h"
#include "tessera/exec/model_runner.h"
#include "tessera/support/tolerance.h"

namespace tessera::driver {

// The same model built in another way, e.g. with another plan, timed in turns with it.
struct BesideModel {
  std::string name;
  LoadOptions load;  // inputs are those of the model
  exec::ModelOptions model;
};

struct ModelBenchOptions {
  int threads = 1;
  std::vector<std::string> peers;
  LoadOptions load;
  exec::ModelOptions model;
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
  std::string verified_by;        // "ort 1.30", "every node alone", of GPUs "this machine's cores"
  std::vector<StepTime> profile;  // in running order; medians of several runs
  std::vector<std::vector<StepTime>> beside_profiles;  // by options.beside, taken in turns

  double kernels_us() const;  // the sum of the profile
};

// Inputs for a model: floats in [-1, 1), integers 0 or 1, masks all one, lengths the longest inner
// axis of another input.
std::vector<HostTensor> random_model_inputs(const std::vector<std::string>& names,
                                            const std::vector<graph::TensorType>& types,
                                            std::uint64_t seed);
// The same; indices are in the range of what they index.
std::vector<HostTensor> random_model_inputs(const exec::CompiledModel& model, std::uint64_t seed);

// What a model computes by code of ours that is made in another way: for a GPU by the cores of this
// machine, else by every node alone (in `pool`), with nothing rewritten, fused or reordered.
Result<std::vector<HostTensor>> outputs_otherwise(const onnx::Model& model,
                                                  const target::Target& target,
                                                  const LoadOptions& load,
                                                  const exec::ModelOptions& building,
                                                  const std::vector<HostTensor>& inputs,
                                                  runtime::ThreadPool* pool);

// Largest difference, relative to the range of `want` (at least 1e-6); infinite when shapes differ,
// when one is NaN where the other is not, and when all is NaN: that verifies nothing.
// Elements that differ by `none` at most do not.
double range_error(const HostTensor& got, const HostTensor& want, double none = 0);
// The largest over_tolerance(range_error) of the outputs of `graph`, each with the tolerance that
// its own ancestry gives it: above 1 is wrong.
double worst_output(const graph::Graph& graph, const std::vector<HostTensor>& got,
                    const std::vector<HostTensor>& want, Products products = Products::kExact);

// Whether there are outputs whose every value is not a number, on both sides alike, and all others
// agree: nothing is wrong, but nothing is proved either.
bool agree_but_for_no_numbers(const graph::Graph& graph, std::vector<HostTensor> got,
                              std::vector<HostTensor> want);

Result<ModelBenchResult> bench_model(const std::string& spec, const target::Target& target,
                                     const ModelBenchOptions& options);

}  // namespace tessera::driver
