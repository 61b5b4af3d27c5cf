// The layers without weights: activations, arithmetic, movement of data.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/frontend/zoo/layers.h"
#include "tessera/frontend/zoo/moments.h"

namespace tessera::zoo {
namespace {

double relu_of(double x) { return std::max(x, 0.0); }
double relu6_of(double x) { return std::clamp(x, 0.0, 6.0); }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double hard_sigmoid_of(double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }
double hard_swish_of(double x) { return x * hard_sigmoid_of(x); }
double silu_of(double x) { return x * sigmoid_of(x); }
double tanh_of(double x) { return std::tanh(x); }
double gelu_of(double x) { return x * (1 + std::erf(x / std::numbers::sqrt2)) / 2; }

Shape broadcast(ModelBuilder& b, const Value& x, const Value& y) {
  Shape shape = x.shape.size() >= y.shape.size() ? x.shape : y.shape;
  const Shape& other = x.shape.size() >= y.shape.size() ? y.shape : x.shape;
  const std::size_t shift = shape.size() - other.size();
  for (std::size_t d = 0; d < other.size(); ++d) {
    TESSERA_CHECK(
        b.failed() || shape[shift + d] == other[d] || other[d] == 1 || shape[shift + d] == 1,
        "zoo: {} and {} do not broadcast", to_text(x.shape), to_text(y.shape));
    if (shape[shift + d] == 1) shape[shift + d] = other[d];
  }
  return shape;
}

Value same_shape(ModelBuilder& b, const char* op, const Value& x, double (*f)(double),
                 Attributes attributes = {}) {
  return b.node(op, {x}, x.shape, std::move(attributes), through(f, x.moments));
}

std::size_t index_of(const Value& x, std::int64_t axis) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(x.shape.size())
                                           : axis);
}

}  // namespace

Value activate(ModelBuilder& b, const Value& x, Act act) {
  switch (act) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return relu(b, x);
    case Act::kRelu6:
      return b.node("Clip", {x, b.scalar(0), b.scalar(6)}, x.shape, {},
                    through(relu6_of, x.moments));
    case Act::kHardSwish:
      return same_shape(b, "HardSwish", x, hard_swish_of);
    case Act::kSilu: {
      Value y = mul(b, x, sigmoid(b, x));
      y.moments = through(silu_of, x.moments);
      return y;
    }
  }
  TESSERA_CHECK(false, "zoo: activation without a case");
  return x;
}

Value relu(ModelBuilder& b, const Value& x) { return same_shape(b, "Relu", x, relu_of); }
Value sigmoid(ModelBuilder& b, const Value& x) { return same_shape(b, "Sigmoid", x, sigmoid_of); }
Value tanh(ModelBuilder& b, const Value& x) { return same_shape(b, "Tanh", x, tanh_of); }
Value hard_sigmoid(ModelBuilder& b, const Value& x) {
  return same_shape(b, "HardSigmoid", x, hard_sigmoid_of, {attr("alpha", 1.0 / 6)});
}

Value gelu_erf(ModelBuilder& b, const Value& x) {
  const Value scaled_x = div(b, x, b.scalar(std::numbers::sqrt2));
  const Value erf = b.node("Erf", {scaled_x}, x.shape);
  const Value gate = add(b, erf, b.scalar(1));
  Value y = mul(b, mul(b, x, gate), b.scalar(0.5));
  y.moments = through(gelu_of, x.moments);
  return y;
}

Value gelu_tanh(ModelBuilder& b, const Value& x) {
  const Value half = mul(b, x, b.scalar(0.5));
  const Value cube = b.node("Pow", {x, b.scalar(3)}, x.shape);
  const Value inner = add(b, x, mul(b, cube, b.scalar(0.044715)));
  const Value gate = tanh(b, mul(b, inner, b.scalar(std::sqrt(2 / std::numbers::pi))));
  Value y = mul(b, half, add(b, gate, b.scalar(1)));
  y.moments = through(gelu_of, x.moments);
  return y;
}

Value add(ModelBuilder& b, const Value& x, const Value& y) {
  return b.node("Add", {x, y}, broadcast(b, x, y), {}, sum_of(x.moments, y.moments));
}
Value sub(ModelBuilder& b, const Value& x, const Value& y) {
  return b.node("Sub", {x, y}, broadcast(b, x, y), {}, sum_of(x.moments, scaled(y.moments, -1)));
}
Value mul(ModelBuilder& b, const Value& x, const Value& y) {
  return b.node("Mul", {x, y}, broadcast(b, x, y), {}, product_of(x.moments, y.moments));
}
Value div(ModelBuilder& b, const Value& x, const Value& y) {
  const double divisor = y.moments.mean != 0 ? y.moments.mean : 1;
  return b.node("Div", {x, y}, broadcast(b, x, y), {}, scaled(x.moments, 1 / divisor));
}

