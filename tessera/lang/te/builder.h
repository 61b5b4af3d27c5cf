// Builds a te::Dag op by op. Axis names become iterator names in schedules.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lang/te/dag.h"

namespace tessera::te {

using NamedAxes = std::vector<std::pair<std::string, std::int64_t>>;
using Indices = std::vector<ir::Expr>;

class DagBuilder {
 public:
  explicit DagBuilder(std::string name);

  ir::Buffer input(const std::string& name, DType dtype, std::vector<std::int64_t> shape);
  ir::Buffer constant(const std::string& name, DType dtype, std::vector<std::int64_t> shape);

  // out[axes] = value(axes)
  ir::Buffer compute(const std::string& name, const NamedAxes& axes,
                     const std::function<ir::Expr(const Indices&)>& value);
  // out[axes] = reducer over reduce_axes of value(axes, reduce_axes)
  ir::Buffer reduce(const std::string& name, Reducer reducer, const NamedAxes& axes,
                    const NamedAxes& reduce_axes,
                    const std::function<ir::Expr(const Indices&, const Indices&)>& value);
  // Arg reduction: value and index per point; returns {best value, best index}, buffers `name` and
  // `name.index`.
  std::pair<ir::Buffer, ir::Buffer> arg_reduce(
      const std::string& name, Reducer reducer, const NamedAxes& axes, const NamedAxes& reduce_axes,
      const std::function<std::pair<ir::Expr, ir::Expr>(const Indices&, const Indices&)>& value);

  // The finished Dag; its outputs are `outputs` in order.
  Dag build(std::vector<ir::Buffer> outputs);

 private:
  Dag dag_;
};

// buffer[indices]
ir::Expr at(const ir::Buffer& buffer, Indices indices);
// The element of `buffer` that NumPy broadcasting pairs with the point `indices` of a tensor of at
// least its rank: aligned at the last dimension, dimensions of size 1 read their only element.
ir::Expr at_broadcast(const ir::Buffer& buffer, const Indices& indices);

}  // namespace tessera::te
