#include "tessera/train/learner.h"

#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "tessera/train/adam.h"
#include "tessera/train/graph_eval.h"
#include "tessera/train/losses.h"

namespace tessera::train {
namespace {

using at::Tensor;

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
        adam_(std::move(parameters), device),
        loss_sum_(at::zeros({}, at::TensorOptions().device(device).dtype(at::kDouble))) {}

  Result<void> step(const Batch& batch, double lr) override {
    try {
      at::globalContext().setAllowTF32CuBLAS(true);
      TESSERA_TRY(const Heads heads, forward(batch));
      const Tensor loss = total_loss(heads, batch);
      adam_.step(loss, lr, options_.weight_decay, options_.clip);
      const c10::AutoGradMode no_gradients(false);
      loss_sum_ += loss.detach();
      ++losses_;
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

  Weights weights() const override { return adam_.weights(); }
  OptimizerState optimizer() const override { return adam_.state(); }
  Result<void> set_weights(const Weights& weights) override { return adam_.set_weights(weights); }
  Result<void> set_optimizer(const OptimizerState& state) override {
    return adam_.set_state(state);
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
    inputs.insert(inputs.end(), adam_.parts().begin(), adam_.parts().end());
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

  nn::NetworkSpec spec_;
  at::Device device_;
  LearnerOptions options_;
  AdamW adam_;
  Tensor loss_sum_;
  std::int64_t losses_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, Instance> instances_;
};

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
  TESSERA_TRY(const at::Device device, prepare_device(options.device, options.threads));
  TESSERA_TRY(nn::Network network, nn::build_network(spec, kSmallest));
  try {
    auto learner =
        std::make_unique<TorchLearner>(spec, std::move(network.parameters), device, options);
    TESSERA_DO(learner->set_weights(weights));
    return std::unique_ptr<Learner>(std::move(learner));
  } catch (const std::exception& e) {  // what torch throws
    return make_error(ErrorCode::kUnavailable, "torch cannot use {}: {}", options.device, e.what());
  }
}

}  // namespace tessera::train
