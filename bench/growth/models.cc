#include "bench/growth/models.h"

#include <cmath>
#include <memory>
#include <utility>

#include "tessera/support/check.h"

namespace tessera::growth {
namespace {

using onnx::Attribute;
using onnx::Graph;
using onnx::Model;
using onnx::Node;
using onnx::ValueInfo;

std::string numbered(const char* name, int i) { return fmt::format("{}{}", name, i); }

ValueInfo floats(const std::string& name, const Shape& shape) {
  ValueInfo info{name, "f32", true, {}};
  for (const std::int64_t d : shape) info.dims.push_back({d, ""});
  return info;
}

class Builder {
 public:
  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::vector<Attribute> attributes = {}, int outputs = 1) {
    Node node;
    node.op_type = op;
    node.inputs = std::move(inputs);
    for (int i = 0; i < outputs; ++i) node.outputs.push_back(numbered("t", values_++));
    node.attributes = std::move(attributes);
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().outputs[0];
  }

  // Small and different in every place.
  std::string weight(const Shape& shape) {
    HostTensor t(DType::kF32, shape);
    float* data = t.as<float>();
    for (std::int64_t i = 0; i < t.size(); ++i) {
      data[i] = 0.1F * std::sin(static_cast<float>(i % 4099 + values_));
    }
    const std::string name = numbered("w", values_++);
    graph.initializers.push_back({name, std::move(t)});
    return name;
  }

  std::string input(const Shape& shape) {
    const std::string name = numbered("x", values_++);
    graph.inputs.push_back(floats(name, shape));
    return name;
  }

  Model finish(const std::string& output, const Shape& shape) {
    graph.name = "growth";
    graph.outputs.push_back(floats(output, shape));
    Model model;
    model.opsets[""] = 17;
    model.graph = std::move(graph);
    return model;
  }

  Graph graph;

