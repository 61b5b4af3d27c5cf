// A network and its weights as code for this machine.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/exec/model_runner.h"
#include "tessera/nn/network.h"

namespace tessera::infer {

// The graph with `weights` as constants instead of the inputs that its parameters are. `name` is
// the network's: kInvalidArgument names it and the weight that is absent or of another shape.
Result<graph::Graph> bind_weights(nn::Network network,
                                  const std::map<std::string, HostTensor>& weights,
                                  const std::string& name);

// Code that was compiled once and several callers run at once, each by a runner of its own.
class CompiledNetwork {
 public:
  // `graph` with its weights in it, before passes. A runner has one core.
  static Result<std::unique_ptr<CompiledNetwork>> make(graph::Graph graph, std::size_t runners);

  // At least so many runners from here on; those there are stay.
  void reserve(std::size_t runners);
  exec::ModelRunner& runner(std::size_t index) { return *runners_.at(index); }

 private:
  explicit CompiledNetwork(exec::CompiledModel model) : model_(std::move(model)) {}

  exec::CompiledModel model_;
  std::vector<std::unique_ptr<runtime::ThreadPool>> pools_;
  std::vector<std::unique_ptr<exec::ModelRunner>> runners_;
};

}  // namespace tessera::infer
