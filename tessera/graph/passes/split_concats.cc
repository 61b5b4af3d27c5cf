// conv(concat(a, b), w) -> conv(a, w of a) + conv(b, w of b): nothing is copied to stand side by
// side, and the partial sums are stored once more instead.
#include <string_view>

#include "tessera/graph/passes/decide.h"
#include "tessera/graph/passes/editor.h"

namespace tessera::graph {
namespace {

// More parts store and read more partial sums than a copy would move.
constexpr std::size_t kMostParts = 4;

// The concatenation of channels that only this convolution reads; null: there is none.
const Node* joined_channels(const Editor& e, const Node& conv) {
  if (std::string_view(conv.op->name) != "conv" || conv.attrs.integer("group", 1) != 1)
    return nullptr;
  const Node* concat = e.producer(conv.inputs[0], "concat");
  if (!concat || !e.has_one_reader(conv.inputs[0]) || !e.constant_of(conv.inputs[1]))
    return nullptr;
  const auto rank = static_cast<std::int64_t>(e.shape(conv.inputs[0]).size());
  const std::int64_t channels = conv.attrs.word("layout") == "nhwc" ? rank - 1 : 1;
  if (concat->attrs.integer("axis") != channels || concat->inputs.size() > kMostParts)
    return nullptr;
  for (const ValueId part : concat->inputs) {
    if (elements(e.shape(part)) == 0) return nullptr;
  }
  return concat;
}

Result<ValueId> sum_of_parts(Editor& e, const Node& conv, const Node& concat) {
  const auto axis = static_cast<std::size_t>(concat.attrs.integer("axis"));
  const Shape all = e.shape(conv.inputs[1]);
  std::vector<std::int64_t> starts(all.size(), 0);
  const std::vector<std::int64_t> steps(all.size(), 1);
  ValueId sum = kNoValue;
  for (const ValueId part : concat.inputs) {
    Shape size = all;
    size[1] = e.shape(part)[axis];
    TESSERA_TRY(const ValueId w, e.add("slice", {conv.inputs[1]},
                                       {{"starts", starts}, {"steps", steps}, {"sizes", size}}));
    TESSERA_TRY(const ValueId y, e.add("conv", {part, w}, conv.attrs));
    starts[1] += size[1];
    if (sum == kNoValue) {
      sum = y;
    } else {
      TESSERA_TRY(sum, e.add("add", {y, sum}));
    }
  }
  return sum;
}

}  // namespace

Result<bool> split_concats(Graph& graph, const PassOptions& options) {
  if (!options.allow_reassociation) return false;
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    const Node* concat = joined_channels(e, node);
    if (!concat) return kNoValue;
    const plan::Point point = plan::make_point(
        plan::PointKind::kSplit, "concat into " + name_in_plan(e.graph(), node), plan::kJoined);
    TESSERA_TRY(const std::string chosen, decide(options, point));
    if (chosen == plan::kJoined) return kNoValue;
    return sum_of_parts(e, node, *concat);
  });
}

}  // namespace tessera::graph
