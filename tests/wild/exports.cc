// What exporters write: flaws that other engines accept, functions, sequences, scans.
#include <algorithm>

#include "tests/wild/wild.h"

namespace tessera::wild {
namespace {

struct Mlp {
  Array x, first, bias, last;
  Array want() const { return matmul(map(add(matmul(x, first), bias), relu), last); }
};

Mlp make_mlp(std::uint64_t seed) {
  Rng rng(seed);
  return {random({2, 3}, rng), random({3, 4}, rng), random({4}, rng), random({4, 2}, rng)};
}

// The nodes stand in the file from the last to the first.
WildModel unsorted_export() {
  const Mlp mlp = make_mlp(501);
  Writer g(17);
  const std::string h = g.add(
      "Add", {g.add("MatMul", {g.input("x", mlp.x), g.weight(mlp.first)}), g.weight(mlp.bias)});
  const std::string y = g.add("MatMul", {g.add("Relu", {h}), g.weight(mlp.last)});
  std::reverse(g.graph().nodes.begin(), g.graph().nodes.end());
  return g.finish("unsorted_export", {y}, {to_tensor(mlp.want())});
}

// Weights are stored twice under one name, and a Constant replaces an initializer.
WildModel repeated_constants() {
  const Mlp mlp = make_mlp(502);
  Writer g(17);
  const std::string first = g.weight(map(mlp.first, [](double) { return 7; }));
  const std::string bias = g.weight(map(mlp.bias, [](double) { return 7; }));
  g.graph().initializers.push_back({first, to_tensor(mlp.first)});
  g.graph().nodes.push_back(
      onnx::testing::make_node("Constant", {}, {bias}, {attr("value", to_tensor(mlp.bias))}));
  const std::string h = g.add("Add", {g.add("MatMul", {g.input("x", mlp.x), first}), bias});
  const std::string y = g.add("MatMul", {g.add("Relu", {h}), g.weight(mlp.last)});
  return g.finish("repeated_constants", {y, y}, {to_tensor(mlp.want()), to_tensor(mlp.want())});
}

// Layers are calls of a function of the model, whose nodes are not sorted either.
WildModel functions_of_the_model() {
  const Mlp mlp = make_mlp(503);
  Writer g(17);
  g.model().opsets["local"] = 1;
  onnx::Function dense;
  dense.domain = "local";
  dense.name = "Dense";
  dense.inputs = {"x", "w", "b"};
  dense.outputs = {"y"};
  dense.opsets[""] = 17;
  dense.nodes = {onnx::testing::make_node("Relu", {"s"}, {"y"}),
                 onnx::testing::make_node("Add", {"p", "b"}, {"s"}),
                 onnx::testing::make_node("MatMul", {"x", "w"}, {"p"})};
  g.model().functions = {dense};
  const std::string h =
      g.add("Dense", {g.input("x", mlp.x), g.weight(mlp.first), g.weight(mlp.bias)});
  g.graph().nodes.back().domain = "local";
  const std::string y = g.add("MatMul", {h, g.weight(mlp.last)});
  return g.finish("functions_of_the_model", {y}, {to_tensor(mlp.want())});
}

// Channels are split into a sequence, the second and the last are joined again.
WildModel sequence_of_parts() {
  Rng rng(504);
  Writer g(17);
  const Array x = random({2, 6}, rng);
  const std::string parts = g.add(
      "SplitToSequence", {g.input("x", x), g.weight(make({}, [](auto) { return 2; }), DType::kI64)},
      {attr("axis", std::int64_t{1})});
  const auto part = [&](std::int64_t i) {
    return g.add(
        "SequenceAt",
        {parts, g.weight(make({}, [i](auto) { return static_cast<double>(i); }), DType::kI64)});
  };
  const std::string second = part(1), last = part(-1);
  const std::string both = g.add("SequenceConstruct", {second, last});
  const std::string y = g.add("ConcatFromSequence", {both}, {attr("axis", std::int64_t{0})});
  const Array want = make({4, 2}, [&](std::int64_t i) {
    const std::int64_t row = i / 2;
    return x[row % 2 * 6 + (row < 2 ? 2 : 4) + i % 2];
  });
  return g.finish("sequence_of_parts", {y}, {to_tensor(want)});
}

// A running average by Scan, and the rows of it that occur once (Unique).
WildModel scan_and_unique() {
  Rng rng(505);
  Writer g(17);
  const Array x = random({5, 2}, rng), start = random({2}, rng);
  const std::string half = g.weight(make({}, [](auto) { return 0.5; }));
  onnx::Graph body =
      onnx::testing::make_graph({onnx::testing::value_info("old", DType::kF32, {2}),
                                 onnx::testing::value_info("row", DType::kF32, {2})},
                                {onnx::testing::make_node("Add", {"old", "row"}, {"sum"}),
                                 onnx::testing::make_node("Mul", {"sum", half}, {"new"}),
                                 onnx::testing::make_node("Identity", {"new"}, {"shown"})},
                                {"new", "shown"});
  const std::string initial = g.input("start", start), rows = g.input("x", x);
  g.add("Scan", {initial, rows},
        {attr("num_scan_inputs", std::int64_t{1}),
         onnx::testing::body_attribute("body", std::move(body))},
        2);
  const std::string averages = g.output(1);
  const std::string signs = g.add("Sign", {averages});
  const std::string kinds = g.add("Unique", {signs});
  Array want{{5, 2}, {}}, old = start;
  for (std::int64_t i = 0; i < 10; ++i) {
    old[i % 2] = static_cast<float>((old[i % 2] + x[i]) / 2);
    want.data.push_back(old[i % 2]);
  }
  Array seen{{0}, {}};
  for (const double sign : {-1.0, 0.0, 1.0}) {
    const bool found = std::any_of(want.data.begin(), want.data.end(), [&](double v) {
      return (v > 0 ? 1 : v < 0 ? -1 : 0) == sign;
    });
    if (found) seen.data.push_back(sign);
  }
  seen.shape[0] = static_cast<std::int64_t>(seen.data.size());
  return g.finish("scan_and_unique", {averages, kinds}, {to_tensor(want), to_tensor(seen)},
                  "unique elements");
}

}  // namespace

std::vector<WildModel> export_models() {
  return {unsorted_export(), repeated_constants(), functions_of_the_model(), sequence_of_parts(),
          scan_and_unique()};
}

}  // namespace tessera::wild
