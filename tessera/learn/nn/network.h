// Cost model networks, each defined once as a graph: training evaluates that graph with gradients,
// scoring compiles it. Nothing here knows how either is done.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/frontend/graph/builder.h"
#include "tessera/scheduling/feature/rows.h"
#include "tessera/support/result.h"
#include "tessera/support/rng.h"

namespace tessera::nn {

using feature::Rows;

// Sizes of one instance: `batch` candidates padded to `rows` rows each.
struct InstanceShape {
  std::int64_t batch = 0, rows = 0;
};

// Hyper-parameters by name ("hidden", "layers", "heads", "steps", ...): whole numbers.
using Hyper = std::map<std::string, std::int64_t>;

// What a network reads, all f32, zero where padded.
struct Inputs {
  graph::ValueId rows = graph::kNoValue;     // [batch, rows, columns], normalised
  graph::ValueId mask = graph::kNoValue;     // [batch, rows]: 1 for real rows
  graph::ValueId context = graph::kNoValue;  // [batch, context columns], normalised: the operator
  graph::ValueId parents =
      graph::kNoValue;  // kLoop only: [batch, rows, rows], 1 at (parent, child)
};

// kUniformFanIn: within 1 / sqrt(fan_in) of 0; kNormal: with that standard deviation.
enum class Init : std::uint8_t { kUniformFanIn, kZero, kOne, kNormal };

// A weight; an input of the graph under this name.
struct Parameter {
  std::string name;
  Shape shape;
  Init init = Init::kUniformFanIn;
  std::int64_t fan_in = 1;
};

struct NetworkSpec {
  std::string network;                    // of network_table()
  Hyper hyper;                            // complete: every name the network has
  std::int64_t columns = 0, context = 0;  // of a row; of the operator embedding (may be 0)
  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

// Inputs of `graph`: the present ones of "rows", "mask", "context", "parents" in that order, then
// the parameters in order. Outputs, f32[batch] each:
//   "score"    higher is faster; only the order within a task means something
//   "validity" logit of building and running at all
//   "log_time" log2 of the seconds, as far as the rows tell
struct Network {
  graph::Graph graph;
  Rows rows = Rows::kStatement;
  std::vector<Parameter> parameters;
};

class NetworkBuilder;

struct NetworkEntry {
  const char* name;
  const char* doc;
  Rows rows;
  Hyper defaults;  // complete; others are refused. "hidden" is also the width of the heads
  // Encodes a candidate as one vector [batch, width]; the heads are added behind it, the same for
  // all networks. Failures are kept by the builder.
  graph::ValueId (*encode)(NetworkBuilder& b, const Inputs& inputs, const Hyper& hyper);
};

const std::vector<NetworkEntry>& network_table();
Result<const NetworkEntry*> find_network(const std::string& name);  // the error lists the names

// `hyper` may leave names out: defaults. kInvalidArgument for unknown names and useless values.
Result<NetworkSpec> make_spec(const std::string& network, const Hyper& hyper, std::int64_t columns,
                              std::int64_t context);
// The same parameters for every shape. kInvalidArgument also for rows that the network cannot hold.
Result<Network> build_network(const NetworkSpec& spec, const InstanceShape& shape);

// True: the outputs for a candidate depend on how many rows it is padded to.
bool sees_padding(const NetworkSpec& spec);
// The rows that a candidate of `count` is padded to, in training and in scoring: padding costs
// time, every further size an instance. At most 128, or what the network holds; candidates with
// more lose those behind.
std::int64_t padded_rows(const NetworkSpec& spec, std::int64_t count);

// Fresh weights: the same for the same seed on every machine.
HostTensor initial_value(const Parameter& parameter, Rng& rng);

}  // namespace tessera::nn
