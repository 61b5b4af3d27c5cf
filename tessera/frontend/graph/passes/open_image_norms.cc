// Instance and group normalisation arrive as a layernorm over the last axes of [n, c, h, w], which
// holds the layout in place. As reductions and pointwise nodes they follow their neighbours.
#include <algorithm>
#include <string_view>

#include "tessera/frontend/graph/passes/editor.h"
#include "tessera/frontend/graph/passes/layout_orders.h"
#include "tessera/frontend/graph/passes/passes.h"

namespace tessera::graph {
namespace {

// What is normalised: `x` as `shape`, over the axes from 2 on.
struct ImageNorm {
  ValueId x = kNoValue;
  Shape shape;
  std::vector<ValueId> factors;  // scale and bias that broadcast to `shape`; kNoValue: none
};

// [n, g, c / g, h, w] for a norm over [n, g, c / g * h * w], so that channels stay an axis.
Shape split_groups(const Shape& image, const Shape& grouped) {
  if (grouped.size() != 3 || image.size() < 4 || image[0] != grouped[0] || grouped[1] == 0 ||
      image[1] % grouped[1] != 0) {
    return {};
  }
  Shape out = {image[0], grouped[1], image[1] / grouped[1]};
  out.insert(out.end(), image.begin() + 2, image.end());
  return out;
}

Result<ImageNorm> image_norm(Editor& e, const Node& norm) {
  ImageNorm out;
  const ValueId x = norm.inputs[0];
  const Shape shape = e.shape(x);
  const bool f16 = compute_type(e.dtype(x)) != e.dtype(x);  // its steps would round in between
  if (f16 || norm.attrs.integer("axis") != 2) return out;
  out.factors.assign(norm.inputs.begin() + 1, norm.inputs.end());
  out.factors.resize(2, kNoValue);
  if (shape.size() >= 4) {
    out.x = x;
    out.shape = shape;
    return out;
  }
  const Node* reshape = e.producer(x, "reshape");
  if (!reshape) return out;
  out.shape = split_groups(e.shape(reshape->inputs[0]), shape);
  if (out.shape.empty()) return out;
  for (ValueId& f : out.factors) {
    if (f == kNoValue) continue;
    Shape own = e.shape(f);
    if (own.empty()) continue;
    if (own.back() != 1) return out;
    own.insert(own.end(), out.shape.size() - shape.size(), 1);
    TESSERA_TRY(f, e.add("reshape", {f}, {{"shape", own}}));
  }
  TESSERA_TRY(out.x, e.add("reshape", {reshape->inputs[0]}, {{"shape", out.shape}}));
  return out;
}

Result<ValueId> mean(Editor& e, ValueId x) {
  std::vector<std::int64_t> axes;
  for (std::size_t i = 2; i < e.shape(x).size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return e.add("reduce", {x},
               {{"kind", std::string("mean")}, {"axes", axes}, {"keepdims", std::int64_t{1}}});
}

Result<ValueId> open_norm(Editor& e, const Node& norm) {
  TESSERA_TRY(const ImageNorm n, image_norm(e, norm));
  if (n.x == kNoValue) return kNoValue;
  TESSERA_TRY(const ValueId middle, mean(e, n.x));
  TESSERA_TRY(const ValueId d, e.add("sub", {n.x, middle}));
  TESSERA_TRY(const ValueId squares, e.add("mul", {d, d}));
  TESSERA_TRY(const ValueId variance, mean(e, squares));
  HostTensor epsilon(e.dtype(n.x), {});
  epsilon.set_float(0, norm.attrs.number("epsilon"));
  TESSERA_TRY(const ValueId sum, e.add("add", {variance, e.constant(std::move(epsilon))}));
  TESSERA_TRY(const ValueId root, e.add("sqrt", {sum}));
  TESSERA_TRY(const ValueId factor, e.add("recip", {root}));
  TESSERA_TRY(ValueId y, e.add("mul", {d, factor}));
  if (n.factors[0] != kNoValue) {
    TESSERA_TRY(y, e.add("mul", {y, n.factors[0]}));
  }
  if (n.factors[1] != kNoValue) {
    TESSERA_TRY(y, e.add("add", {y, n.factors[1]}));
  }
  if (e.shape(y) == e.shape(norm.outputs[0])) return y;
  return e.add("reshape", {y}, {{"shape", e.shape(norm.outputs[0])}});
}

bool has_type(const Editor& e, const Node& norm) {
  return std::all_of(norm.inputs.begin(), norm.inputs.end(), [&](ValueId id) {
    return id == kNoValue || e.dtype(id) == e.dtype(norm.inputs[0]);
  });
}

}  // namespace

Result<bool> open_image_norms(Graph& graph, const PassOptions&) {
  const bool images = std::any_of(graph.nodes.begin(), graph.nodes.end(), is_channels_first);
  if (!images) return false;
  return Editor(graph).rewrite([](Editor& e, const Node& node) -> Result<ValueId> {
    if (std::string_view(node.op->name) != "layernorm" || !has_type(e, node)) return kNoValue;
    return open_norm(e, node);
  });
}

}  // namespace tessera::graph
