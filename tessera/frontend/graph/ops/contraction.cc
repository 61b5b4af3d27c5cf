// contract: the sum of products of two tensors, by labels. float_parts, float_whole and
// contract_parts: the same of f32 in parts of bf16. det: determinants.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "tessera/frontend/graph/ops/labels.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/contract.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/float_parts.h"
#include "tessera/support/invalid.h"

namespace tessera::graph {
// Adds the extents of an operand's labels.
Result<void> read_labels(const std::string& labels, const Shape& shape,
                         std::map<char, std::int64_t>* extents) {
  if (labels.size() != shape.size()) {
    return invalid("labels {} for an operand of rank {}", labels, shape.size());
  }
  for (std::size_t d = 0; d < labels.size(); ++d) {
    if (!std::isalpha(static_cast<unsigned char>(labels[d]))) {
      return invalid("label '{}' is not a letter", labels[d]);
    }
    if (labels.find(labels[d]) != d) return invalid("label {} repeats in {}", labels[d], labels);
    const auto [it, added] = extents->emplace(labels[d], shape[d]);
    if (!added && it->second != shape[d]) {
      return invalid("label {} is {} and {}", labels[d], it->second, shape[d]);
    }
  }
  return {};
}

Result<Shape> labelled_shape(const std::string& labels,
                             const std::map<char, std::int64_t>& extents) {
  Shape shape;
  for (std::size_t d = 0; d < labels.size(); ++d) {
    const auto it = extents.find(labels[d]);
    if (it == extents.end()) return invalid("label {} of the output is in no operand", labels[d]);
    if (labels.find(labels[d]) != d) return invalid("label {} repeats in {}", labels[d], labels);
    shape.push_back(it->second);
  }
  return shape;
}

namespace {

using Types = std::vector<TensorType>;
using Buffers = std::vector<ir::Buffer>;

// What is read of operand 0 ("a_starts", "a_sizes") or 1.
Result<te::OperandPart> read_part(const NodeView& node, std::size_t operand) {
  const std::string name = operand == 0 ? "a" : "b";
  if (!node.attrs.has(name + "_starts")) return te::OperandPart{};
  te::OperandPart part{node.attrs.integers(name + "_starts"), node.attrs.integers(name + "_sizes")};
  const Shape& shape = node.shape(operand);
  if (part.starts.size() != shape.size() || part.sizes.size() != shape.size())
    return invalid("a part of rank {} of an operand of rank {}", part.starts.size(), shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (part.starts[d] < 0 || part.sizes[d] < 0 || part.starts[d] > shape[d] - part.sizes[d]) {
      return invalid("a part {}+{} of an axis of size {}", part.starts[d], part.sizes[d], shape[d]);
    }
  }
  return part;
}

Result<Types> infer_contract(const NodeView& node) {
  TESSERA_TRY(const te::ElementTypes types, te::product_types(node.dtype(0), node.dtype(1)));
  std::map<char, std::int64_t> extents;
  TESSERA_TRY(const te::OperandPart a, read_part(node, 0));
  TESSERA_TRY(const te::OperandPart b, read_part(node, 1));
  const Shape& left = a.sizes.empty() ? node.shape(0) : a.sizes;
  const Shape& right = b.sizes.empty() ? node.shape(1) : b.sizes;
  TESSERA_DO(read_labels(node.attrs.word("a"), left, &extents));
  if (const Result<void> fits = read_labels(node.attrs.word("b"), right, &extents); !fits) {
    return fits.error().with_context(fmt::format("product of {} ({}) and {} ({})", to_text(left),
                                                 node.attrs.word("a"), to_text(right),
                                                 node.attrs.word("b")));
  }
  TESSERA_TRY(const Shape shape, labelled_shape(node.attrs.word("out"), extents));
  return Types{{types.out, shape}};
}

Result<Buffers> define_contract(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                const Buffers& in) {
  TESSERA_TRY(const te::ElementTypes types, te::product_types(node.dtype(0), node.dtype(1)));
  TESSERA_TRY(const te::OperandPart lhs, read_part(node, 0));
  TESSERA_TRY(const te::OperandPart rhs, read_part(node, 1));
  const std::string sum = types.acc == types.out ? name : name + ".acc";
  const te::Stage y =
      te::contract_stage(b, sum, in[0], node.attrs.word("a"), in[1], node.attrs.word("b"),
                         node.attrs.word("out"), types.acc, lhs, rhs);
  return Buffers{te::cast_output(b, y.buffer, types.out, y.axes, name)};
}

// float_parts: [part, dims..] of f32.
Result<Types> infer_parts(const NodeView& node) {
  if (node.dtype(0) != DType::kF32) return invalid("parts of {}", to_text(*node.types[0]));
  return Types{{DType::kBF16, te::parts_shape(node.shape(0))}};
}

Result<Buffers> define_parts(te::DagBuilder& b, const std::string& name, const NodeView&,
                             const Buffers& in) {
  return Buffers{te::parts_stage(b, name, in[0])};
}

Result<std::vector<HostTensor>> evaluate_parts(const NodeView&,
                                               const std::vector<const HostTensor*>& inputs) {
  return std::vector<HostTensor>{te::float_parts(*inputs[0])};
}

// float_whole: what [part, dims..] are the parts of. Exactly so, but for what parts cannot hold.
Result<Types> infer_whole(const NodeView& node) {
  const Shape& shape = node.shape(0);
  if (node.dtype(0) != DType::kBF16 || shape.empty() || shape[0] != te::kFloatParts)
    return invalid("{} has no parts", to_text(*node.types[0]));
  return Types{{DType::kF32, Shape(shape.begin() + 1, shape.end())}};
}

Result<Buffers> define_whole(te::DagBuilder& b, const std::string& name, const NodeView&,
                             const Buffers& in) {
  return Buffers{te::whole_stage(b, name, in[0])};
}

// contract_parts {a, b, out}: labels are those of the operands that there are parts of.
Result<Types> infer_contract_parts(const NodeView& node) {
  std::map<char, std::int64_t> extents;
  for (const std::size_t i : {0u, 1u}) {
    const Shape& shape = node.shape(i);
    if (node.dtype(i) != DType::kBF16 || shape.empty() || shape[0] != te::kFloatParts)
      return invalid("{} has no parts", to_text(*node.types[i]));
    TESSERA_DO(read_labels(node.attrs.word(i == 0 ? "a" : "b"),
                           Shape(shape.begin() + 1, shape.end()), &extents));
  }
  TESSERA_TRY(const Shape shape, labelled_shape(node.attrs.word("out"), extents));
  return Types{{DType::kF32, shape}};
}

Result<Buffers> define_contract_parts(te::DagBuilder& b, const std::string& name,
                                      const NodeView& node, const Buffers& in) {
  return Buffers{te::contract_parts_stage(b, name, in[0], node.attrs.word("a"), in[1],
                                          node.attrs.word("b"), node.attrs.word("out"))
                     .buffer};
}

Result<Types> infer_det(const NodeView& node) {
  const Shape& x = node.shape(0);
  if (x.size() < 2 || x[x.size() - 1] != x[x.size() - 2] || !is_float(node.dtype(0))) {
    return invalid("a determinant needs square matrices of floats, not {}",
                   to_text(*node.types[0]));
  }
  return Types{{node.dtype(0), Shape(x.begin(), x.end() - 2)}};
}

// By elimination with row pivots; `m` is n x n and is used up.
double determinant(std::vector<double>& m, std::size_t n) {
  double det = 1;
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t r = k + 1; r < n; ++r) {
      if (std::abs(m[r * n + k]) > std::abs(m[pivot * n + k])) pivot = r;
    }
    if (m[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      det = -det;
      for (std::size_t c = k; c < n; ++c) std::swap(m[k * n + c], m[pivot * n + c]);
    }
    det *= m[k * n + k];
    for (std::size_t r = k + 1; r < n; ++r) {
      const double factor = m[r * n + k] / m[k * n + k];
      for (std::size_t c = k; c < n; ++c) m[r * n + c] -= factor * m[k * n + c];
    }
  }
  return det;
}

Result<std::vector<HostTensor>> evaluate_det(const NodeView& node,
                                             const std::vector<const HostTensor*>& inputs) {
  TESSERA_TRY(const Types types, infer_det(node));
  const HostTensor& x = *inputs[0];
  const auto n = static_cast<std::size_t>(x.shape().back());
  HostTensor y(types[0].dtype, types[0].shape);
  std::vector<double> matrix(n * n);
  for (std::int64_t i = 0; i < y.size(); ++i) {
    for (std::size_t e = 0; e < n * n; ++e) {
      matrix[e] = x.get_float(i * static_cast<std::int64_t>(n * n) + static_cast<std::int64_t>(e));
    }
    y.set_float(i, determinant(matrix, n));
  }
  return std::vector<HostTensor>{std::move(y)};
}

}  // namespace

std::vector<OpDef> contraction_ops() {
  return {
      with(fact::kContracts, {"contract", Fusion::kContraction, infer_contract, define_contract}),
      {"contract_parts", Fusion::kContraction, infer_contract_parts, define_contract_parts},
      {"det", Fusion::kHost, infer_det, nullptr, evaluate_det},
      {"float_parts", Fusion::kInjective, infer_parts, define_parts, evaluate_parts},
      {"float_whole", Fusion::kPointwise, infer_whole, define_whole},
  };
}

}  // namespace tessera::graph
