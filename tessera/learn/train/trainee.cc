#include "tessera/learn/train/trainee.h"

#include <utility>

#include "tessera/learn/train/graph_eval.h"
#include "tessera/learn/train/losses.h"
#include "tessera/learn/train/torch_trainee.h"

namespace tessera::train {
namespace {

using at::Tensor;

struct Heads {
  Tensor score, validity, log_time;
};

class NetworkTrainee final : public TorchTrainee<Trainee> {
 public:
  NetworkTrainee(nn::NetworkSpec spec, std::vector<nn::Parameter> parameters, at::Device device,
                 const TraineeOptions& options)
      : TorchTrainee(std::move(parameters), device, options), spec_(std::move(spec)) {}

  Result<void> step(const Batch& batch, double lr) override {
    return descend(lr, [&]() -> Result<Tensor> {
      TESSERA_TRY(const Heads heads, forward(batch));
      return total_loss(heads, batch);
    });
  }

  Result<Outputs> predict(const Batch& batch) override {
    return predicted([&]() -> Result<Outputs> {
      TESSERA_TRY(const Heads heads, forward(batch));
      const auto copy = [&](const Tensor& t) {
        const Tensor host = t.to(at::kCPU).contiguous();
        const float* data = host.data_ptr<float>();
        return std::vector<float>(data, data + batch.examples.size());
      };
      return Outputs{copy(heads.score), copy(heads.validity), copy(heads.log_time)};
    });
  }

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

Result<std::unique_ptr<Trainee>> make_trainee(const nn::NetworkSpec& spec, const Weights& weights,
                                              const TraineeOptions& options) {
  TESSERA_TRY(const at::Device device, prepare_device(options.device, options.threads));
  TESSERA_TRY(nn::Network network, nn::build_network(spec, kSmallest));
  using Made = Result<std::unique_ptr<Trainee>>;
  return guarded(ErrorCode::kUnavailable, "torch cannot use " + options.device, [&]() -> Made {
    auto trainee =
        std::make_unique<NetworkTrainee>(spec, std::move(network.parameters), device, options);
    TESSERA_DO(trainee->set_weights(weights));
    return std::unique_ptr<Trainee>(std::move(trainee));
  });
}

}  // namespace tessera::train
