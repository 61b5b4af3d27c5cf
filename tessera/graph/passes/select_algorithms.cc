#include <algorithm>
#include <string_view>

#include <fmt/ranges.h>

#include "tessera/graph/passes/algorithms.h"
#include "tessera/graph/passes/editor.h"
#include "tessera/te/ops/winograd.h"

namespace tessera::graph {
namespace {

using Integers = std::vector<std::int64_t>;

// At index i / 2 the one with output tiles of i x i.
const std::vector<std::string>& convolution_algorithms() {
  static const std::vector<std::string> names = {"direct", "winograd2", "winograd4", "winograd6"};
  return names;
}

Integers per_dim(const Node& conv, const char* name, std::size_t rank, std::int64_t absent) {
  return conv.attrs.has(name) ? conv.attrs.integers(name) : Integers(rank, absent);
}

bool all(const Integers& items, std::int64_t v) {
  return std::all_of(items.begin(), items.end(), [&](std::int64_t i) { return i == v; });
}

// A conv of maps [n, h.., c] in one group whose windows are contiguous and overlap fully.
bool is_dense(const Graph& g, const Node& conv) {
  const std::size_t rank = g.shape(conv.inputs[0]).size() - 2;
  return conv.attrs.word("layout") == "nhwc" && conv.attrs.integer("group", 1) == 1 &&
         all(per_dim(conv, "strides", rank, 1), 1) && all(per_dim(conv, "dilations", rank, 1), 1);
}

// Winograd is there for dense 3x3 windows; f16 and integers do not survive its scaling.
bool has_choice(const Graph& g, const Node& node) {
  if (std::string_view(node.op->name) != "conv" || !is_dense(g, node)) return false;
  const HostTensor* w = g.constant(node.inputs[1]);
  const Shape& out = g.shape(node.outputs[0]);
  return w && w->dtype() == DType::kF32 && g.type(node.inputs[0]).dtype == DType::kF32 &&
         out.size() == 4 && elements(out) > 0 && w->size() > 0 && w->shape()[2] == 3 &&
         w->shape()[3] == 3;
}

// Operations for one pair of channels with output tiles of m x m (0: direct), or those that would
// fit into the time in which its weights are read, if that is longer.
double work_of(std::int64_t m, const Shape& out, double flops_per_byte) {
  const auto tiles = [&](std::int64_t size) { return (size + m - 1) / m; };
  const std::int64_t weights = m == 0 ? 9 : (m + 2) * (m + 2);
  const std::int64_t uses = out[0] * (m == 0 ? out[1] * out[2] : tiles(out[1]) * tiles(out[2]));
  const double flops = 2.0 * static_cast<double>(weights * uses);
  return std::max(flops, flops_per_byte * static_cast<double>(weights) * size_bytes(DType::kF32));
}

const std::string& preferred_algorithm(const Graph& g, const Node& conv,
                                       const PassOptions& options) {
  const Shape& k = g.shape(conv.inputs[1]);
  return preferred_convolution(k[1], k[0], g.shape(conv.outputs[0]), options);
}

// The output tile of winograd, 0 for a direct convolution.
Result<int> chosen_tile(const Graph& g, const Node& conv, const PassOptions& options) {
  const auto it = options.algorithms.find(*algorithm_signature(g, conv));
  const std::string& name =
      it == options.algorithms.end() ? preferred_algorithm(g, conv, options) : it->second;
  const std::vector<std::string>& known = convolution_algorithms();
  const auto found = std::find(known.begin(), known.end(), name);
  if (found != known.end()) return static_cast<int>(2 * (found - known.begin()));
  return make_error(ErrorCode::kInvalidArgument, "{}: no algorithm '{}'; algorithms are: {}",
                    it->first, name, fmt::join(known, " "));
}

Result<ValueId> to_winograd(Editor& e, const Node& conv, int m) {
  TESSERA_TRY(HostTensor u, te::winograd_weights(*e.constant_of(conv.inputs[1]), m));
  return e.add("conv_winograd", {conv.inputs[0], e.constant(std::move(u))},
               {{"m", std::int64_t{m}},
                {"before", per_dim(conv, "before", 2, 0)},
                {"after", per_dim(conv, "after", 2, 0)}});
}

// A 1x1 window without padding: positions times channels, channels times channels.
bool is_product(const Editor& e, const Node& conv) {
  const Shape& w = e.shape(conv.inputs[1]);
  const std::size_t rank = w.size() - 2;
  return all(Integers(w.begin() + 2, w.end()), 1) && all(per_dim(conv, "before", rank, 0), 0) &&
         all(per_dim(conv, "after", rank, 0), 0);
}

Result<ValueId> to_contract(Editor& e, const Node& conv) {
  const Shape &x = e.shape(conv.inputs[0]), &w = e.shape(conv.inputs[1]);
  const std::int64_t ci = x.back(), co = w[0];
  std::int64_t positions = 1;
  for (std::size_t d = 0; d + 1 < x.size(); ++d) positions *= x[d];
  TESSERA_TRY(const ValueId rows,
              e.add("reshape", {conv.inputs[0]}, {{"shape", Shape{positions, ci}}}));
  TESSERA_TRY(const ValueId weights,
              e.add("reshape", {conv.inputs[1]}, {{"shape", Shape{co, ci}}}));
  TESSERA_TRY(
      const ValueId y,
      e.add("contract", {rows, weights},
            {{"a", std::string("mk")}, {"b", std::string("nk")}, {"out", std::string("mn")}}));
  return e.add("reshape", {y}, {{"shape", e.shape(conv.outputs[0])}});
}

}  // namespace

// The rule without measurements. Few channels leave the transforms unpaid; small maps waste most of
// their 4x4 tiles. F(4 x 4, 3 x 3) takes 36 products for 16 outputs instead of 144, with an error
// that f32 hides, and four times the weights: where few tiles share them, memory decides.
const std::string& preferred_convolution(std::int64_t ci, std::int64_t co, const Shape& out,
                                         const PassOptions& options) {
  std::int64_t best = 0;
  if (options.winograd && std::min(ci, co) >= options.winograd_min_channels &&
      std::min(out[1], out[2]) >= options.winograd_min_size) {
    for (const std::int64_t m : {2, 4}) {
      const double work = work_of(m, out, options.flops_per_byte);
      if (work <= work_of(best, out, options.flops_per_byte)) best = m;
    }
  }
  return convolution_algorithms()[static_cast<std::size_t>(best / 2)];
}

std::optional<std::string> algorithm_signature(const Graph& graph, const Node& node) {
  const bool transformed = std::string_view(node.op->name) == "conv_winograd";
  if (!transformed && !has_choice(graph, node)) return std::nullopt;
  const Shape &x = graph.shape(node.inputs[0]), &w = graph.shape(node.inputs[1]);
  const Integers before = per_dim(node, "before", 2, 0), after = per_dim(node, "after", 2, 0);
  return fmt::format("conv n{} h{} w{} ci{} co{} k3x3 s1 p{},{},{},{} g1", x[0], x[1], x[2], x[3],
                     transformed ? w[3] : w[0], before[0], before[1], after[0], after[1]);
}

std::vector<AlgorithmChoice> algorithm_choices(const Graph& graph, const PassOptions& options) {
  std::vector<AlgorithmChoice> choices;
  for (const Node& node : graph.nodes) {
    if (!has_choice(graph, node)) continue;
    const std::string signature = *algorithm_signature(graph, node);
    auto it = std::find_if(choices.begin(), choices.end(),
                           [&](const AlgorithmChoice& c) { return c.signature == signature; });
    if (it == choices.end()) {
      choices.push_back(
          {signature, convolution_algorithms(), preferred_algorithm(graph, node, options), 0});
      it = choices.end() - 1;
    }
    ++it->count;
  }
  return choices;
}

Result<bool> select_algorithms(Graph& graph, const PassOptions& options) {
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    if (std::string_view(node.op->name) != "conv" || !is_dense(e.graph(), node)) return kNoValue;
    if (has_choice(e.graph(), node)) {
      TESSERA_TRY(const int tile, chosen_tile(e.graph(), node, options));
      if (tile > 0) return to_winograd(e, node, tile);
    }
    if (options.pointwise_conv_as_contract && is_product(e, node)) return to_contract(e, node);
    return kNoValue;
  });
}

}  // namespace tessera::graph
