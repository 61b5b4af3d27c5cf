// Every ONNX operator that import knows, joined from its families.
#include <algorithm>
#include <tuple>

#include "tessera/frontend/onnx/ops/ops.h"

namespace tessera::onnx {
namespace {

auto key(const OnnxOp& op) {
  return std::tuple<std::string_view, std::string_view, int>(op.domain, op.name, op.since);
}

std::vector<OnnxOp> join_families() {
  std::vector<OnnxOp> all;
  for (const auto family :
       {activation_rows,    attention_rows,   constant_rows, contraction_rows,  contrib_rows,
        control_flow_rows,  convolution_rows, host_rows,     indexing_rows,     movement_rows,
        normalization_rows, pointwise_rows,   pooling_rows,  quantization_rows, random_rows,
        recurrent_rows,     reduction_rows,   sequence_rows, signal_rows,       text_rows,
        training_rows,      vision_rows}) {
    for (const OnnxOp& op : family()) all.push_back(op);
  }
  std::sort(all.begin(), all.end(),
            [](const OnnxOp& a, const OnnxOp& b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < all.size(); ++i) {
    TESSERA_CHECK(key(all[i - 1]) != key(all[i]), "operator {}-{} has two rows", all[i].name,
                  all[i].since);
  }
  return all;
}

}  // namespace

const std::vector<OnnxOp>& onnx_op_table() {
  static const std::vector<OnnxOp> table = join_families();
  return table;
}

const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name, std::int64_t opset) {
  const auto& table = onnx_op_table();
  const auto precedes = [&](const OnnxOp& op) {
    return std::tuple<std::string_view, std::string_view, std::int64_t>(
               op.domain, op.name, op.since) <= std::tuple(domain, name, opset);
  };
  const auto after = std::partition_point(table.begin(), table.end(), precedes);
  if (after == table.begin()) return nullptr;
  const OnnxOp& last = *std::prev(after);
  return last.domain == domain && last.name == name ? &last : nullptr;
}

}  // namespace tessera::onnx