Value concat(ModelBuilder& b, const std::vector<Value>& parts, std::int64_t axis) {
  Shape shape = parts[0].shape;
  const std::size_t at = index_of(parts[0], axis);
  shape[at] = 0;
  for (const Value& part : parts) shape[at] += part.shape[at];
  return b.node("Concat", parts, shape, {attr("axis", axis)}, mixture(parts));
}

Value flatten(ModelBuilder& b, const Value& x) {
  const Shape inner(x.shape.begin() + 1, x.shape.end());
  return b.node("Flatten", {x}, {x.dim(0), elements(inner)}, {attr("axis", 1)}, x.moments);
}

Value reshape(ModelBuilder& b, const Value& x, const Shape& shape) {
  TESSERA_CHECK(b.failed() || elements(shape) == elements(x.shape), "zoo: reshape of {} to {}",
                to_text(x.shape), to_text(shape));
  return b.node("Reshape", {x, b.ints(shape)}, shape, {attr("allowzero", 0)}, x.moments);
}

Value transpose(ModelBuilder& b, const Value& x, const std::vector<std::int64_t>& perm) {
  Shape shape;
  for (const std::int64_t axis : perm) shape.push_back(x.dim(static_cast<std::size_t>(axis)));
  return b.node("Transpose", {x}, shape, {attr("perm", perm)}, x.moments);
}

Value slice(ModelBuilder& b, const Value& x, std::int64_t axis, std::int64_t begin,
            std::int64_t end) {
  Shape shape = x.shape;
  shape[index_of(x, axis)] = end - begin;
  return b.node("Slice", {x, b.ints({begin}), b.ints({end}), b.ints({axis})}, shape, {}, x.moments);
}

std::vector<Value> split(ModelBuilder& b, const Value& x, std::int64_t parts, std::int64_t axis) {
  Shape shape = x.shape;
  shape[index_of(x, axis)] /= parts;
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(parts), shape[index_of(x, axis)]);
  return b.nodes("Split", {x, b.ints(sizes)},
                 std::vector<Shape>(static_cast<std::size_t>(parts), shape), {attr("axis", axis)},
                 x.moments);
}

Value unsqueeze(ModelBuilder& b, const Value& x, std::int64_t axis) {
  Shape shape = x.shape;
  shape.insert(shape.begin() + axis, 1);
  return b.node("Unsqueeze", {x, b.ints({axis})}, shape, {}, x.moments);
}

Value gather(ModelBuilder& b, const Value& table, const Value& indices, std::int64_t axis) {
  const auto at = static_cast<std::ptrdiff_t>(index_of(table, axis));
  Shape shape(table.shape.begin(), table.shape.begin() + at);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), table.shape.begin() + at + 1, table.shape.end());
  return b.node("Gather", {table, indices}, shape, {attr("axis", axis)}, table.moments);
}

Value matmul(ModelBuilder& b, const Value& x, const Value& y, Moments moments) {
  TESSERA_CHECK(b.failed() || x.shape.back() == y.shape[y.shape.size() - 2],
                "zoo: product of {} and {}", to_text(x.shape), to_text(y.shape));
  Shape shape = x.shape;
  shape.back() = y.shape.back();
  return b.node("MatMul", {x, y}, shape, {}, moments);
}

Value softmax(ModelBuilder& b, const Value& x) {
  const double mean = 1 / static_cast<double>(std::max<std::int64_t>(1, x.shape.back()));
  return b.node("Softmax", {x}, x.shape, {attr("axis", -1)},
                {.mean = mean, .var = 1.7 * mean * mean, .low = 0, .high = 1});
}

Value reduce_mean(ModelBuilder& b, const Value& x, std::vector<std::int64_t> axes, bool keep) {
  Shape shape = x.shape;
  double count = 1;
  for (const std::int64_t axis : axes) {
    count *= static_cast<double>(shape[index_of(x, axis)]);
    shape[index_of(x, axis)] = keep ? 1 : -1;
  }
  shape.erase(std::remove(shape.begin(), shape.end(), -1), shape.end());
  constexpr std::int64_t kAxesAreAnInput = 18;
  std::vector<Value> inputs = {x};
  Attributes attributes;
  if (b.opset() >= kAxesAreAnInput) {
    inputs.push_back(b.ints(axes));
  } else {
    attributes.push_back(attr("axes", std::move(axes)));
  }
  attributes.push_back(attr("keepdims", keep ? 1 : 0));
  return b.node("ReduceMean", inputs, shape, std::move(attributes), average_of(x.moments, count));
}

}  // namespace tessera::zoo
