#include "tessera/train/learner.h"

#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>

#include "tessera/train/graph_eval.h"
#include "tessera/train/losses.h"

namespace tessera::train {
namespace {

using at::Tensor;

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

Result<void> check_weights(const std::vector<nn::Parameter>& parameters, const Weights& weights) {
  for (const nn::Parameter& p : parameters) {
    const auto it = weights.find(p.name);
    if (it == weights.end()) {
      return make_error(ErrorCode::kInvalidArgument, "there is no weight {}", p.name);
    }
    if (it->second.shape() != p.shape || it->second.dtype() != DType::kF32) {
      return make_error(ErrorCode::kInvalidArgument, "weight {} is {}, not {}", p.name,
                        tessera::to_text(it->second.shape()), tessera::to_text(p.shape));
    }
  }
  return {};
}

// One buffer for all parameters, so that clipping and Adam take a few calls whatever their number.
// `parts` are its views; leaves of autograd whose gradients are views of `gradient`.
struct FlatWeights {
  std::vector<nn::Parameter> parameters;
  std::vector<Tensor> parts;
  Tensor values, gradient, first, second, decayed;  // decayed: 1 where weight decay applies

  FlatWeights(std::vector<nn::Parameter> list, const at::Device& device)
      : parameters(std::move(list)) {
    std::int64_t total = 0;
    for (const nn::Parameter& p : parameters) total += elements(p.shape);
    const at::TensorOptions options = at::TensorOptions().device(device).dtype(at::kFloat);
    values = at::zeros({total}, options);
    gradient = at::zeros({total}, options);
    first = at::zeros({total}, options);
    second = at::zeros({total}, options);
    decayed = at::zeros({total}, options);
    std::int64_t at = 0;
    for (const nn::Parameter& p : parameters) {
      const std::int64_t size = elements(p.shape);
      Tensor part = values.narrow(0, at, size).view(p.shape).detach();
      part.set_requires_grad(true);
      part.mutable_grad() = gradient.narrow(0, at, size).view(p.shape);
      parts.push_back(part);
      // Biases and the factors of norms are no reason to shrink.
      if (p.shape.size() > 1) decayed.narrow(0, at, size).fill_(1);
      at += size;
    }
  }

  Result<void> read(const Weights& from, const Tensor& to) const {
    TESSERA_DO(check_weights(parameters, from));
    std::int64_t at = 0;
    for (const nn::Parameter& p : parameters) {
      const std::int64_t size = elements(p.shape);
      to.narrow(0, at, size).copy_(to_torch(from.at(p.name), to.options()).reshape({size}));
      at += size;
    }
    return {};
  }

  Weights write(const Tensor& from) const {
    const Tensor host = from.to(at::kCPU);
    Weights out;
    std::int64_t at = 0;
    for (const nn::Parameter& p : parameters) {
      const std::int64_t size = elements(p.shape);
      out.emplace(p.name, to_host(host.narrow(0, at, size).view(p.shape)));
      at += size;
    }
    return out;
  }
};

Tensor on_device(const std::vector<float>& data, const Shape& shape, const at::Device& device) {
  return at::from_blob(const_cast<float*>(data.data()), shape, at::kFloat).to(device);
}

Tensor on_device(const std::vector<std::int64_t>& data, const at::Device& device) {
  return at::from_blob(const_cast<std::int64_t*>(data.data()),
                       {static_cast<std::int64_t>(data.size())}, at::kLong)
      .to(device);
}

Tensor weighted_mean(const Tensor& x, const Tensor& weight) {
  return (x * weight).sum() / weight.sum().clamp_min(1);
}

struct Heads {
  Tensor score, validity, log_time;
};

class TorchLearner final : public Learner {
 public:
  TorchLearner(nn::NetworkSpec spec, std::vector<nn::Parameter> parameters, at::Device device,
               const LearnerOptions& options)
      : spec_(std::move(spec)),
        device_(device),
        options_(options),
        flat_(std::move(parameters), device),
        loss_sum_(at::zeros({}, at::TensorOptions().device(device).dtype(at::kDouble))) {}

