// A network and its weights as code for this machine.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/backend/exec/model_runner.h"
#include "tessera/learn/nn/network.h"

namespace tessera::infer {

// The graph with `weights` as constants instead of the inputs that its parameters are. `name` is
// the network's: kInvalidArgument names it and the weight that is absent or of another shape.
Result<graph::Graph> bind_weights(nn::Network network,
                                  const std::map<std::string, HostTensor>& weights,
                                  const std::string& name);

// Code that was compiled once and several callers run at once, each by a runner of its own; those
// of a GPU take turns.
class CompiledNetwork {
 public:
  struct Options {
    std::size_t runners = 1;
    runtime::Device* device = nullptr;                 // a GPU, which must outlive it
    std::shared_ptr<const kernel::KernelCache> cache;  // null: everything is built
  };
  // `graph` with its weights in it, before passes. A runner of this machine has one core.
  static Result<std::unique_ptr<CompiledNetwork>> make(graph::Graph graph, const Options& options);

  // At least so many runners from here on; those there are stay.
  void reserve(std::size_t runners);
  exec::ModelRunner& runner(std::size_t index) { return *runners_.at(index); }
  const exec::CompiledModel& model() const { return model_; }

 private:
  CompiledNetwork(exec::CompiledModel model, runtime::Device* device)
      : model_(std::move(model)), device_(device) {}

  exec::CompiledModel model_;
  runtime::Device* device_;
  std::vector<std::unique_ptr<runtime::Device>> cores_;  // one a runner where device_ is null
  std::vector<std::unique_ptr<exec::ModelRunner>> runners_;
};

}  // namespace tessera::infer
