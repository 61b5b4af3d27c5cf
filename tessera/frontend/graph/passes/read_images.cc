// conv(transpose(x), w) with channels last -> a convolution that reads x, whose channels come
// first, and writes channels last: each element that it reads is broadcast to the lanes of all
// channels that it writes, so it may come from anywhere.
#include <string_view>

#include <fmt/format.h>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/layout_orders.h"

namespace tessera::graph {
namespace {

// More are read from as many places at once: further apart than a page, and than lines are fetched
// ahead.
constexpr std::int64_t kFewChannels = 4;

// The transpose that makes the channels of an image the last, which only this convolution reads.
const Node* turned_image(const Editor& e, const Node& conv) {
  if (!conv.op->is(fact::kConvolves) || conv.op->is(fact::kTransposed) ||
      conv.attrs.integer("group", 1) != 1 || conv.attrs.word("layout") != "nhwc" ||
      conv.attrs.has("reads"))
    return nullptr;
  const Node* transpose = e.producer(conv.inputs[0], "transpose");
  if (!transpose || !e.has_one_reader(conv.inputs[0])) return nullptr;
  const Shape shape = e.shape(conv.inputs[0]);
  const bool depthwise = shape.back() == 1 && e.shape(conv.inputs[1])[0] == 1;
  const bool fits = transpose->attrs.integers("perm") == channels_last_order(shape.size());
  return fits && !depthwise ? transpose : nullptr;
}

}  // namespace

Result<bool> read_images(Graph& graph, const PassOptions& options) {
  if (options.rules.moves_inside) return false;  // the kernels of convolutions turn what they read
  return Editor(graph).rewrite([&](Editor& e, const Node& node) -> Result<ValueId> {
    const Node* transpose = turned_image(e, node);
    if (!transpose) return kNoValue;
    const bool few = e.shape(node.inputs[0]).back() <= kFewChannels;
    const std::string key =
        fmt::format("front image {} of {}", to_text(e.shape(transpose->inputs[0])),
                    name_in_plan(e.graph(), *transpose));
    const plan::Point point =
        plan::make_point(plan::PointKind::kFront, key, few ? plan::kFused : plan::kStored);
    TESSERA_TRY(const std::string chosen, decide(options, point));
    if (chosen == plan::kStored) return kNoValue;
    Attrs attrs = node.attrs;
    attrs.set("reads", std::string("nchw"));
    return e.add("conv", {transpose->inputs[0], node.inputs[1]}, std::move(attrs));
  });
}

}  // namespace tessera::graph
