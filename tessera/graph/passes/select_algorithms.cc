#include <algorithm>
#include <string_view>

#include "tessera/graph/passes/editor.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/te/ops/winograd.h"

namespace tessera::graph {
namespace {

using Integers = std::vector<std::int64_t>;

// F(4 x 4, 3 x 3): 36 products for 16 outputs instead of 144, with an error that f32 hides.
constexpr int kWinogradTile = 4;

Integers per_dim(const Node& conv, const char* name, std::size_t rank, std::int64_t absent) {
  return conv.attrs.has(name) ? conv.attrs.integers(name) : Integers(rank, absent);
}

bool all(const Integers& items, std::int64_t v) {
  return std::all_of(items.begin(), items.end(), [&](std::int64_t i) { return i == v; });
}

// A conv of maps [n, h.., c] in one group whose windows are contiguous and overlap fully.
bool is_dense(const Editor& e, const Node& conv) {
  const std::size_t rank = e.shape(conv.inputs[0]).size() - 2;
  return conv.attrs.word("layout") == "nhwc" && conv.attrs.integer("group", 1) == 1 &&
         all(per_dim(conv, "strides", rank, 1), 1) && all(per_dim(conv, "dilations", rank, 1), 1);
}

// The one rule for winograd. Few channels leave its transforms unpaid; small maps waste most of
// their 4x4 tiles; f16 and integers do not survive its scaling.
bool prefers_winograd(const Editor& e, const Node& conv, const PassOptions& options) {
  const HostTensor* w = e.constant_of(conv.inputs[1]);
  const Shape& out = e.shape(conv.outputs[0]);
  if (!options.winograd || !w || w->dtype() != DType::kF32 || out.size() != 4) return false;
  const Shape& k = w->shape();
  return e.dtype(conv.inputs[0]) == DType::kF32 && k[2] == 3 && k[3] == 3 &&
         std::min(k[0], k[1]) >= options.winograd_min_channels &&
         std::min(out[1], out[2]) >= options.winograd_min_size;
}

Result<ValueId> to_winograd(Editor& e, const Node& conv) {
  TESSERA_TRY(HostTensor u, te::winograd_weights(*e.constant_of(conv.inputs[1]), kWinogradTile));
  return e.add("conv_winograd", {conv.inputs[0], e.constant(std::move(u))},
               {{"m", std::int64_t{kWinogradTile}},
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

Result<bool> select_algorithms(Graph& graph, const PassOptions& options) {
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    if (std::string_view(node.op->name) != "conv" || !is_dense(e, node)) return kNoValue;
    if (prefers_winograd(e, node, options)) return to_winograd(e, node);
    if (options.pointwise_conv_as_contract && is_product(e, node)) return to_contract(e, node);
    return kNoValue;
  });
}

}  // namespace tessera::graph
