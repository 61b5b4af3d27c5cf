// The rewrites of a graph between import and task extraction. `optimize` runs them in the order of
// the list in passes.cc; each is one file of this folder, named as its function.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tessera/frontend/graph/graph.h"
#include "tessera/frontend/plan/convolution.h"
#include "tessera/frontend/plan/decider.h"

namespace tessera::graph {

// Whether products with weights of few bits may round what they multiply to bytes, block by block:
// where the model permits it (accuracy_level of MatMulNBits), or nowhere, or everywhere.
enum class Rounding : std::uint8_t { kAsModel, kNever, kAlways };

struct PassOptions {
  std::vector<std::string> print_after;  // pass names; "all" prints after each
  std::string stop_after;                // its first run; empty: run all
  std::vector<std::string> skip;
  bool verify = true;  // check types and order after every pass

  // Rewrites that change the rounding of floats: x / c as x * (1 / c), scales into weights.
  bool allow_reassociation = true;

  // What f32 is computed in: kF32, kF16 or kBF16. Inputs and outputs of the graph keep their types.
  DType floats = DType::kF32;
  // Narrower floats that are computed in f32: the machine has no arithmetic for them.
  std::set<DType> widened;
  Rounding rounding = Rounding::kAsModel;
  // Narrow floats are multiplied in windows as well: pools, depthwise and grouped convolutions.
  bool narrow_windows = true;

  // Weights that an algorithm wants in another form get the right shape but no values: for those
  // who ask which kernels many plans lead to, and run none.
  bool shapes_only = false;

  // What is decided without measuring, and by whom it is decided: null, by these rules alone.
  plan::Rules rules;
  std::shared_ptr<plan::Decider> decider;
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

// Runs the passes before the first decision: what they leave is the same for all plans.
Result<void> optimize_undecided(Graph& graph, PassOptions options);

// Names in the order of the list, without repetitions.
std::vector<std::string> pass_names();

// Each pass returns whether it changed the graph and leaves dead nodes behind at most: `optimize`
// compacts after every pass. Nodes with several outputs are moved, never rewritten.

// Of products that import offers twice, of bytes and of floats, the one that was decided.
Result<bool> choose_integers(Graph& graph, const PassOptions& options);
// Weights that the model stores as integers of few bits become floats, unless it was decided that
// their products read them as they are.
Result<bool> choose_storage(Graph& graph, const PassOptions& options);
// Values of floats that the machine has no arithmetic for become f32, constants too. What only
// looks up a table, or runs on the host, keeps the type.
Result<bool> widen_floats(Graph& graph, const PassOptions& options);
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
// Values of f32 become narrower floats, constants too; sums, norms and softmax stay f32 inside.
// What its operator refuses, or runs on the host, stays f32 between casts.
Result<bool> narrow_floats(Graph& graph, const PassOptions& options);
// Transposes at a contract become an order of its labels.
Result<bool> absorb_transposes(Graph& graph, const PassOptions& options);
// Moves transposes to where fewest bytes are transposed, often none. Never transposes more.
Result<bool> move_transposes(Graph& graph, const PassOptions& options);
// Permutations of channels go into the constants of what reads them, where that was decided.
Result<bool> absorb_shuffles(Graph& graph, const PassOptions& options);
// Norms over the positions of images become reductions, where there are convolutions to follow.
Result<bool> open_image_norms(Graph& graph, const PassOptions& options);
// Convolutions compute channels last unless decided otherwise, and what lies between them follows
// where that saves bytes.
Result<bool> channels_last(Graph& graph, const PassOptions& options);
// A convolution of a concatenation becomes the sum of those of its parts where that was decided.
Result<bool> split_concats(Graph& graph, const PassOptions& options);
// Rewrites each convolution to the algorithm that was decided for it: Winograd, matrix product or
// as it is.
Result<bool> select_algorithms(Graph& graph, const PassOptions& options);
// Factors of the channels that a product sums over go to its weights, where that was decided.
Result<bool> fold_gates(Graph& graph, const PassOptions& options);
// Convolutions of few channels read images whose channels come first, where that was decided.
Result<bool> read_images(Graph& graph, const PassOptions& options);
// Pointwise nodes behind a product that was reshaped compute in the shape of the product.
Result<bool> sink_reshapes(Graph& graph, const PassOptions& options);
// Contractions that read one value with constant weights become one where that was decided.
Result<bool> merge_contractions(Graph& graph, const PassOptions& options);
// Contractions read the values that their operands are slices of, where the rules say so.
Result<bool> absorb_slices(Graph& graph, const PassOptions& options);
// Products of f32 with constant weights become products of parts in bf16, where the rules say so.
Result<bool> split_floats(Graph& graph, const PassOptions& options);
// Products read constants that are stored narrower than they compute.
Result<bool> store_constants(Graph& graph, const PassOptions& options);

}  // namespace tessera::graph
