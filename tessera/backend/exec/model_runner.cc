#include "tessera/backend/exec/model_runner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tessera/backend/exec/step_order.h"
#include "tessera/frontend/graph/op.h"
#include "tessera/support/clock.h"

namespace tessera::exec {
namespace {

// Of one kernel in its profile where launches are queued: a single one is timed by how fast it can
// be started.
constexpr int kRepeats = 20;

// Of constants that are worth fetching before the kernel that reads them.
constexpr std::size_t kLargeWeights = std::size_t{1} << 18;
// A kernel that calculates less for so many bytes does not read all of them: a table of words.
constexpr double kFlopBytes = 4;
// Another way to run a model has to gain so much; by the least time of a few rounds of replays.
constexpr double kTrialGain = 0.99;
constexpr int kTrialRounds = 3, kTrialReplays = 4;

std::size_t tensor_bytes(const graph::TensorType& type) {
  return static_cast<std::size_t>(elements(type.shape)) *
         static_cast<std::size_t>(size_bytes(type.dtype));
}

bool is_host(const CompiledModel::Step& step) { return step.kind == task::GroupKind::kHost; }

bool has_branches(const RunningOrder& order) {
  for (std::size_t i = 1; i < order.after().size(); ++i)
    if (!order.before(i - 1, i)) return true;
  return false;
}

}  // namespace

ModelRunner::ModelRunner(const CompiledModel& model, runtime::Device& device)
    : model_(model), device_(device), in_process_(device.features().in_process) {
  ready_ = set_up();
}

Result<void> ModelRunner::set_up() {
  const auto make = [&](const std::vector<graph::TensorType>& types,
                        std::vector<Memory>* to) -> Result<void> {
    for (const graph::TensorType& type : types) {
      TESSERA_TRY(runtime::DeviceBuffer buffer,
                  runtime::DeviceBuffer::make(device_, tensor_bytes(type)));
      to->push_back(std::make_shared<const runtime::DeviceBuffer>(std::move(buffer)));
    }
    return {};
  };
  TESSERA_DO(make(model_.input_types, &inputs_));
  TESSERA_DO(make(model_.output_types, &outputs_));
  TESSERA_TRY(arena_,
              runtime::DeviceBuffer::make(device_, static_cast<std::size_t>(model_.arena_bytes)));
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const graph::TensorType& type = model_.output_types[i];
    if (!in_process_) downloads_.emplace_back(type.dtype, type.shape);
    results_.push_back(in_process_ ? outputs_[i]->get() : downloads_[i].data());
  }
  TESSERA_TRY(now_, bind());
  return {};
}

// To the memory that inputs and outputs have now.
Result<ModelRunner::Bound> ModelRunner::bind() {
  Bound out;
  for (const CompiledModel::Step& step : model_.steps) {
    out.memory.emplace_back();
    for (const Storage& s : step.params) {
      TESSERA_TRY(void* place, address(s));
      out.memory.back().push_back(place);
    }
  }
  for (const CompiledModel::Copy& copy : model_.copies) {
    TESSERA_TRY(void* place, address(copy.from));
    out.copied.push_back(place);
  }
  TESSERA_DO(record_parts(&out));
  return out;
}

Result<void> ModelRunner::carry(std::vector<Carried> pairs) {
  if (!ready_.ok()) return ready_.error();
  for (const Carried& c : pairs) {
    const graph::TensorType &from = model_.output_types.at(c.output),
                            &to = model_.input_types.at(c.input);
    if (!(from == to)) {
      return make_error(ErrorCode::kInvalidArgument, "output {} is {}, input {} is {}",
                        model_.output_names[c.output], to_text(from), model_.input_names[c.input],
                        to_text(to));
    }
    if (std::any_of(model_.copies.begin(), model_.copies.end(),
                    [&](const CompiledModel::Copy& copy) { return copy.output == c.output; })) {
      return make_error(ErrorCode::kUnsupported, "output {} is a copy: it cannot be carried",
                        model_.output_names[c.output]);
    }
  }
  carried_ = std::move(pairs);
  // Both change places after every run.
  swap_carried();
  TESSERA_TRY(next_, bind());
  swap_carried();
  return {};
}

