// What a training run is told.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/learn/nn/network.h"
#include "tessera/support/result.h"

namespace tessera::train {

enum class Loss : std::uint8_t {
  kSquared,     // of the sigmoid of the score against the label
  kRank,        // logistic, on all pairs of a list
  kLambdaRank,  // pairs weighted by what exchanging them changes in DCG
  kListMle,     // likelihood of the order
  kHinge,       // on all pairs of a list, with a margin of 1
};
const char* to_text(Loss loss);  // "mse", "rank", "lambdarank", "listmle", "hinge"
Result<Loss> loss_from_text(const std::string& text);

enum class Decay : std::uint8_t { kCosine, kExponential };
const char* to_text(Decay decay);  // "cosine", "exponential"
Result<Decay> decay_from_text(const std::string& text);

// How one step of training is computed.
struct TraineeOptions {
  std::string device = "cpu";  // "cpu", "cuda", "auto": cuda where there is one
  int threads = 0;             // of torch on the host; 0: all cores
  Loss loss = Loss::kLambdaRank;
  double validity_weight = 0.1, time_weight = 0.02;  // of the other outputs' losses
  double weight_decay = 0.01;                        // decoupled, AdamW
  double clip = 1.0;                                 // largest norm of a gradient; 0: any
};

struct TrainOptions {
  std::string network = "mlp";  // with `init`: empty, or the same
  nn::Hyper hyper;              // may leave names out
  TraineeOptions trainee;
  int epochs = 40;
  std::int64_t batch = 512;  // candidates per step, about
  std::int64_t list = 64;    // candidates of one task in a step, at most
  double lr = 1e-3, last_lr = 1e-5;
  Decay decay = Decay::kCosine;
  double warmup = 0.03;  // share of the steps
  bool context = true;   // false: the operator embedding is hidden from the network
  int patience = 0;      // epochs without a better validation metric; 0: no early stop
  std::uint64_t seed = 1;
  int fillers = 0;         // threads that prepare batches; 0: as the device needs
  std::string init;        // a network file to start from
  std::string checkpoint;  // folder; empty: none
  int checkpoint_every = 1;
  bool resume = false;  // from `checkpoint`, when it holds one
  std::string dataset;  // digest: checkpoints of another one are refused
};

}  // namespace tessera::train
