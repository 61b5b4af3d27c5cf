// Trains networks of graphs on measured configurations.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "tessera/learn/graphset/ranking.h"
#include "tessera/learn/nn/graph_network_file.h"
#include "tessera/learn/train/options.h"

namespace tessera::train {

struct GraphTrainOptions {
  std::string network = "graphsage";
  nn::Hyper hyper;  // may leave names out
  Loss loss = Loss::kHinge;
  int epochs = 20;         // passes over the configurations
  std::int64_t list = 64;  // configurations of one graph a step
  double lr = 0;           // largest; 0: as the network needs
  double warmup = 0.05;    // share of the steps; the rest falls as a cosine
  double weight_decay = 1e-4, clip = 1;
  double share = 1;         // of the configurations: learned from
  double validation = 0.1;  // of those: which epoch is best is measured on them
  double keep = 0.5;        // probability that the remembered score of a segment is used
  int patience = 0;         // epochs without a better tau; 0: no early stop
  std::uint64_t seed = 1;
  std::string device = "cpu";
  int threads = 0;
};

// Of an epoch, told when it is over and every some seconds within.
struct GraphEpoch {
  int epoch = 0, epochs = 0;
  std::int64_t step = 0, steps = 0;
  double loss = 0, seconds = 0;
  bool finished = false;
  double tau = 0;  // once it is finished: mean over the graphs' validation parts
  bool best = false;
};

struct GraphTrained {
  nn::TrainedGraphNetwork network;  // of the best epoch
  double tau = 0;                   // on the validation parts
  int epochs = 0;
  std::int64_t segments = 0, largest = 0;  // of all graphs; nodes of the largest
  std::vector<graphset::Ranking> unseen;   // of the configurations that were not learned from
  bool interrupted = false;
};

// A step takes configurations of one graph. Of a graph in several segments it runs one with
// gradients; the others add the scores that they had last (graph segment training), each kept with
// the probability `keep`, the fresh one weighing for those dropped. Equal configurations count
// once. Nothing is learned from the graphs `judged`. kInvalidArgument: no graph has two times to
// compare, or they do not fit each other.
Result<GraphTrained> train_graphs(const std::vector<graphset::ConfigGraph>& graphs,
                                  const GraphTrainOptions& options,
                                  const std::function<void(const GraphEpoch&)>& report,
                                  const std::atomic<bool>& stop,
                                  const std::vector<graphset::ConfigGraph>& judged = {});

}  // namespace tessera::train