  Result<void> step(const Batch& batch, double lr) override {
    try {
      at::globalContext().setAllowTF32CuBLAS(true);
      TESSERA_TRY(const Heads heads, forward(batch));
      const Tensor loss = total_loss(heads, batch);
      flat_.gradient.zero_();
      loss.backward();
      const c10::AutoGradMode no_gradients(false);
      loss_sum_ += loss.detach();
      ++losses_;
      update(lr);
    } catch (const std::exception& e) {  // what torch throws
      return make_error(ErrorCode::kRunFailed, "a step of training failed: {}", e.what());
    }
    return {};
  }

  double take_loss() override {
    const double sum = loss_sum_.item<double>();
    loss_sum_.zero_();
    return losses_ == 0 ? 0 : sum / static_cast<double>(std::exchange(losses_, 0));
  }

  Result<Outputs> predict(const Batch& batch) override {
    try {
      at::globalContext().setAllowTF32CuBLAS(false);
      const c10::AutoGradMode no_gradients(false);
      TESSERA_TRY(const Heads heads, forward(batch));
      const auto copy = [&](const Tensor& t) {
        const Tensor host = t.to(at::kCPU).contiguous();
        const float* data = host.data_ptr<float>();
        return std::vector<float>(data, data + batch.examples.size());
      };
      return Outputs{copy(heads.score), copy(heads.validity), copy(heads.log_time)};
    } catch (const std::exception& e) {  // what torch throws
      return make_error(ErrorCode::kRunFailed, "prediction failed: {}", e.what());
    }
  }

  Weights weights() const override { return flat_.write(flat_.values); }
  OptimizerState optimizer() const override {
    return {
        .first = flat_.write(flat_.first), .second = flat_.write(flat_.second), .steps = steps_};
  }
  Result<void> set_weights(const Weights& weights) override {
    return flat_.read(weights, flat_.values);
  }
  Result<void> set_optimizer(const OptimizerState& state) override {
    TESSERA_DO(flat_.read(state.first, flat_.first));
    TESSERA_DO(flat_.read(state.second, flat_.second));
    steps_ = state.steps;
    return {};
  }
  std::string device() const override { return device_.is_cpu() ? "cpu" : "cuda"; }

 private:
  struct Instance {
    GraphEval eval;
    std::vector<std::string> data;  // names of the inputs before the parameters
  };

  Result<const Instance*> instance(const nn::InstanceShape& shape) {
    const auto key = std::pair(shape.batch, shape.rows);
    const auto it = instances_.find(key);
    if (it != instances_.end()) return &it->second;
    TESSERA_TRY(nn::Network network, nn::build_network(spec_, shape));
    std::vector<std::string> data;
    for (const graph::ValueId id : network.graph.inputs) {
      if (data.size() + network.parameters.size() == network.graph.inputs.size()) break;
      data.push_back(network.graph.value(id).name);
    }
    TESSERA_TRY(GraphEval eval,
                GraphEval::make(std::move(network.graph),
                                at::TensorOptions().device(device_).dtype(at::kFloat)));
    const auto added = instances_.emplace(key, Instance{std::move(eval), std::move(data)});
    return &added.first->second;
  }

  Result<Heads> forward(const Batch& batch) {
    TESSERA_TRY(const Instance* network, instance(batch.shape));
    const std::int64_t b = batch.shape.batch, r = batch.shape.rows;
    std::vector<Tensor> inputs;
    for (const std::string& name : network->data) {
      if (name == "rows") inputs.push_back(on_device(batch.rows, {b, r, spec_.columns}, device_));
      if (name == "mask") inputs.push_back(on_device(batch.mask, {b, r}, device_));
      if (name == "context") {
        inputs.push_back(on_device(batch.context, {b, spec_.context}, device_));
      }
      if (name == "parents") inputs.push_back(on_device(batch.parents, {b, r, r}, device_));
    }
    TESSERA_CHECK(inputs.size() == network->data.size(), "an input of the network is unknown");
    inputs.insert(inputs.end(), flat_.parts.begin(), flat_.parts.end());
    const std::vector<Tensor> out = network->eval.run(inputs);
    return Heads{out[0], out[1], out[2]};
  }

