// Every ONNX operator that import knows, joined from its families.
#include <algorithm>
#include <tuple>

#include "tessera/onnx/ops/ops.h"

namespace tessera::onnx {
namespace {

auto key(const OnnxOp& op) {
  return std::tuple<std::string_view, std::string_view, int>(op.domain, op.name, op.since);
}

std::vector<OnnxOp> join_families() {
  std::vector<OnnxOp> all;
  for (const auto family : {constant_rows, pointwise_rows, activation_rows, quantization_rows, movement_rows, indexing_rows, host_rows, contraction_rows, convolution_rows, pooling_rows, reduction_rows, normalization_rows, recurrent_rows, control_flow_rows, vision_rows, attention_rows}) {
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
  const OnnxOp* best = nullptr;  // rows of one name are sorted by `since`
  for (const OnnxOp& op : onnx_op_table()) {
    if (op.domain == domain && op.name == name && op.since <= opset) best = &op;
  }
  return best;
}

}  // namespace tessera::onnx
