#include "tessera/exec/model_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tessera/graph/op.h"
#include "tessera/runtime/first_touch.h"

namespace tessera::exec {
namespace {

std::size_t tensor_bytes(const graph::TensorType& type) {
  return static_cast<std::size_t>(elements(type.shape)) *
         static_cast<std::size_t>(size_bytes(type.dtype));
}

runtime::AlignedBuffer zeroed(std::size_t bytes, runtime::ThreadPool& pool) {
  runtime::AlignedBuffer buffer(std::max<std::size_t>(bytes, runtime::AlignedBuffer::kAlignment));
  runtime::first_touch(buffer, pool);
  return buffer;
}

}  // namespace

ModelRunner::ModelRunner(const CompiledModel& model, runtime::ThreadPool& pool)
    : model_(model), pool_(pool) {
  for (const auto& type : model.input_types) inputs_.push_back(zeroed(tensor_bytes(type), pool));
  for (const auto& type : model.output_types) outputs_.push_back(zeroed(tensor_bytes(type), pool));
  arena_ = zeroed(static_cast<std::size_t>(model.arena_bytes), pool);
  std::int64_t workspace = 0;
  for (const auto& kernel : model.kernels) {
    workspace = std::max(workspace, kernel->info.shared_bytes +
                                        kernel->info.worker_bytes * pool.host()->num_workers);
  }
  workspace_ = zeroed(static_cast<std::size_t>(workspace), pool);
  for (const CompiledModel::Step& step : model.steps) {
    Prepared p;
    for (const Storage& s : step.params) p.params.push_back(address(s));
    prepared_.push_back(std::move(p));
  }
}

void* ModelRunner::address(const Storage& storage) {
  switch (storage.place) {
    case Place::kNone:
      return nullptr;
    case Place::kInput:
      return inputs_[storage.index].data();
    case Place::kOutput:
      return outputs_[storage.index].data();
    case Place::kConstant:
      // Kernels only read constants; the ABI has one pointer type for all parameters.
      return const_cast<void*>(model_.constants[storage.index].data());
    case Place::kArena:
      return arena_.data() + storage.offset;
  }
  return nullptr;
}

Result<void> ModelRunner::set_input(std::size_t index, const HostTensor& tensor) {
  const graph::TensorType& type = model_.input_types.at(index);
  const graph::TensorType given{tensor.dtype(), tensor.shape()};
  if (!(given == type)) {
    return make_error(ErrorCode::kInvalidArgument, "input {} must be {}, not {}",
                      model_.input_names[index], to_text(type), to_text(given));
  }
  if (tensor.bytes() > 0) std::memcpy(inputs_[index].data(), tensor.data(), tensor.bytes());
  return {};
}

Result<void> ModelRunner::run_host(const CompiledModel::Step& step, const Prepared& prepared) {
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < step.input_types.size(); ++i) {
    HostTensor t(step.input_types[i].dtype, step.input_types[i].shape);
    if (t.bytes() > 0) std::memcpy(t.data(), prepared.params[i], t.bytes());
    tensors.push_back(std::move(t));
  }
  std::vector<const HostTensor*> args;
  std::size_t next = 0;
  for (const bool omitted : step.omitted) args.push_back(omitted ? nullptr : &tensors[next++]);
  auto results = graph::evaluate_node(*step.op, step.attrs, args);
  if (!results) return results.error().with_context(step.origin);
  for (std::size_t i = 0; i < step.output_types.size(); ++i) {
    void* to = prepared.params[step.input_types.size() + i];
    if (to && (*results)[i].bytes() > 0) {
      std::memcpy(to, (*results)[i].data(), (*results)[i].bytes());
    }
  }
  return {};
}

Result<void> ModelRunner::run_step(std::size_t index) {
  const CompiledModel::Step& step = model_.steps[index];
  if (step.kind == task::GroupKind::kHost) return run_host(step, prepared_[index]);
  const std::int32_t status = model_.kernels[step.kernel]->entry(prepared_[index].params.data(),
                                                                 workspace_.data(), pool_.host());
  if (status != 0) {
    return make_error(ErrorCode::kRunFailed, "{}: kernel {} returned {}", step.origin, step.name,
                      status);
  }
  return {};
}

Result<void> ModelRunner::run() {
  const runtime::ThreadPool::Session session(pool_);
  for (std::size_t i = 0; i < model_.steps.size(); ++i) TESSERA_DO(run_step(i));
  for (const CompiledModel::Copy& copy : model_.copies) {
    std::memcpy(outputs_[copy.output].data(), address(copy.from),
                tensor_bytes(model_.output_types[copy.output]));
  }
  return {};
}

Result<std::vector<double>> ModelRunner::profile() {
  const runtime::ThreadPool::Session session(pool_);
  std::vector<double> times;
  for (std::size_t i = 0; i < model_.steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    TESSERA_DO(run_step(i));
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  return times;
}

HostTensor ModelRunner::output(std::size_t index) const {
  const graph::TensorType& type = model_.output_types.at(index);
  HostTensor out(type.dtype, type.shape);
  if (out.bytes() > 0) std::memcpy(out.data(), outputs_[index].data(), out.bytes());
  return out;
}

Result<std::vector<HostTensor>> run_model(const CompiledModel& model, runtime::ThreadPool& pool,
                                          const std::vector<HostTensor>& inputs) {
  if (inputs.size() != model.input_types.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} inputs given, the model has {}",
                      inputs.size(), model.input_types.size());
  }
  ModelRunner runner(model, pool);
  for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
  TESSERA_DO(runner.run());
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < model.output_types.size(); ++i) outputs.push_back(runner.output(i));
  return outputs;
}

}  // namespace tessera::exec