Result<void> ModelRunner::share_inputs(const ModelRunner& with,
                                       const std::vector<SharedInput>& pairs) {
  if (!ready_.ok()) return ready_.error();
  if (!with.ready_.ok()) return with.ready_.error();
  if (!carried_.empty() || !with.carried_.empty())
    return make_error(ErrorCode::kUnsupported, "inputs that outputs are carried to move");
  for (const SharedInput& pair : pairs) {
    const graph::TensorType &own = model_.input_types.at(pair.own),
                            &other = with.model_.input_types.at(pair.other);
    if (!(own == other)) {
      return make_error(ErrorCode::kInvalidArgument, "input {} is {}, input {} is {}",
                        model_.input_names[pair.own], to_text(own),
                        with.model_.input_names[pair.other], to_text(other));
    }
    inputs_[pair.own] = with.inputs_[pair.other];
  }
  TESSERA_TRY(now_, bind());
  return {};
}

void ModelRunner::swap_carried() {
  for (const Carried& c : carried_) std::swap(inputs_[c.input], outputs_[c.output]);
}

Result<void> ModelRunner::record_parts(Bound* bound) {
  std::vector<runtime::Call> calls;
  const auto end_recording = [&](std::size_t end) -> Result<void> {
    if (calls.empty()) return {};
    Part part{.recording = nullptr, .step = end - calls.size()};
    TESSERA_TRY(part.recording, record(std::exchange(calls, {})));
    bound->parts.push_back(std::move(part));
    return {};
  };
  for (std::size_t i = 0; i < model_.steps.size(); ++i) {
    const CompiledModel::Step& step = model_.steps[i];
    if (is_host(step) || is_checked(step)) TESSERA_DO(end_recording(i));
    if (is_host(step)) {
      bound->parts.push_back({.recording = nullptr, .step = i});
    } else {
      calls.push_back({model_.kernels[step.kernel].get(), bound->memory[i]});
    }
  }
  return end_recording(model_.steps.size());
}

// A whole model may be faster when steps that need not wait for each other run side by side, and
// one whose weights do not stay in the cache of its device when kernels fetch what others will
// read; or slower, where that is in the way. Its plan says which, or all ways are tried.
Result<std::unique_ptr<runtime::Recording>> ModelRunner::record(std::vector<runtime::Call> calls) {
  std::vector<std::unique_ptr<runtime::Recording>> ways(1);
  TESSERA_TRY(ways[0], device_.record(calls));
  const std::string& decided = model_.launches;
  const bool timed = decided == plan::kTimed;
  if (!device_.features().plans || calls.size() != model_.steps.size() ||
      decided == plan::kInOrder) {
    return std::move(ways[0]);
  }
  std::vector<std::vector<runtime::Piece>> read;
  for (std::size_t i = 0; i < calls.size(); ++i) read.push_back(weights_of(calls[i], i));
  const auto plan = runtime::plan_fetches(read, device_.target().l2_bytes);
  const bool fetches =
      std::any_of(plan.begin(), plan.end(), [](const auto& piece) { return piece.bytes > 0; });
  const RunningOrder order = order_of(model_.steps);
  // One that cannot be made would have been faster; that is all.
  const auto add = [&](const char* name, bool fetched, bool branching) {
    if (!timed && decided != name) return;
    if ((fetched && !fetches) || (branching && !has_branches(order))) return;
    runtime::RecordingPlan way;
    if (fetched) way.fetched = plan;
    if (branching) way.after = order.after();
    if (auto made = device_.record(calls, way)) ways.push_back(std::move(*made));
  };
  add(plan::kFetching, true, false);
  add(plan::kBranching, false, true);
  add(plan::kFetchingBranches, true, true);
  return timed ? fastest(std::move(ways)) : std::move(ways.back());
}

// The first one, unless another gains.
Result<std::unique_ptr<runtime::Recording>> ModelRunner::fastest(
    std::vector<std::unique_ptr<runtime::Recording>> ways) {
  if (ways.size() == 1) return std::move(ways[0]);
  for (const Memory& input : inputs_)  // indices must not point anywhere
    TESSERA_DO(device_.fill(input->get(), 0, input->bytes()));
  std::vector<double> least(ways.size(), HUGE_VAL);
  for (int round = 0; round < kTrialRounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      TESSERA_TRY(const double seconds, device_.time_replays(*ways[i], kTrialReplays));
      least[i] = std::min(least[i], seconds);
    }
  }
  least[0] *= kTrialGain;
  return std::move(
      ways[static_cast<std::size_t>(std::min_element(least.begin(), least.end()) - least.begin())]);
}

