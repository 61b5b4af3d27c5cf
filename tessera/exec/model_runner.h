// Runs a compiled model on this machine.
#pragma once

#include <memory>
#include <vector>

#include "tessera/exec/compile_model.h"
#include "tessera/runtime/aligned_buffer.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera::exec {

// Owns the arena and memory for inputs and outputs. One run at a time.
class ModelRunner {
 public:
  // `model` and `pool` must outlive the runner.
  ModelRunner(const CompiledModel& model, runtime::ThreadPool& pool);

  // Checks type and shape, naming the input.
  Result<void> set_input(std::size_t index, const HostTensor& tensor);
  // kRunFailed: a host operator refused its data.
  Result<void> run();
  HostTensor output(std::size_t index) const;
  // The memory of inputs and outputs themselves, for callers that fill and read them in place: as
  // many bytes as the type has, valid as long as the runner.
  void* input_data(std::size_t index) { return inputs_.at(index).data(); }
  const void* output_data(std::size_t index) const { return outputs_.at(index).data(); }

  // Microseconds of each step in one run.
  Result<std::vector<double>> profile();

 private:
  struct Prepared {
    std::vector<void*> params;
  };
  void* address(const Storage& storage);
  Result<void> run_step(std::size_t index);
  Result<void> run_host(const CompiledModel::Step& step, const Prepared& prepared);

  const CompiledModel& model_;
  runtime::ThreadPool& pool_;
  std::vector<runtime::AlignedBuffer> inputs_, outputs_;
  runtime::AlignedBuffer arena_, workspace_;
  std::vector<Prepared> prepared_;  // by step
};

// One call: inputs in the model's order.
Result<std::vector<HostTensor>> run_model(const CompiledModel& model, runtime::ThreadPool& pool,
                                          const std::vector<HostTensor>& inputs);

}  // namespace tessera::exec
