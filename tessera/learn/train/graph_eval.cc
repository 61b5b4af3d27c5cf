#include "tessera/learn/train/graph_eval.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <ATen/ATen.h>

#include "tessera/frontend/graph/op.h"

namespace tessera::train {
namespace {

using at::Tensor;
using graph::Attrs;
using Tensors = std::vector<Tensor>;

// Whether the labels say: the last axis of `a` times the rows of the matrix `b`.
bool is_linear(const std::string& a, const std::string& b, const std::string& out) {
  return b.size() == 2 && !a.empty() && a.back() == b[0] && a.find(b[1]) == std::string::npos &&
         out == a.substr(0, a.size() - 1) + b[1];
}

Tensor contract(const Attrs& attrs, const Tensors& in) {
  const std::string &a = attrs.word("a"), &b = attrs.word("b"), &out = attrs.word("out");
  if (in[0].is_sparse()) {  // rows of a matrix times whatever lies behind the first axis
    std::vector<std::int64_t> wide = in[1].sizes().vec();
    wide[0] = in[0].size(0);
    return at::mm(in[0], in[1].reshape({in[1].size(0), -1})).reshape(wide);
  }
  if (!is_linear(a, b, out)) return at::einsum(a + "," + b + "->" + out, {in[0], in[1]});
  std::vector<std::int64_t> shape = in[0].sizes().vec();
  shape.back() = in[1].size(1);
  return at::mm(in[0].reshape({-1, in[1].size(0)}), in[1]).reshape(shape);
}

// relu is most of it: max with a constant, which make() keeps in host memory.
Tensor max(const Attrs&, const Tensors& in) {
  const bool bound = in[1].dim() == 0 && in[1].device().is_cpu() && !in[1].requires_grad();
  if (!bound) return at::maximum(in[0], in[1]);
  const double least = in[1].item<double>();
  return least == 0 ? at::relu(in[0]) : at::clamp_min(in[0], least);
}

Tensor layernorm(const Attrs& attrs, const Tensors& in) {
  const at::IntArrayRef together =
      in[0].sizes().slice(static_cast<std::size_t>(attrs.integer("axis")));
  const auto factor = [&](std::size_t i) { return i < in.size() ? in[i] : Tensor(); };
  const Tensor scale = factor(1), bias = factor(2);
  const auto fits = [&](const Tensor& t) { return !t.defined() || t.sizes() == together; };
  const double epsilon = attrs.number("epsilon");
  if (fits(scale) && fits(bias)) return at::layer_norm(in[0], together, scale, bias, epsilon);
  Tensor y = at::layer_norm(in[0], together, {}, {}, epsilon);
  if (scale.defined()) y = y * scale;
  return bias.defined() ? y + bias : y;
}

Tensor reduce_sum(const Attrs& attrs, const Tensors& in) {
  const std::vector<std::int64_t>& axes = attrs.integers("axes");
  if (axes.empty()) return in[0];  // torch would sum over all of them
  return at::sum(in[0], axes, attrs.integer("keepdims") != 0);
}

Tensor slice(const Attrs& attrs, const Tensors& in) {
  const std::vector<std::int64_t>&starts = attrs.integers("starts"),
        &steps = attrs.integers("steps"), &sizes = attrs.integers("sizes");
  Tensor y = in[0];
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    if (starts[d] == 0 && sizes[d] == y.size(axis)) continue;
    const std::int64_t step = sizes[d] > 1 ? steps[d] : 1;
    const std::int64_t end = sizes[d] > 0 ? starts[d] + (sizes[d] - 1) * step + 1 : starts[d];
    y = y.slice(axis, starts[d], end, step);
  }
  return y;
}

using Function = Tensor (*)(const Attrs& attrs, const Tensors& inputs);
struct Row {
  std::string_view op;
  Function function;
};
constexpr Row kRows[] = {
    {"add", [](const Attrs&, const Tensors& in) { return in[0] + in[1]; }},
    {"concat",
     [](const Attrs& attrs, const Tensors& in) { return at::cat(in, attrs.integer("axis")); }},
    {"contract", contract},
    {"div", [](const Attrs&, const Tensors& in) { return in[0] / in[1]; }},
    {"expand",
     [](const Attrs& attrs, const Tensors& in) { return in[0].expand(attrs.integers("shape")); }},
    {"layernorm", layernorm},
    {"max", max},
    {"mul", [](const Attrs&, const Tensors& in) { return in[0] * in[1]; }},
    {"reduce", reduce_sum},
    {"reshape",
     [](const Attrs& attrs, const Tensors& in) { return in[0].reshape(attrs.integers("shape")); }},
    {"sigmoid", [](const Attrs&, const Tensors& in) { return at::sigmoid(in[0]); }},
    {"slice", slice},
    {"softmax", [](const Attrs& attrs,
                   const Tensors& in) { return at::softmax(in[0], attrs.integer("axis")); }},
    {"sub", [](const Attrs&, const Tensors& in) { return in[0] - in[1]; }},
    {"tanh", [](const Attrs&, const Tensors& in) { return at::tanh(in[0]); }},
};

Result<const Row*> row_of(const graph::Graph& graph, const graph::Node& node) {
  const std::string_view op = node.op->name;
  const auto* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.op == op; });
  if (row == std::end(kRows)) {
    return make_error(ErrorCode::kUnsupported, "training has no operator {}", op);
  }
  for (const graph::ValueId id : node.inputs) {
    if (id == graph::kNoValue || !is_float(graph.type(id).dtype)) {
      return make_error(ErrorCode::kUnsupported, "training has {} only of floats", op);
    }
  }
  if (op == "reduce" && node.attrs.word("kind") != "sum") {
    return make_error(ErrorCode::kUnsupported, "training has no reduce of kind {}",
                      node.attrs.word("kind"));
  }
  if (op == "slice") {
    const std::vector<std::int64_t>& steps = node.attrs.integers("steps");
    if (std::any_of(steps.begin(), steps.end(), [](std::int64_t s) { return s < 1; })) {
      return make_error(ErrorCode::kUnsupported, "training slices forward only");
    }
  }
  return row;
}

