// Runs a compiled model on the device that has its code.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tessera/backend/exec/compile_model.h"
#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/machine/runtime/device/fetch_ahead.h"

namespace tessera::exec {

// Owns the arena and memory for inputs and outputs. Kernels between host operators are recorded
// once, so that a model without any is one recording. One run at a time.
class ModelRunner {
 public:
  // On the device of ModelOptions; one of this process runs what was compiled for it without any.
  // Both must outlive the runner.
  ModelRunner(const CompiledModel& model, runtime::Device& device);

  // What a run leaves in the output is in the input for the next run, without leaving the device.
  struct Carried {
    std::size_t output = 0, input = 0;
  };
  // Before inputs are set. The first run takes what set_input() gave; such outputs are not read by
  // output(). kInvalidArgument: their types differ; kUnsupported: an output that nothing computes.
  Result<void> carry(std::vector<Carried> pairs);

  // Before inputs are set: this input is the other runner's from now on, which is on the same
  // device and does not run at the same time. Where recordings are timed, it holds zeros then.
  // kInvalidArgument: their types differ; kUnsupported: one of the runners carries outputs.
  struct SharedInput {
    std::size_t own = 0, other = 0;
  };
  Result<void> share_inputs(const ModelRunner& with, const std::vector<SharedInput>& pairs);

  // Checks type and shape, naming the input. kRunFailed: the device has no memory for the model.
  Result<void> set_input(std::size_t index, const HostTensor& tensor);
  // What it holds now.
  Result<HostTensor> input(std::size_t index) const;
  // kRunFailed: a host operator refused its data, or the device failed. kInvalidArgument: an input
  // holds an index that is out of range; set_input() says so where memory is not this process's.
  // Indices that the model computes are refused in this process, too, and clamped elsewhere.
  Result<void> run();
  // Seconds of so many runs in a row, inputs and outputs on the device: by the device's clock, or,
  // with host operators, by this machine's.
  Result<double> time(int runs);
  HostTensor output(std::size_t index) const;
  // The memory of inputs and outputs themselves, for callers in this process that fill and read
  // them in place: as many bytes as the type has, valid as long as the runner.
  void* input_data(std::size_t index) { return inputs_.at(index)->get(); }
  const void* output_data(std::size_t index) const { return results_.at(index); }

  // Microseconds of each step: of one run, or, where launches are queued, each step repeated by
  // itself. The outputs are afterwards those of no run.
  Result<std::vector<double>> profile();
  // One step alone, on what those before it left in memory; all of them in a row are a run.
  Result<void> run_step(std::size_t step);
  // The memory of its parameters, for who calls other code in its place.
  std::span<void* const> memory(std::size_t step) const { return now_.memory.at(step); }
  // What memory parameter `param` of a step holds now, which is of that type. Constants are as the
  // kernel reads them.
  Result<HostTensor> parameter(std::size_t step, std::size_t param,
                               const graph::TensorType& type) const;
  // Seconds of so many calls of one kernel in a row, on what the runs before left in memory; the
  // outputs are afterwards those of no run. kInvalidArgument: a host operator.
  Result<double> time_step(std::size_t step, int calls);

 private:
  // Kernels in a row, or one host operator; before them, indices that the first kernel reads by are
  // checked where they are in this process.
  struct Part {
    std::unique_ptr<runtime::Recording> recording;
    std::size_t step = 0;  // the first one
  };
  // Steps with the memory they work on.
  struct Bound {
    std::vector<std::vector<void*>> memory;  // by step, as its params
    std::vector<Part> parts;
    std::vector<void*> copied;  // what each copy of the model is of
  };
  Result<void> set_up();
  Result<Bound> bind();
  Result<void> record_parts(Bound* bound);
  Result<std::unique_ptr<runtime::Recording>> record(std::vector<runtime::Call> calls);
  Result<std::unique_ptr<runtime::Recording>> fastest(
      std::vector<std::unique_ptr<runtime::Recording>> ways);
  std::vector<runtime::Piece> weights_of(const runtime::Call& call, std::size_t step) const;
  void swap_carried();
  Result<void*> address(const Storage& storage);
  Result<void> run_parts();
  Result<void> run_host(std::size_t step);
  bool is_checked(const CompiledModel::Step& step) const {
    return in_process_ && !step.indices.empty();
  }
  Result<void> check_input(std::size_t index, const void* data) const;
  Result<void> check_step(std::size_t step) const;

  const CompiledModel& model_;
  runtime::Device& device_;
  const bool in_process_;  // inputs are filled and outputs read in place
  Result<void> ready_;     // why there is no memory, or code that cannot be recorded
  using Memory = std::shared_ptr<const runtime::DeviceBuffer>;
  std::vector<Memory> inputs_, outputs_;  // inputs may be shared
  runtime::DeviceBuffer arena_;
  std::map<std::pair<std::int64_t, std::int64_t>, void*> places_;  // of the arena: offset, bytes
  Bound now_, next_;  // next: of the run behind the next one, where something is carried
  std::vector<Carried> carried_;
  std::vector<HostTensor> downloads_;
  std::vector<void*> results_;  // outputs as this process reads them
};

// One call: inputs in the model's order.
Result<std::vector<HostTensor>> run_model(const CompiledModel& model, runtime::Device& device,
                                          const std::vector<HostTensor>& inputs);

}  // namespace tessera::exec