 private:
  int values_ = 0;
};

Attribute ints(const char* name, std::vector<std::int64_t> values) {
  return {name, std::move(values), ""};
}

Model gpt(int n) {
  constexpr std::int64_t kTokens = 16, kWidth = 64;
  Builder b;
  std::string x = b.input({1, kTokens, kWidth});
  const auto linear = [&](const std::string& v, std::int64_t in, std::int64_t out) {
    return b.node("Add", {b.node("MatMul", {v, b.weight({in, out})}), b.weight({out})});
  };
  const auto norm = [&](const std::string& v) {
    return b.node("LayerNormalization", {v, b.weight({kWidth}), b.weight({kWidth})});
  };
  for (int layer = 0; layer < n; ++layer) {
    const std::string h = norm(x);
    const std::string q = linear(h, kWidth, kWidth), k = linear(h, kWidth, kWidth),
                      v = linear(h, kWidth, kWidth);
    const std::string scores =
        b.node("MatMul", {q, b.node("Transpose", {k}, {ints("perm", {0, 2, 1})})});
    const std::string attended =
        b.node("MatMul", {b.node("Softmax", {scores}, {{"axis", std::int64_t{-1}, ""}}), v});
    x = b.node("Add", {x, linear(attended, kWidth, kWidth)});
    const std::string wide = b.node("Relu", {linear(norm(x), kWidth, 4 * kWidth)});
    x = b.node("Add", {x, linear(wide, 4 * kWidth, kWidth)});
  }
  return b.finish(x, {1, kTokens, kWidth});
}

// No two are one kernel, and as many of a hundred are large, or have Winograd's products, as of a
// thousand: channels go round a ring of 37 places, and the stride doubles after each round (2 is a
// primitive root of 37), so that no pair of neighbours comes twice.
Model convolutions(int n) {
  constexpr int kPlaces = 37, kMost = kPlaces * (kPlaces - 1);
  TESSERA_CHECK(n <= kMost, "{} convolutions; there are {} that differ", n, kMost);
  constexpr std::int64_t kFewest = 8;
  Builder b;
  std::string x = b.input({1, kFewest, 8, 8});
  int place = 0, stride = 16;
  for (int i = 0; i < n; ++i) {
    if (i > 0 && i % kPlaces == 0) stride = 2 * stride % kPlaces;
    const int next = (place + stride) % kPlaces;
    const std::string w = b.weight({kFewest + next, kFewest + place, 3, 3});
    x = b.node("Relu", {b.node("Conv", {x, w}, {ints("pads", {1, 1, 1, 1})})});
    place = next;
  }
  return b.finish(x, {1, kFewest + place, 8, 8});
}

Model chain(int n) {
  Builder b;
  std::string x = b.input({64});
  for (int i = 0; i < n; ++i) x = b.node(i % 2 == 0 ? "Tanh" : "Abs", {x});
  return b.finish(x, {64});
}

Model fan_out(int n) {
  Builder b;
  const std::string x = b.input({64});
  std::vector<std::string> level;
  for (int i = 0; i < n / 2; ++i) level.push_back(b.node(i % 2 == 0 ? "Tanh" : "Abs", {x}));
  while (level.size() > 1) {
    std::vector<std::string> next;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(b.node("Add", {level[i], level[i + 1]}));
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  return b.finish(level[0], {64});
}

Model joined(Builder b, const std::vector<std::string>& parts, std::int64_t width) {
  const std::string y = b.node("Concat", parts, {{"axis", std::int64_t{1}, ""}});
  return b.finish(y, {1, static_cast<std::int64_t>(parts.size()) * width});
}

Model concat(int n) {
  Builder b;
  std::vector<std::string> parts;
  for (int i = 0; i < n; ++i) parts.push_back(b.input({1, 4}));
  return joined(std::move(b), parts, 4);
}

Model split_concat(int n) {
  Builder b;
  const std::string x = b.input({1, 4 * n});
  b.node("Split", {x}, {{"axis", std::int64_t{1}, ""}}, n);
  std::vector<std::string> parts = b.graph.nodes.back().outputs;
  for (std::string& part : parts) part = b.node("Tanh", {part});
  return joined(std::move(b), parts, 4);
}

Model matmuls_concat(int n) {
  Builder b;
  const std::string x = b.input({1, 16});
  std::vector<std::string> parts;
  for (int i = 0; i < n; ++i) parts.push_back(b.node("MatMul", {x, b.weight({16, 8})}));
  return joined(std::move(b), parts, 8);
}

Model scan(int n) {
  Builder body;
  body.graph.inputs = {floats("state", {8}), floats("item", {8})};
  const std::string next = body.node("Tanh", {body.node("Add", {"state", "item"})});
  const std::string out = body.node("Identity", {next});
  body.graph.name = "body";
  body.graph.outputs = {floats(next, {8}), floats(out, {8})};
  Builder b;
  const std::string start = b.input({8}), items = b.input({n, 8});
  b.node("Scan", {start, items},
         {{"body", std::make_shared<const Graph>(std::move(body.graph)), ""},
          {"num_scan_inputs", std::int64_t{1}, ""}},
         2);
  const std::string last = b.graph.nodes.back().outputs[1];
  return b.finish(last, {n, 8});
}

Model weights(int n) {
  constexpr std::int64_t kWidth = 512;  // 1 MiB each
  Builder b;
  std::string x = b.input({1, kWidth});
  for (int i = 0; i < n; ++i) x = b.node("MatMul", {x, b.weight({kWidth, kWidth})});
  return b.finish(x, {1, kWidth});
}

using Make = Model (*)(int n);
const std::vector<std::pair<std::string, Make>>& makers() {
  static const std::vector<std::pair<std::string, Make>> all = {{"gpt", gpt},
                                                                {"convolutions", convolutions},
                                                                {"chain", chain},
                                                                {"fan_out", fan_out},
                                                                {"concat", concat},
                                                                {"split_concat", split_concat},
                                                                {"matmuls_concat", matmuls_concat},
                                                                {"scan", scan},
                                                                {"weights", weights}};
  return all;
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, make] : makers()) out.push_back(name);
    return out;
  }();
  return names;
}

Model make_model(const std::string& name, int n) {
  for (const auto& [known, make] : makers()) {
    if (known == name) return make(n);
  }
  TESSERA_CHECK(false, "no model {}", name);
}

}  // namespace tessera::growth