  Tensor total_loss(const Heads& heads, const Batch& batch) const {
    const Shape slots = {batch.shape.batch}, lists = {batch.lists, batch.length};
    const Tensor weight = on_device(batch.weight, slots, device_),
                 timed = on_device(batch.timed, slots, device_);
    const Tensor member = on_device(batch.member, lists, device_);
    const Tensor scores = heads.score.index_select(0, on_device(batch.slots, device_)).view(lists);
    const Tensor each =
        list_loss(options_.loss, scores, on_device(batch.labels, lists, device_), member);
    const Tensor filled = (member.sum(1) > 0).to(at::kFloat);
    Tensor loss = weighted_mean(each, filled);
    // log(1 + exp(-x)) for what ran, log(1 + exp(x)) for what failed.
    const Tensor validity = at::softplus(heads.validity) - heads.validity * timed;
    loss = loss + options_.validity_weight * weighted_mean(validity, weight);
    const Tensor error = heads.log_time - on_device(batch.log_time, slots, device_);
    return loss + options_.time_weight * weighted_mean(error * error, weight * timed);
  }

  void update(double lr) {
    ++steps_;
    Tensor& g = flat_.gradient;
    if (options_.clip > 0) g.mul_((options_.clip / (g.norm() + 1e-6)).clamp_max(1.0));
    flat_.first.mul_(kBeta1).add_(g, 1 - kBeta1);
    flat_.second.mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
    const auto n = static_cast<double>(steps_);
    const double first = 1 - std::pow(kBeta1, n), second = 1 - std::pow(kBeta2, n);
    const Tensor scale = flat_.second.sqrt().div_(std::sqrt(second)).add_(kEpsilon);
    flat_.values.addcmul_(flat_.values, flat_.decayed, -lr * options_.weight_decay);
    flat_.values.addcdiv_(flat_.first, scale, -lr / first);
  }

  nn::NetworkSpec spec_;
  at::Device device_;
  LearnerOptions options_;
  FlatWeights flat_;
  std::int64_t steps_ = 0;
  Tensor loss_sum_;
  std::int64_t losses_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, Instance> instances_;
};

Result<at::Device> choose_device(const std::string& name) {
  if (name == "cpu" || (name == "auto" && !at::hasCUDA())) return at::Device(at::kCPU);
  if (name != "cuda" && name != "auto") {
    return make_error(ErrorCode::kInvalidArgument, "no device '{}'; there are cpu, cuda, auto",
                      name);
  }
  if (!at::hasCUDA()) {
    return make_error(ErrorCode::kUnavailable, "this torch has no CUDA device");
  }
  return at::Device(at::kCUDA, 0);
}

void set_threads(int threads) {
  at::set_num_threads(threads);
  // An OpenBLAS with threads of its own does not follow torch.
  void* const blas = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (blas != nullptr) reinterpret_cast<void (*)(int)>(blas)(threads);
}

// The parameters do not depend on the shape of an instance.
constexpr nn::InstanceShape kSmallest = {.batch = 1, .rows = 1};

}  // namespace

Result<Weights> initial_weights(const nn::NetworkSpec& spec, std::uint64_t seed) {
  TESSERA_TRY(const nn::Network network, nn::build_network(spec, kSmallest));
  Rng rng(seed);
  Weights weights;
  for (const nn::Parameter& p : network.parameters) weights[p.name] = nn::initial_value(p, rng);
  return weights;
}

Result<std::unique_ptr<Learner>> make_learner(const nn::NetworkSpec& spec, const Weights& weights,
                                              const LearnerOptions& options) {
  TESSERA_TRY(const at::Device device, choose_device(options.device));
  TESSERA_TRY(nn::Network network, nn::build_network(spec, kSmallest));
  try {
    if (options.threads > 0) set_threads(options.threads);
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
    auto learner =
        std::make_unique<TorchLearner>(spec, std::move(network.parameters), device, options);
    TESSERA_DO(learner->set_weights(weights));
    return std::unique_ptr<Learner>(std::move(learner));
  } catch (const std::exception& e) {  // what torch throws
    return make_error(ErrorCode::kUnavailable, "torch cannot use {}: {}", options.device, e.what());
  }
}

}  // namespace tessera::train
