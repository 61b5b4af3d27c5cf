// Small networks with fresh weights, and random candidates for them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/learn/nn/network.h"

namespace tessera::nn {

// One candidate as a dataset has it: no padding.
struct Candidate {
  std::vector<std::vector<float>> rows;
  std::vector<int> parents;  // of each row; -1: a root
  std::vector<float> context;
};

// Every network of the table at a size that the interpreter runs in milliseconds.
NetworkSpec small_spec(const std::string& network, const Hyper& hyper = {},
                       std::int64_t context = 3);

std::map<std::string, HostTensor> fresh_weights(const NetworkSpec& spec, std::uint64_t seed);

// Parents come before their children; a row is the child of a random earlier one, or a root.
Candidate random_candidate(const NetworkSpec& spec, std::size_t rows, Rng& rng);

struct Outputs {
  std::vector<float> score, validity, log_time;  // one per candidate
};

// Runs the graph of `spec` at batch = candidates and `rows` rows by the interpreter.
Outputs run(const NetworkSpec& spec, const std::map<std::string, HostTensor>& weights,
            const std::vector<Candidate>& candidates, std::size_t rows);

}  // namespace tessera::nn
