#include "tests/capi/small_model.h"

#include "tessera/frontend/onnx/model.h"

namespace tessera::capi {

std::string small_model(const std::string& op, int listed) {
  onnx::Model model;
  model.opsets[""] = 13;
  onnx::Graph& g = model.graph;
  g.name = "small";
  HostTensor w(DType::kF32, {3, 2});
  for (int i = 0; i < 6; ++i) w.set_float(i, i + 1);
  g.initializers.push_back({"w", w});
  g.inputs.push_back({"x", "f32", true, {{-1, "rows"}, {3, ""}}});
  for (int i = 0; i < listed; ++i) g.outputs.push_back({"y", "f32", true, {{-1, "rows"}, {2, ""}}});
  g.nodes.push_back({.name = "node", .op_type = op, .inputs = {"x", "w"}, .outputs = {"y"}});
  return *onnx::serialize_model(model);
}

std::string detector_model() {
  onnx::Model model = *onnx::parse_model(small_model(), "");
  onnx::Graph& g = model.graph;
  g.nodes[0].outputs = {"h"};
  const auto add = [&](const char* op, std::vector<std::string> inputs, const char* output) {
    g.nodes.push_back(
        {.name = output, .op_type = op, .inputs = std::move(inputs), .outputs = {output}});
  };
  add("Relu", {"h"}, "above");
  add("NonZero", {"above"}, "found");
  add("Transpose", {"found"}, "places");
  add("GatherND", {"h", "places"}, "scores");
  g.outputs = {{"found", "i64", true, {{2, ""}, {-1, "n"}}}, {"scores", "f32", true, {{-1, "n"}}}};
  return *onnx::serialize_model(model);
}

}  // namespace tessera::capi
