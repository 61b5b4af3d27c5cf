#include "tessera/frontend/onnx/ops/shapes.h"

#include <string>

namespace tessera::onnx {

Term slice(Formula& f, Term x, std::size_t axis, std::int64_t start, std::int64_t size,
           std::int64_t step) {
  if (f.failed()) return x;
  Shape sizes = f.shape(x), starts(sizes.size(), 0), steps(sizes.size(), 1);
  if (start == 0 && size == sizes[axis] && step == 1) return x;
  starts[axis] = start;
  sizes[axis] = size;
  steps[axis] = step;
  return f.op("slice", {x}, {{"starts", starts}, {"steps", steps}, {"sizes", sizes}});
}

Term pick(Formula& f, Term x, std::size_t axis, std::int64_t index) {
  const Term one = slice(f, x, axis, index, 1);
  if (f.failed()) return one;
  Shape shape = f.shape(one);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return f.reshape(one, shape);
}

Term concat(Formula& f, const std::vector<Term>& parts, std::size_t axis) {
  if (parts.size() == 1) return parts[0];
  return f.op("concat", parts, {{"axis", static_cast<std::int64_t>(axis)}});
}

Term transpose(Formula& f, Term x, const std::vector<std::int64_t>& perm) {
  return f.op("transpose", {x}, {{"perm", perm}});
}

Term contract(Formula& f, Term x, const char* x_labels, Term y, const char* y_labels,
              const char* out_labels) {
  return f.op("contract", {x, y},
              {{"a", std::string(x_labels)},
               {"b", std::string(y_labels)},
               {"out", std::string(out_labels)}});
}

}  // namespace tessera::onnx
