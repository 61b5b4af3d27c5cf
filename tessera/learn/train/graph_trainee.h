// A network of graphs with its weights on a device.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tessera/learn/graphset/network_inputs.h"
#include "tessera/learn/train/adam.h"
#include "tessera/learn/train/graph_eval.h"

namespace tessera::train {

// A graph in segments, with what does not depend on configurations on the device.
struct LoadedGraph {
  const graphset::ConfigGraph* graph = nullptr;
  std::vector<graphset::Segment> segments;
  std::vector<std::map<std::string, at::Tensor>> still;  // by segment, made when it is first run
};

class GraphTrainee {
 public:
  static Result<std::unique_ptr<GraphTrainee>> make(nn::GraphNetworkSpec spec,
                                                    graphset::Encoding encoding,
                                                    std::int64_t configs, at::Device device,
                                                    std::uint64_t seed);

  LoadedGraph load(const graphset::ConfigGraph& graph) const;

  // Scores of `configs`, at most as many as make() was told, by one segment; gradients where they
  // are on. Those missing are filled with the first ones.
  Result<at::Tensor> run(LoadedGraph& graph, std::size_t segment,
                         std::span<const std::int64_t> configs);
  // Scores of these configurations by all segments, without gradients.
  Result<std::vector<float>> predict(LoadedGraph& graph, std::span<const std::int64_t> configs);

  AdamW& adam() { return adam_; }
  std::int64_t configs() const { return configs_; }

 private:
  struct Instance {
    GraphEval eval;
    std::vector<std::string> inputs;  // before the parameters
  };

  GraphTrainee(nn::GraphNetworkSpec spec, graphset::Encoding encoding, std::int64_t configs,
               const at::Device& device, std::vector<nn::Parameter> parameters);
  Result<const Instance*> instance(const nn::GraphShape& shape);

  nn::GraphNetworkSpec spec_;
  graphset::Encoding encoding_;
  std::int64_t configs_;
  at::Device device_;
  AdamW adam_;
  std::map<std::pair<std::int64_t, std::int64_t>, Instance> instances_;  // by nodes and places
};

}  // namespace tessera::train
