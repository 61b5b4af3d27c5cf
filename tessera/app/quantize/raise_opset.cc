#include "tessera/app/quantize/raise_opset.h"

#include <algorithm>
#include <array>

#include "tessera/app/quantize/model_index.h"
#include "tessera/support/check.h"

namespace tessera::app {
namespace {

// Since when an attribute is an input.
constexpr std::int64_t kAxesAreAnInput = 18, kSplitCounts = 18;
constexpr std::array kReductions = {"ReduceL1",   "ReduceL2",   "ReduceLogSum",
                                    "ReduceMax",  "ReduceMin",  "ReduceLogSumExp",
                                    "ReduceMean", "ReduceProd", "ReduceSumSquare"};

// From which version on the same node means something else.
struct Change {
  const char* op;
  std::int64_t version;
};
constexpr Change kChanges[] = {
    {"RoiAlign", 16}, {"DFT", 20}, {"GridSample", 20}, {"GroupNormalization", 21}};

class Raiser {
 public:
  Raiser(std::int64_t from, std::int64_t to) : from_(from), to_(to) {}

  Result<void> graph(onnx::Graph& g) const {
    FreshNames fresh(g);
    for (onnx::Node& node : g.nodes) {
      if (node.domain.empty() && !node.outputs.empty()) {
        TESSERA_DO(check(node));
        rewrite(g, fresh, node);
      }
      for (onnx::Attribute& a : node.attributes) {
        auto* body = std::get_if<std::shared_ptr<const onnx::Graph>>(&a.value);
        if (!body) continue;
        auto raised = std::make_shared<onnx::Graph>(**body);
        TESSERA_DO(graph(*raised));
        *body = std::move(raised);
      }
    }
    return {};
  }

 private:
  bool crosses(std::int64_t version) const { return from_ < version && version <= to_; }

  Result<void> check(const onnx::Node& node) const {
    for (const Change& change : kChanges) {
      if (node.op_type != change.op || !crosses(change.version)) continue;
      return make_error(ErrorCode::kUnsupported,
                        "opset {} cannot be raised to {}: {} '{}' means something else since "
                        "opset {}",
                        from_, to_, node.op_type,
                        node.name.empty() ? node.outputs.at(0) : node.name, change.version);
    }
    return {};
  }

  void rewrite(onnx::Graph& g, FreshNames& fresh, onnx::Node& node) const {
    if (crosses(kAxesAreAnInput) && std::ranges::count(kReductions, node.op_type) > 0)
      return move_axes(g, fresh, node);
    const bool even = node.inputs.size() < 2 || node.inputs[1].empty();
    if (crosses(kSplitCounts) && node.op_type == "Split" && even) {
      node.attributes.push_back(
          {"num_outputs", static_cast<std::int64_t>(node.outputs.size()), ""});
    }
  }

  static void move_axes(onnx::Graph& g, FreshNames& fresh, onnx::Node& node) {
    const auto axes = std::ranges::find(node.attributes, "axes", &onnx::Attribute::name);
    if (axes == node.attributes.end()) return;
    const auto* numbers = std::get_if<std::vector<std::int64_t>>(&axes->value);
    if (numbers && !numbers->empty()) {
      HostTensor value(DType::kI64, {static_cast<std::int64_t>(numbers->size())});
      std::ranges::copy(*numbers, value.as<std::int64_t>());
      node.inputs.push_back(add_constant(g, fresh, node.outputs.at(0) + "_axes", std::move(value)));
    }
    node.attributes.erase(axes);
  }

  const std::int64_t from_, to_;
};

}  // namespace

Result<void> raise_opset(onnx::Model& model, std::int64_t version) {
  TESSERA_CHECK(version <= kNewestOpset, "raise_opset: opset {} is newer than {}", version,
                kNewestOpset);
  const auto opset = model.opsets.find("");
  const std::int64_t from = opset == model.opsets.end() ? 1 : opset->second;
  if (from >= version) return {};
  if (from < kLeastOpset) {
    return make_error(ErrorCode::kUnsupported, "opset {} cannot be raised to {}: it is below {}",
                      from, version, kLeastOpset);
  }
  if (!model.functions.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "opset {} cannot be raised to {}: the model has functions of its own", from,
                      version);
  }
  onnx::Graph raised = model.graph;
  TESSERA_DO(Raiser(from, version).graph(raised));
  model.graph = std::move(raised);
  model.opsets[""] = version;
  return {};
}

}  // namespace tessera::app
