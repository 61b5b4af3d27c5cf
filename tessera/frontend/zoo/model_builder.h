// Writes an onnx::Model node by node: knows the shape and the expected distribution of every value,
// so that weights can be scaled to keep activations around 1 at any depth.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/model.h"
#include "tessera/frontend/zoo/weights.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::zoo {

// Expected distribution of the elements of a value: a normal one cut at [low, high].
struct Moments {
  double mean = 0;
  double var = 1.0 / 3;  // of the uniform inputs in [-1, 1) that runs draw
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  double mean_square() const { return mean * mean + var; }
};

struct Value {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;
  Moments moments;
  double scale = 0;  // step of the quantisation behind the value; 0: none

  std::int64_t dim(std::size_t i) const { return shape[i]; }
};

onnx::Attribute attr(std::string name, std::int64_t value);
onnx::Attribute attr(std::string name, int value);
onnx::Attribute attr(std::string name, double value);
onnx::Attribute attr(std::string name, std::vector<std::int64_t> value);
onnx::Attribute attr(std::string name, std::string value);
onnx::Attribute attr(std::string name, HostTensor value);

using Attributes = std::vector<onnx::Attribute>;

int onnx_number(DType float_type);  // as TensorProto.DataType has it

// The first failure is kept and returned by finish(); values made after it are placeholders.
class ModelBuilder {
 public:
  // `dtype` is the type of weights and activations.
  ModelBuilder(std::string name, DType dtype, bool fill_weights);

  DType dtype() const { return dtype_; }
  // 17; of bf16 the first in which convolutions may have it.
  std::int64_t opset() const { return model_.opsets.at(""); }
  bool fill_weights() const { return fill_weights_; }
  bool failed() const { return error_.has_value(); }
  void fail(Error error);
  template <class... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    fail(make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...));
  }

  Value input(const std::string& name, DType dtype, Shape shape);
  void output(const Value& value, const std::string& name);

  // One output named after the node; dtype and shape are the caller's knowledge.
  Value node(const std::string& op, const std::vector<Value>& inputs, Shape shape,
             Attributes attributes = {}, Moments moments = {}, std::optional<DType> dtype = {});
  // As node(), with one output per shape, all with the type of the first input.
  std::vector<Value> nodes(const std::string& op, const std::vector<Value>& inputs,
                           const std::vector<Shape>& shapes, Attributes attributes,
                           Moments moments);
  // Nodes made until the next call are named "/<scope>/<op>".
  void scope(std::string scope) { scope_ = std::move(scope); }

  // An initializer with random elements.
  Value weight(const std::string& name, Shape shape, const Fill& fill);
  // Counts a weight of this shape and type against the limit of a model; false when it was refused.
  bool reserve(const std::string& name, const Shape& shape, DType dtype);
  // An initializer with given elements.
  Value initializer(const std::string& name, HostTensor value);
  // Constant nodes: where exporters put shapes, axes and scalars.
  Value ints(const std::vector<std::int64_t>& values);
  Value int_scalar(std::int64_t value);
  Value scalar(double value);  // of type dtype()

  Result<onnx::Model> finish();

 private:
  std::string unique(const std::string& op);
  Value placeholder(Shape shape, DType dtype) const;
  bool accept(const Shape& shape, DType dtype, const std::string& what);
  Value constant(HostTensor value);

  DType dtype_;
  bool fill_weights_;
  onnx::Model model_;
  std::optional<Error> error_;
  std::string scope_;
  std::map<std::string, int> used_names_;
  std::int64_t weight_bytes_ = 0;
};

}  // namespace tessera::zoo
