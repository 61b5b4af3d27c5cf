// Writes a network node by node, so that definitions read like mathematics. The first failure is
// kept; what is made after it is kNoValue, which every function accepts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/learn/nn/network.h"

namespace tessera::nn {

using graph::ValueId;

// A weight [in, out] and, where it has one, a bias [out]; applied to several values it is shared.
struct Linear {
  ValueId weight = graph::kNoValue, bias = graph::kNoValue;
  std::int64_t in = 0, out = 0;
};

// A learned scale and shift [width] behind a norm of the last axis.
struct Norm {
  ValueId scale = graph::kNoValue, shift = graph::kNoValue;
};

class NetworkBuilder {
 public:
  NetworkBuilder(const std::string& name, const InstanceShape& shape);

  std::int64_t batch() const { return shape_.batch; }
  std::int64_t rows() const { return shape_.rows; }
  // Size of the last axis; 0 after a failure.
  std::int64_t width(ValueId x) const;

  const std::optional<Error>& error() const { return error_; }
  template <class... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    fail(make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...));
  }

  ValueId input(const std::string& name, const Shape& shape);
  // Names of parameters differ.
  ValueId parameter(const std::string& name, const Shape& shape, Init init, std::int64_t fan_in);
  ValueId scalar(double value);
  ValueId constant(HostTensor tensor);

  Linear linear_layer(const std::string& name, std::int64_t in, std::int64_t out, bool bias = true);
  // x W + b over the last axis of a value of rank 2 or 3.
  ValueId apply(const Linear& layer, ValueId x);
  ValueId linear(ValueId x, std::int64_t out, const std::string& name, bool bias = true);
  Norm norm_layer(const std::string& name, std::int64_t width);
  ValueId apply(const Norm& norm, ValueId x);
  ValueId layer_norm(ValueId x, const std::string& name);

  ValueId add(ValueId a, ValueId b) { return node("add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return node("sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return node("mul", {a, b}); }
  ValueId div(ValueId a, ValueId b) { return node("div", {a, b}); }
  ValueId max(ValueId a, ValueId b) { return node("max", {a, b}); }
  ValueId relu(ValueId x) { return max(x, scalar(0)); }
  ValueId tanh(ValueId x) { return node("tanh", {x}); }
  ValueId sigmoid(ValueId x) { return node("sigmoid", {x}); }
  ValueId softmax(ValueId x);  // over the last axis
  ValueId softmax(ValueId x, std::int64_t axis);
  ValueId sum(ValueId x, std::int64_t axis, bool keep = false);
  // As an einsum of two operands: contract("bpc,bch->bph", p, h).
  ValueId contract(const std::string& labels, ValueId a, ValueId b);

  ValueId reshape(ValueId x, const Shape& shape);
  // [begin, begin + size) of an axis, which stays.
  ValueId slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t size);
  ValueId concat(const std::vector<ValueId>& parts, std::int64_t axis);
  ValueId expand(ValueId x, const Shape& shape);
  // [batch, rows, n] as [batch * rows, n], and back.
  ValueId flat(ValueId x);
  ValueId by_row(ValueId x);

  // The network with these outputs, or the first failure.
  Result<Network> finish(Rows rows, const std::vector<std::pair<std::string, ValueId>>& outputs);

 private:
  void fail(Error error);
  ValueId node(const char* op, const std::vector<ValueId>& inputs, graph::Attrs attrs = {});

  graph::GraphBuilder graph_;
  InstanceShape shape_;
  std::vector<Parameter> parameters_;
  std::optional<Error> error_;
};

}  // namespace tessera::nn
