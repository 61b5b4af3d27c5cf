#include "tessera/frontend/graph/ops/broadcast.h"

#include <algorithm>

namespace tessera::graph {

Result<Shape> broadcast_shapes(const std::vector<const Shape*>& shapes) {
  std::size_t rank = 0;
  for (const Shape* shape : shapes) rank = std::max(rank, shape->size());
  Shape out(rank, 1);
  for (const Shape* shape : shapes) {
    const std::size_t skip = rank - shape->size();
    for (std::size_t d = 0; d < shape->size(); ++d) {
      const std::int64_t size = (*shape)[d];
      if (size == 1 || size == out[skip + d]) continue;
      if (out[skip + d] != 1) {
        std::string text;
        for (const Shape* s : shapes) text += (text.empty() ? "" : ", ") + tessera::to_text(*s);
        return make_error(ErrorCode::kInvalidArgument, "shapes {} do not broadcast", text);
      }
      out[skip + d] = size;
    }
  }
  return out;
}

bool broadcasts_to(const Shape& shape, const Shape& target) {
  const auto result = broadcast_shapes({&shape, &target});
  return result.ok() && *result == target;
}

te::NamedAxes axes_over(const Shape& shape, const char* letter) {
  te::NamedAxes axes;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    axes.emplace_back(fmt::format("{}{}", letter, d), shape[d]);
  }
  return axes;
}

ir::Expr immediate(const HostTensor* constant) {
  if (constant == nullptr || constant->size() != 1) return {};
  const DType t = constant->dtype();
  return is_float(t) ? ir::FloatImm::make(t, constant->get_float(0))
                     : ir::IntImm::make(t, constant->get_int(0));
}

}  // namespace tessera::graph