// The large constants that a step reads whole.
std::vector<runtime::Piece> ModelRunner::weights_of(const runtime::Call& call,
                                                    std::size_t step) const {
  std::vector<runtime::Piece> out;
  const std::vector<Storage>& params = model_.steps[step].params;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].place != Place::kConstant) continue;
    const std::size_t bytes = model_.constants[params[i].index].bytes();
    const bool whole = kFlopBytes * model_.steps[step].flops >= static_cast<double>(bytes);
    if (whole && bytes >= kLargeWeights) out.push_back({call.memory[i], bytes});
  }
  return out;
}

Result<void*> ModelRunner::address(const Storage& storage) {
  switch (storage.place) {
    case Place::kNone:
      break;
    case Place::kInput:
      return inputs_[storage.index]->get();
    case Place::kOutput:
      return outputs_[storage.index]->get();
    case Place::kConstant:
      if (!model_.device_constants.empty()) return model_.device_constants[storage.index];
      // Kernels only read constants; the ABI has one pointer type for all parameters.
      return const_cast<void*>(model_.constants[storage.index].data());
    case Place::kArena: {
      void*& place = places_[{storage.offset, storage.bytes}];
      if (!place) {
        TESSERA_TRY(place, device_.part(arena_.get(), static_cast<std::size_t>(storage.offset),
                                        static_cast<std::size_t>(storage.bytes)));
      }
      return place;
    }
  }
  return static_cast<void*>(nullptr);
}

Result<void> ModelRunner::set_input(std::size_t index, const HostTensor& tensor) {
  const graph::TensorType& type = model_.input_types.at(index);
  const graph::TensorType given{tensor.dtype(), tensor.shape()};
  if (!(given == type)) {
    return make_error(ErrorCode::kInvalidArgument, "input {} must be {}, not {}",
                      model_.input_names[index], to_text(type), to_text(given));
  }
  if (!ready_.ok()) return ready_.error();
  // This process checks what its inputs hold when it runs: callers may fill them in place.
  if (!in_process_) TESSERA_DO(check_input(index, tensor.data()));
  return device_.upload(inputs_[index]->get(), tensor.data(), tensor.bytes());
}

Result<void> ModelRunner::check_input(std::size_t index, const void* data) const {
  for (const IndexCheck& check : model_.index_checks) {
    if (check.input != index) continue;
    TESSERA_DO(check_indices(check, model_.input_types[index], model_.input_names[index], data));
  }
  return {};
}

Result<void> ModelRunner::check_step(std::size_t step) const {
  for (const auto& [param, indices] : model_.steps[step].indices)
    TESSERA_DO(check_indices(indices, now_.memory[step][param]));
  return {};
}

Result<HostTensor> ModelRunner::input(std::size_t index) const {
  if (!ready_.ok()) return ready_.error();
  const graph::TensorType& type = model_.input_types.at(index);
  HostTensor out(type.dtype, type.shape);
  TESSERA_DO(device_.download(out.data(), inputs_[index]->get(), out.bytes()));
  return out;
}

Result<void> ModelRunner::run_host(std::size_t index) {
  const CompiledModel::Step& step = model_.steps[index];
  const std::vector<void*>& memory = now_.memory[index];
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < step.input_types.size(); ++i) {
    HostTensor t(step.input_types[i].dtype, step.input_types[i].shape);
    TESSERA_DO(device_.download(t.data(), memory[i], t.bytes()));
    tensors.push_back(std::move(t));
  }
  std::vector<const HostTensor*> args;
  std::size_t next = 0;
  for (const bool omitted : step.omitted) args.push_back(omitted ? nullptr : &tensors[next++]);
  auto results = graph::evaluate_node(*step.op, step.attrs, args);
  if (!results) return results.error().with_context(step.origin);
  for (std::size_t i = 0; i < step.output_types.size(); ++i) {
    void* to = memory[step.input_types.size() + i];
    const HostTensor& t = (*results)[i];
    if (to) TESSERA_DO(device_.upload(to, t.data(), t.bytes()));
  }
  return {};
}

Result<void> ModelRunner::run_parts() {
  for (const Part& part : now_.parts) {
    if (is_checked(model_.steps[part.step])) TESSERA_DO(check_step(part.step));
    TESSERA_DO(part.recording ? device_.replay(*part.recording) : run_host(part.step));
  }
  return {};
}

