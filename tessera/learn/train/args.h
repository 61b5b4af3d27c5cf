// The flags of `tessera-train`, and of each line of a list of jobs.
#pragma once

#include <string>
#include <vector>

#include "tessera/learn/dataset/dataset.h"
#include "tessera/learn/train/options.h"

namespace CLI {
class App;
}

namespace tessera::train {

struct Flags {
  std::string data, features, model, hyper, loss = "lambdarank", decay = "cosine";
  std::string split = "by-network", holdout = "tenset5", machine, output, scores, jobs;
  bool json = false;
  double lr = 0;  // 0: by whether weights are given
  dataset::SplitOptions examples;
  TrainOptions train;
};

// A flag that occurs again replaces the earlier one, so that a job overrides what all share.
void add_flags(CLI::App& app, Flags& flags);

// What trainings of all kinds share: how rates fall (`decay` is a word), and where it runs.
void add_optimizer_flags(CLI::App& app, TrainOptions& train, std::string& decay);
void add_machine_flags(CLI::App& app, TrainOptions& train);

// Reads the words among the flags into `train` and `examples`.
Result<void> resolve(Flags& flags);

// "hidden=256,layers=2".
Result<nn::Hyper> parse_hyper(const std::string& text);

// One line of flags per job; empty ones and those that begin with # are skipped.
std::vector<std::vector<std::string>> parse_jobs(const std::string& text);

}  // namespace tessera::train
