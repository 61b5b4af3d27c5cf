#include "tessera/app/compile/loop_node.h"

#include <algorithm>
#include <cstring>

namespace tessera::app {
namespace {

template <class T>
T attribute(const onnx::Node& node, const char* name, T absent) {
  const onnx::Attribute* found = node.find(name);
  const T* value = found != nullptr ? std::get_if<T>(&found->value) : nullptr;
  return value != nullptr ? *value : absent;
}

bool read_loop(const onnx::Node& node, LoopNode* loop) {
  loop->counts = true;
  loop->first = 2;
  loop->carried = std::max<std::size_t>(node.inputs.size(), 2) - 2;
  const std::size_t results = loop->body->outputs.size();
  if (loop->body->inputs.size() != loop->operands() || results < loop->carried + 1) return false;
  loop->stacked.resize(results - loop->carried - 1);
  return true;
}

// Attributes with one entry for each scanned input, or stacked output.
bool read_axes(const onnx::Node& node, const char* axes, const char* directions,
               std::vector<LoopNode::Scanned>* to) {
  const std::vector<std::int64_t> zeros(to->size(), 0);
  const auto axis = attribute(node, axes, zeros), reverse = attribute(node, directions, zeros);
  if (axis.size() != to->size() || reverse.size() != to->size()) return false;
  for (std::size_t k = 0; k < to->size(); ++k) (*to)[k] = {axis[k], reverse[k] != 0};
  return true;
}

bool read_scan(const onnx::Node& node, LoopNode* loop) {
  const auto scans = attribute<std::int64_t>(node, "num_scan_inputs", 0);
  const auto inputs = static_cast<std::int64_t>(node.inputs.size());
  if (scans < 1 || scans > inputs) return false;
  loop->carried = static_cast<std::size_t>(inputs - scans);
  if (loop->body->inputs.size() != node.inputs.size() ||
      loop->body->outputs.size() < loop->carried) {
    return false;
  }
  loop->scanned.resize(static_cast<std::size_t>(scans));
  loop->stacked.resize(loop->body->outputs.size() - loop->carried);
  return read_axes(node, "scan_input_axes", "scan_input_directions", &loop->scanned) &&
         read_axes(node, "scan_output_axes", "scan_output_directions", &loop->stacked);
}

// The bytes of a slab lie in `outer` runs, `stride` apart in the whole.
struct Cut {
  std::size_t outer = 1, run = 1, stride = 1;
};

Cut cut_of(const Shape& whole, std::size_t axis, DType dtype) {
  const auto at = whole.begin() + static_cast<std::ptrdiff_t>(axis);
  Cut cut;
  cut.outer = static_cast<std::size_t>(elements(Shape(whole.begin(), at)));
  cut.run = static_cast<std::size_t>(elements(Shape(at + 1, whole.end())) * size_bytes(dtype));
  cut.stride = static_cast<std::size_t>(*at) * cut.run;
  return cut;
}

}  // namespace

std::optional<LoopNode> read_loop_node(const onnx::Node& node, std::int64_t opset) {
  LoopNode loop;
  loop.body = attribute<std::shared_ptr<const onnx::Graph>>(node, "body", nullptr).get();
  if (loop.body == nullptr || !node.domain.empty()) return std::nullopt;
  const bool read = node.op_type == "Loop"   ? read_loop(node, &loop)
                    : node.op_type == "Scan" ? opset >= 9 && read_scan(node, &loop)
                                             : false;
  if (!read) return std::nullopt;
  return loop;
}

HostTensor body_scalar(const onnx::Graph& body, std::size_t at, DType dtype, std::int64_t value) {
  const onnx::ValueInfo& declared = body.inputs[at];
  HostTensor t(dtype, declared.has_shape && declared.dims.size() == 1 ? Shape{1} : Shape{});
  t.set_int(0, value);
  return t;
}

HostTensor slab_of(const HostTensor& whole, const LoopNode::Scanned& how, std::int64_t step) {
  Shape shape = whole.shape();
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto axis = static_cast<std::size_t>(how.axis < 0 ? how.axis + rank : how.axis);
  const std::int64_t size = shape[axis];
  const Cut cut = cut_of(shape, axis, whole.dtype());
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  HostTensor slab(whole.dtype(), shape);
  const auto index = static_cast<std::size_t>(how.reverse ? size - 1 - step : step);
  for (std::size_t o = 0; o < cut.outer && cut.run > 0; ++o) {
    std::memcpy(slab.as<std::byte>() + o * cut.run,
                whole.as<std::byte>() + o * cut.stride + index * cut.run, cut.run);
  }
  return slab;
}

std::optional<HostTensor> stacked(const std::vector<HostTensor>& parts,
                                  const LoopNode::Scanned& how) {
  Shape shape = parts[0].shape();
  const auto rank = static_cast<std::int64_t>(shape.size()) + 1;
  const std::int64_t axis = how.axis < 0 ? how.axis + rank : how.axis;
  if (axis < 0 || axis >= rank) return std::nullopt;
  for (const HostTensor& part : parts) {
    if (part.shape() != shape || part.dtype() != parts[0].dtype()) return std::nullopt;
  }
  shape.insert(shape.begin() + axis, static_cast<std::int64_t>(parts.size()));
  HostTensor whole(parts[0].dtype(), shape);
  const Cut cut = cut_of(shape, static_cast<std::size_t>(axis), whole.dtype());
  for (std::size_t i = 0; i < parts.size() && cut.run > 0; ++i) {
    const std::size_t index = how.reverse ? parts.size() - 1 - i : i;
    for (std::size_t o = 0; o < cut.outer; ++o) {
      std::memcpy(whole.as<std::byte>() + o * cut.stride + index * cut.run,
                  parts[i].as<std::byte>() + o * cut.run, cut.run);
    }
  }
  return whole;
}

}  // namespace tessera::app
