// either(x, y) -> x or y: what a product of quantized operands multiplies.
#include <string_view>

#include "tessera/frontend/graph/passes/decide.h"
#include "tessera/frontend/graph/passes/editor.h"

namespace tessera::graph {

Result<bool> choose_integers(Graph& graph, const PassOptions& options) {
  return Editor(graph).rewrite([&](Editor&, const Node& node) -> Result<ValueId> {
    if (std::string_view(node.op->name) != "either") return kNoValue;
    const char* first = node.attrs.integer("bytes_first") != 0 ? plan::kBytes : plan::kFloats;
    const plan::Point point =
        plan::make_point(plan::PointKind::kInteger, node.attrs.word("key"), first);
    TESSERA_TRY(const std::string value, decide(options, point));
    const std::int64_t only = node.attrs.integer("only");
    if (only != 0 && value != (only == 1 ? plan::kBytes : plan::kFloats)) {
      return make_error(ErrorCode::kInvalidArgument, "{}: was imported otherwise than as {}",
                        point.name, value);
    }
    return node.inputs[value == first ? 0 : 1];
  });
}

}  // namespace tessera::graph
