// contract(slice(x), y) -> contract(x, y) that reads the part of x, also through a reshape of the
// slice. Each operand gets a reshape of its own: two parts of one value are then two operands,
// which a schedule can treat differently.
#include <functional>
#include <numeric>
#include <optional>

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {
namespace {

using Integers = std::vector<std::int64_t>;

// An operand as a part of another value.
struct Part {
  ValueId whole = kNoValue;
  Shape shape;  // that `whole` is read in
  Integers starts, sizes;
};

std::int64_t product(const Shape& shape, std::size_t from, std::size_t to) {
  std::int64_t out = 1;
  for (std::size_t i = from; i < to; ++i) out *= shape[i];
  return out;
}

// The only axis along which the slice leaves something out; nullopt: there are none or several.
std::optional<std::size_t> sliced_axis(const Shape& whole, const Shape& sizes) {
  std::optional<std::size_t> axis;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] == sizes[d]) continue;
    if (axis) return std::nullopt;
    axis = d;
  }
  return axis;
}

// reshape(slice(x), shape) as a slice of a reshape of x: the axis that is cut must remain the outer
// part of an axis, as when the channels of all heads become heads and channels.
std::optional<Part> behind_reshape(const Part& slice, const Shape& shape) {
  const auto cut = sliced_axis(slice.shape, slice.sizes);
  if (!cut || elements(shape) == 0) return std::nullopt;
  const std::int64_t before = product(slice.sizes, 0, *cut);
  const std::int64_t after = product(slice.sizes, *cut + 1, slice.sizes.size());
  const std::int64_t size = slice.shape[*cut], start = slice.starts[*cut];
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t rest = product(shape, axis + 1, shape.size());
    if (product(shape, 0, axis) != before || rest % after != 0) continue;
    const std::int64_t inner = rest / after;
    if (shape[axis] * inner != slice.sizes[*cut]) continue;
    if (size % inner != 0 || start % inner != 0) continue;
    Part out{slice.whole, shape, Integers(shape.size(), 0), shape};
    out.shape[axis] = size / inner;
    out.starts[axis] = start / inner;
    return out;
  }
  return std::nullopt;
}

std::optional<Part> part_of(const Editor& e, ValueId id) {
  const Node* reshape = e.producer(id, "reshape");
  const Node* slice = e.producer(reshape ? reshape->inputs[0] : id, "slice");
  if (!slice) return std::nullopt;
  for (const std::int64_t step : slice->attrs.integers("steps")) {
    if (step != 1) return std::nullopt;
  }
  const Part part{slice->inputs[0], e.shape(slice->inputs[0]), slice->attrs.integers("starts"),
                  slice->attrs.integers("sizes")};
  if (e.constant_of(part.whole)) return std::nullopt;
  return reshape ? behind_reshape(part, e.shape(id)) : part;
}

Result<ValueId> absorb(Editor& e, const Node& node) {
  if (!node.op->is(fact::kContracts)) return kNoValue;
  std::vector<ValueId> inputs = node.inputs;
  Attrs attrs = node.attrs;
  bool changed = false;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "a" : "b";
    const std::optional<Part> part =
        attrs.has(name + "_starts") ? std::nullopt : part_of(e, inputs[i]);
    if (!part) continue;
    inputs[i] = part->whole;
    if (e.shape(part->whole) != part->shape) {
      TESSERA_TRY(inputs[i], e.add("reshape", {part->whole}, {{"shape", part->shape}}));
    }
    attrs.set(name + "_starts", part->starts);
    attrs.set(name + "_sizes", part->sizes);
    changed = true;
  }
  return changed ? e.add("contract", inputs, attrs) : kNoValue;
}

}  // namespace

Result<bool> absorb_slices(Graph& graph, const PassOptions& options) {
  if (!options.rules.slices_in_place) return false;
  return Editor(graph).rewrite(absorb);
}

}  // namespace tessera::graph