// Values whose last reader is each node; outputs, constants and inputs stay.
std::vector<std::vector<graph::ValueId>> spent_values(const graph::Graph& graph) {
  const graph::Uses uses = graph::find_uses(graph);
  std::vector<std::vector<graph::ValueId>> spent(graph.nodes.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (uses.is_output[v] || uses.producer[v] < 0 || uses.readers[v].empty()) continue;
    const std::int32_t last = *std::max_element(uses.readers[v].begin(), uses.readers[v].end());
    spent[static_cast<std::size_t>(last)].push_back(static_cast<graph::ValueId>(v));
  }
  return spent;
}

}  // namespace

Result<GraphEval> GraphEval::make(graph::Graph graph, const at::TensorOptions& options) {
  GraphEval eval;
  for (const graph::Node& node : graph.nodes) {
    TESSERA_TRY(const Row* row, row_of(graph, node));
    eval.functions_.push_back(row->function);
  }
  eval.constants_.resize(graph.values.size());
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const graph::Value& value = graph.values[v];
    if (!value.is_constant) continue;
    if (!is_float(value.type.dtype)) continue;  // no operator reads it
    // Numbers stay in host memory: every device takes them from there without waiting.
    const bool scalar = value.type.shape.empty();
    eval.constants_[v] = to_torch(value.constant, scalar ? options.device(at::kCPU) : options);
  }
  eval.spent_ = spent_values(graph);
  eval.graph_ = std::move(graph);
  return eval;
}

std::vector<at::Tensor> GraphEval::run(const std::vector<at::Tensor>& inputs) const {
  TESSERA_CHECK(inputs.size() == graph_.inputs.size(), "{} inputs for {}", inputs.size(),
                graph_.inputs.size());
  std::vector<Tensor> values = constants_;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values[static_cast<std::size_t>(graph_.inputs[i])] = inputs[i];
  }
  std::vector<Tensor> operands;
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const graph::Node& node = graph_.nodes[n];
    operands.clear();
    for (const graph::ValueId id : node.inputs) {
      operands.push_back(values[static_cast<std::size_t>(id)]);
    }
    values[static_cast<std::size_t>(node.outputs[0])] = functions_[n](node.attrs, operands);
    operands.clear();
    for (const graph::ValueId id : spent_[n]) values[static_cast<std::size_t>(id)].reset();
  }
  std::vector<Tensor> outputs;
  for (const graph::ValueId id : graph_.outputs) {
    outputs.push_back(values[static_cast<std::size_t>(id)]);
  }
  return outputs;
}

at::Tensor to_torch(const HostTensor& tensor, const at::TensorOptions& options) {
  TESSERA_CHECK(tensor.dtype() == DType::kF32, "a tensor of {}", to_text(tensor.dtype()));
  at::Tensor host = at::empty(tensor.shape(), at::kFloat);
  if (tensor.bytes() > 0) std::memcpy(host.data_ptr<float>(), tensor.data(), tensor.bytes());
  return host.to(options.device(), options.dtype().toScalarType());
}

at::Tensor on_device(const std::vector<float>& data, const Shape& shape, const at::Device& device) {
  return at::from_blob(const_cast<float*>(data.data()), shape, at::kFloat).to(device);
}

at::Tensor on_device(const std::vector<std::int64_t>& data, const at::Device& device) {
  return at::from_blob(const_cast<std::int64_t*>(data.data()),
                       {static_cast<std::int64_t>(data.size())}, at::kLong)
      .to(device);
}

HostTensor to_host(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  HostTensor out(DType::kF32, host.sizes().vec());
  if (out.bytes() > 0) std::memcpy(out.data(), host.data_ptr<float>(), out.bytes());
  return out;
}

}  // namespace tessera::train