Result<void> ModelRunner::run() {
  if (!ready_.ok()) return ready_.error();
  for (std::size_t i = 0; in_process_ && i < inputs_.size(); ++i)
    TESSERA_DO(check_input(i, inputs_[i]->get()));
  const runtime::DeviceSession session(device_);
  TESSERA_DO(run_parts());
  for (std::size_t i = 0; i < downloads_.size(); ++i) {
    const bool stays = std::any_of(carried_.begin(), carried_.end(),
                                   [&](const Carried& c) { return c.output == i; });
    if (stays) continue;
    TESSERA_DO(device_.download(results_[i], outputs_[i]->get(), downloads_[i].bytes()));
  }
  for (std::size_t i = 0; i < now_.copied.size(); ++i) {
    const std::size_t output = model_.copies[i].output;
    TESSERA_DO(device_.download(results_[output], now_.copied[i],
                                tensor_bytes(model_.output_types[output])));
  }
  if (!carried_.empty()) {
    swap_carried();
    std::swap(now_, next_);
  }
  return {};
}

Result<double> ModelRunner::time(int runs) {
  if (!ready_.ok()) return ready_.error();
  if (now_.parts.size() == 1 && now_.parts[0].recording)
    return device_.time_replays(*now_.parts[0].recording, runs);
  TESSERA_DO(device_.synchronise());
  const auto start = Clock::now();
  for (int i = 0; i < runs; ++i) TESSERA_DO(run_parts());
  TESSERA_DO(device_.synchronise());
  return seconds_since(start);
}

Result<std::vector<double>> ModelRunner::profile() {
  if (!ready_.ok()) return ready_.error();
  const runtime::DeviceSession session(device_);
  const int repeats = in_process_ ? 1 : kRepeats;
  std::vector<double> times;
  for (std::size_t i = 0; i < model_.steps.size(); ++i) {
    const CompiledModel::Step& step = model_.steps[i];
    if (is_host(step)) {
      const auto start = Clock::now();
      TESSERA_DO(run_host(i));
      times.push_back(1e6 * seconds_since(start));
      continue;
    }
    TESSERA_TRY(const double seconds,
                device_.time(*model_.kernels[step.kernel], now_.memory[i], repeats));
    times.push_back(1e6 * seconds / repeats);
  }
  return times;
}

Result<void> ModelRunner::run_step(std::size_t step) {
  if (!ready_.ok()) return ready_.error();
  if (is_host(model_.steps.at(step))) return run_host(step);
  TESSERA_DO(device_.launch(*model_.kernels[model_.steps[step].kernel], now_.memory[step]));
  return device_.synchronise();
}

Result<HostTensor> ModelRunner::parameter(std::size_t step, std::size_t param,
                                          const graph::TensorType& type) const {
  if (!ready_.ok()) return ready_.error();
  HostTensor out(type.dtype, type.shape);
  TESSERA_DO(device_.download(out.data(), now_.memory.at(step).at(param), out.bytes()));
  return out;
}

Result<double> ModelRunner::time_step(std::size_t step, int calls) {
  if (!ready_.ok()) return ready_.error();
  const CompiledModel::Step& timed = model_.steps.at(step);
  if (is_host(timed)) {
    return make_error(ErrorCode::kInvalidArgument, "{} runs on the host", timed.name);
  }
  const runtime::DeviceSession session(device_);
  return device_.time(*model_.kernels[timed.kernel], now_.memory[step], calls);
}

HostTensor ModelRunner::output(std::size_t index) const {
  const graph::TensorType& type = model_.output_types.at(index);
  HostTensor out(type.dtype, type.shape);
  if (out.bytes() > 0) std::memcpy(out.data(), results_.at(index), out.bytes());
  return out;
}

Result<std::vector<HostTensor>> run_model(const CompiledModel& model, runtime::Device& device,
                                          const std::vector<HostTensor>& inputs) {
  if (inputs.size() != model.input_types.size()) {
    return make_error(ErrorCode::kInvalidArgument, "{} inputs given, the model has {}",
                      inputs.size(), model.input_types.size());
  }
  ModelRunner runner(model, device);
  for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
  TESSERA_DO(runner.run());
  std::vector<HostTensor> outputs;
  for (std::size_t i = 0; i < model.output_types.size(); ++i) outputs.push_back(runner.output(i));
  return outputs;
}

}  // namespace tessera::exec
