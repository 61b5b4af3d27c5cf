// Runs one operator of the graph on small tensors, for the tests of operators.
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/op.h"

namespace tessera::graph {

inline HostTensor tensor(DType t, const Shape& shape, const std::vector<double>& values) {
  HostTensor out(t, shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (is_float(t)) {
      out.set_float(at, values[i]);
    } else {
      out.set_int(at, static_cast<std::int64_t>(values[i]));
    }
  }
  return out;
}

inline std::vector<double> values(const HostTensor& t) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    out.push_back(is_float(t.dtype()) ? t.get_float(i) : static_cast<double>(t.get_int(i)));
  }
  return out;
}

// The only output.
inline Result<HostTensor> run_op(const std::string& op, const std::vector<HostTensor>& inputs,
                                 const Attrs& attrs = {}) {
  std::vector<const HostTensor*> pointers;
  for (const HostTensor& input : inputs) pointers.push_back(&input);
  auto outputs = evaluate_node(*find_op(op), attrs, pointers);
  if (!outputs.ok()) return outputs.error();
  return outputs->at(0);
}

// The message of the error that the operator must give.
inline std::string refusal(const std::string& op, const std::vector<HostTensor>& inputs,
                           const Attrs& attrs = {}) {
  const auto result = run_op(op, inputs, attrs);
  return result.ok() ? "no error" : result.error().message;
}

}  // namespace tessera::graph
