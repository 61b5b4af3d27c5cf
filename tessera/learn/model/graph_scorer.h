// Judges configurations of graphs by a trained network, as code that Tessera compiled.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "tessera/learn/graphset/network_inputs.h"
#include "tessera/learn/infer/compiled_network.h"

namespace tessera::model {

class GraphScorer {
 public:
  // kInvalidArgument: the weights are not those of the network.
  static Result<std::unique_ptr<GraphScorer>> make(nn::TrainedGraphNetwork network, int threads);

  const nn::TrainedGraphNetwork& network() const { return network_; }

  // One score a configuration, higher is faster. The network is compiled for each size of segments
  // when it first occurs. kInvalidArgument: graphs that the network cannot read.
  Result<std::vector<float>> score(const graphset::ConfigGraph& graph);

 private:
  struct Instance {
    std::unique_ptr<infer::CompiledNetwork> code;
    std::vector<std::string> inputs;
  };

  GraphScorer(nn::TrainedGraphNetwork network, int threads);
  Result<Instance*> instance(const nn::GraphShape& shape);
  Result<void> add_scores(const graphset::ConfigGraph& graph, const graphset::Segment& segment,
                          std::size_t segments, std::vector<float>* scores);

  nn::TrainedGraphNetwork network_;
  graphset::Encoding encoding_;
  std::size_t threads_;
  std::map<std::pair<std::int64_t, std::int64_t>, Instance> instances_;  // by nodes and places
};

// Adds scores whose mean is 0 and whose deviation is 1: networks that judge together vote alike.
void add_standardized(const std::vector<float>& scores, std::vector<float>* sum);

}  // namespace tessera::model
