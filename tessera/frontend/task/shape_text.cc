#include "tessera/frontend/task/shape_text.h"

#include <fmt/ranges.h>

namespace tessera::task {
namespace {

std::vector<std::int64_t> extents(const std::vector<te::Axis>& axes) {
  std::vector<std::int64_t> out;
  for (const te::Axis& a : axes) {
    if (a.extent != 1 || axes.size() == 1) out.push_back(a.extent);
  }
  return out;
}

double points(const std::vector<te::Axis>& axes) {
  double n = 1;
  for (const te::Axis& a : axes) n *= static_cast<double>(a.extent);
  return n;
}

}  // namespace

std::string shape_text(const te::Dag& dag) {
  if (dag.outputs.empty()) return "";
  const auto& shape = dag.outputs[0]->shape;
  std::string text = shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
  const te::Op* largest = nullptr;
  for (const te::Op& op : dag.ops) {
    if (op.reduce_axes.empty()) continue;
    const double work = points(op.axes) * points(op.reduce_axes);
    if (largest == nullptr || work > points(largest->axes) * points(largest->reduce_axes)) {
      largest = &op;
    }
  }
  if (largest == nullptr) return text;
  const std::vector<std::int64_t> summed = extents(largest->reduce_axes);
  return summed.empty() ? text : fmt::format("{} over {}", text, fmt::join(summed, "x"));
}

}  // namespace tessera::task
