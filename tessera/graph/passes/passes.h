// The rewrites of a graph between import and task extraction. `optimize` runs them in the order of
// the list in passes.cc; each is one file of this folder, named as its function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera::graph {

struct PassOptions {
  std::vector<std::string> print_after;  // pass names; "all" prints after each
  std::string stop_after;                // its first run; empty: run all
  std::vector<std::string> skip;
  bool verify = true;  // check types and order after every pass

  // Rewrites that change the rounding of floats: x / c as x * (1 / c), scales into weights.
  bool allow_reassociation = true;

  // conv_winograd pays when its batched product is long enough in both channel counts and the map
  // fills its tiles.
  bool winograd = true;
  std::int64_t winograd_min_channels = 32;
  std::int64_t winograd_min_size = 7;
  // Operations in the time of a byte from memory (target::flops_per_byte): of small maps, the
  // longer weights of winograd may take longer to read than they save. 0: reading is free.
  double flops_per_byte = 0;
  // 1x1 convolutions become products of two matrices: one schedule family instead of two.
  bool pointwise_conv_as_contract = true;
  // Contractions of one input share a kernel; their results are then slices of one buffer.
  bool merge_contractions = false;
  // What tuning chose, by signature (algorithms.h); the rules above decide where it is absent.
  // Signatures that the graph does not have are ignored.
  std::map<std::string, std::string> algorithms;
};

struct PassTime {
  std::string name;  // a pass that runs twice has two entries
  double ms = 0;
  bool changed = false;
};

struct PassReport {
  std::vector<PassTime> times;
  std::string printed;  // text asked for by print_after
};

// Runs the list on a graph that verifies; the result verifies, has the same inputs and outputs and,
// up to rounding, the same values. kInvalidArgument when an option names no pass.
Result<PassReport> optimize(Graph& graph, const PassOptions& options);

// Names in the order of the list, without repetitions.
std::vector<std::string> pass_names();

// Each pass returns whether it changed the graph and leaves dead nodes behind at most: `optimize`
// compacts after every pass. Nodes with several outputs are moved, never rewritten.

// Drops what no output needs.
Result<bool> remove_dead(Graph& graph, const PassOptions& options);
// Merges nodes with equal operator, attributes and inputs, and equal constants.
Result<bool> merge_common(Graph& graph, const PassOptions& options);
// Local identities of arithmetic and data movement.
Result<bool> simplify(Graph& graph, const PassOptions& options);
// Spelled-out softmax, layer and RMS normalisation become one node. Gelu, SiLU, hard-swish and
// their like stay chains of pointwise nodes, which fuse whatever their name is.
Result<bool> match_norms(Graph& graph, const PassOptions& options);
// Constant factors and offsets per channel move into the weights of the neighbouring conv,
// conv_transpose or contract; what is left after one of them is a single add.
Result<bool> fold_scales(Graph& graph, const PassOptions& options);
// Transposes at a contract become an order of its labels.
Result<bool> absorb_transposes(Graph& graph, const PassOptions& options);
// Moves transposes to where fewest bytes are transposed, often none. Never transposes more.
Result<bool> move_transposes(Graph& graph, const PassOptions& options);
// Norms over the positions of images become reductions, where there are convolutions to follow.
Result<bool> open_image_norms(Graph& graph, const PassOptions& options);
// Convolutions compute channels last, and what lies between them follows where that saves bytes.
Result<bool> channels_last(Graph& graph, const PassOptions& options);
// Chooses how a convolution is computed: winograd, matrix product or as it is.
Result<bool> select_algorithms(Graph& graph, const PassOptions& options);
// Pointwise nodes behind a product that was reshaped compute in the shape of the product.
Result<bool> sink_reshapes(Graph& graph, const PassOptions& options);
// Contractions that read one value with constant weights become one (options.merge_contractions).
Result<bool> merge_contractions(Graph& graph, const PassOptions& options);

}  // namespace tessera::graph
