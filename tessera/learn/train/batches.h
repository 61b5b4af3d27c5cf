// Examples of a feature store as the steps of an epoch: lists of one task each, packed into batches
// of few shapes and padded little.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/learn/dataset/features.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/support/rng.h"

namespace tessera::train {

// Examples of one task on one machine: the only ones whose scores compare.
struct Query {
  std::int32_t task = 0, machine = 0;
  std::vector<std::uint32_t> examples;
};

// What planning needs to know of every example.
struct ExampleFacts {
  std::vector<std::int32_t> row_counts;
  std::vector<bool> timed;
};
ExampleFacts read_facts(const dataset::FeatureStore& store);

// Examples whose `part` is `wanted`, by task and machine. Failed examples without any feature,
// which is how the store keeps what it could not read, are left out.
std::vector<Query> queries_of(const dataset::FeatureStore& store,
                              std::span<const std::uint8_t> part, std::uint8_t wanted);

struct Step {
  std::vector<std::vector<std::uint32_t>> lists;
  std::int64_t rows = 0;
};

// Each example once, in random order. A list has at most `list` examples of one query, a step has
// lists of similar length in rows until it has `batch` examples. For a network that sees its
// padding every example of a step has its own nn::padded_rows.
std::vector<Step> plan_epoch(const nn::NetworkSpec& spec, const std::vector<Query>& queries,
                             const ExampleFacts& facts, std::int64_t batch, std::int64_t list,
                             Rng& rng);
// `examples` in steps of at most `batch`, short ones first, one list a step: for prediction.
std::vector<Step> plan_prediction(const nn::NetworkSpec& spec,
                                  std::span<const std::uint32_t> examples,
                                  const ExampleFacts& facts, std::int64_t batch);

// The numbers that a step needs, in host memory. A batch is filled up with repetitions of its first
// example (weight 0), so that few shapes occur and every slot is a real candidate. Rows that a step
// has no room for are left out.
struct Batch {
  nn::InstanceShape shape;
  std::vector<float> rows, mask, context, parents;  // as nn::Inputs; empty where there are none
  std::vector<float> weight;                        // per slot: 1, or 0 for repetitions
  std::vector<float> timed;                         // per slot: 1, or 0 for failed ones
  std::vector<float> log_time;  // per slot: log2 seconds - time_shift; 0 for failed ones
  std::int64_t lists = 0, length = 0;
  std::vector<std::int64_t> slots;      // [lists, length]: slots of the timed members
  std::vector<float> labels, member;    // [lists, length]
  std::vector<std::uint32_t> examples;  // of the slots, without repetitions
};

struct Scaling {
  nn::Normalizer rows, context;
  double time_shift = 0;
};
Batch fill_batch(const dataset::FeatureStore& store, const Step& step, const Scaling& scaling);

// One pass over the examples of `queries`: mean and deviation of each column over real rows, and of
// the timed ones' log2 seconds. Columns of rare large values are scaled by their range instead, so
// that no training value leaves [-10, 10]. Constant columns have scale 0.
Scaling fit_scaling(const dataset::FeatureStore& store, const std::vector<Query>& queries);

}  // namespace tessera::train
