// Runs a trained network on many candidates: its graph with the weights as constants, compiled by
// Tessera for this machine, one instance for each number of rows that candidates are padded to
// (nn::padded_rows).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/learn/infer/prune_columns.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/scheduling/feature/feature_set.h"

namespace tessera::infer {

// One value a candidate of each output of nn::Network.
struct NetworkOutputs {
  std::vector<float> score, validity, log_time;
};

// The graph of one instance with its weights in it, before passes.
Result<graph::Graph> instance_graph(const nn::NetworkSpec& spec,
                                    const std::map<std::string, HostTensor>& weights,
                                    const nn::InstanceShape& shape);

class NetworkScorer {
 public:
  // Builds one instance to show that it can. `threads` run at once, each on batches of its own.
  static Result<std::unique_ptr<NetworkScorer>> make(nn::TrainedNetwork network, int threads);
  ~NetworkScorer();

  const nn::TrainedNetwork& network() const { return network_; }
  feature::Rows rows() const { return rows_; }

  // The features have the columns of the network, and context and parents where it reads them.
  // Calls take turns. Candidates with more rows than any instance has lose those behind.
  Result<NetworkOutputs> run(const feature::FeatureSet& features);

  std::size_t instances() const;  // built so far

 private:
  struct Instance;
  struct Batch;

  NetworkScorer(nn::TrainedNetwork network, PrunedNetwork pruned, feature::Rows rows, int threads);
  Result<Instance*> instance(std::int64_t rows);
  void fill(const feature::FeatureSet& features, const Batch& batch, Instance& instance,
            std::size_t runner) const;
  Result<void> run_rows(const feature::FeatureSet& features,
                        const std::vector<std::uint32_t>& candidates,
                        const std::vector<std::size_t>& first_row, std::int64_t rows,
                        NetworkOutputs* out);

  nn::TrainedNetwork network_;
  PrunedNetwork pruned_;
  feature::Rows rows_;
  std::size_t threads_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::unique_ptr<Instance>> instances_;  // by rows
};

}  // namespace tessera::infer
