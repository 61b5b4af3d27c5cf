#include "tessera/learn/train/graph_eval.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/learn/nn/network.h"
#include "tests/testing/testing.h"

namespace tessera::train {
namespace {

using graph::Attrs;

const at::TensorOptions kF32 = at::TensorOptions().dtype(at::kFloat),
                        kF64 = at::TensorOptions().dtype(at::kDouble);

struct Case {
  const char* op;
  std::vector<Shape> inputs;
  Attrs attrs;
};

using Numbers = std::vector<std::int64_t>;

std::vector<Case> cases() {
  const auto contract = [](const char* a, const char* b, const char* out) {
    return Attrs{{"a", std::string(a)}, {"b", std::string(b)}, {"out", std::string(out)}};
  };
  return {
      {"contract", {{3, 4}, {4, 5}}, contract("mk", "kn", "mn")},
      {"contract", {{2, 3, 4}, {4, 5}}, contract("brk", "kn", "brn")},
      {"contract", {{2, 3, 4, 5}, {2, 6, 4, 5}}, contract("brhd", "bshd", "bhrs")},
      {"contract", {{2, 4, 3, 6}, {2, 6, 4, 5}}, contract("bhrs", "bshd", "brhd")},
      {"contract", {{2, 3, 4}, {2, 4, 5}}, contract("bpc", "bch", "bph")},
      {"contract", {{2, 3, 4}, {2, 3, 5}}, contract("brm", "brh", "bmh")},
      {"contract", {{3, 4}, {4, 5}}, contract("mk", "kn", "n")},
      {"add", {{2, 3}, {3}}, {}},
      {"sub", {{2, 1}, {1, 3}}, {}},
      {"mul", {{2, 3}, {}}, {}},
      {"div", {{2, 3}, {2, 3}}, {}},
      {"max", {{2, 3}, {3}}, {}},
      {"max", {{2, 3}, {}}, {}},
      {"tanh", {{2, 3}}, {}},
      {"sigmoid", {{2, 3}}, {}},
      {"softmax", {{2, 3, 4}}, {{"axis", std::int64_t{2}}}},
      {"layernorm", {{2, 3, 8}, {8}, {8}}, {{"axis", std::int64_t{2}}, {"epsilon", 1e-5}}},
      {"layernorm", {{2, 3, 8}, {1}, {1, 8}}, {{"axis", std::int64_t{1}}, {"epsilon", 1e-5}}},
      {"reduce",
       {{2, 3, 4}},
       {{"kind", std::string("sum")}, {"axes", Numbers{1}}, {"keepdims", std::int64_t{0}}}},
      {"reduce",
       {{2, 3, 4}},
       {{"kind", std::string("sum")}, {"axes", Numbers{0, 2}}, {"keepdims", std::int64_t{1}}}},
      {"reduce",
       {{2, 3}},
       {{"kind", std::string("sum")}, {"axes", Numbers{}}, {"keepdims", std::int64_t{0}}}},
      {"reshape", {{2, 6}}, {{"shape", Numbers{3, 4}}}},
      {"slice",
       {{4, 6}},
       {{"starts", Numbers{1, 0}}, {"steps", Numbers{1, 2}}, {"sizes", Numbers{2, 3}}}},
      {"slice",
       {{4, 6}},
       {{"starts", Numbers{0, 2}}, {"steps", Numbers{1, 1}}, {"sizes", Numbers{4, 0}}}},
      {"concat", {{2, 3}, {2, 1}}, {{"axis", std::int64_t{1}}}},
      {"expand", {{3, 1}}, {{"shape", Numbers{2, 3, 4}}}},
  };
}

graph::Graph single(const Case& c) {
  graph::GraphBuilder b(c.op);
  std::vector<graph::ValueId> inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(b.input(fmt::format("x{}", i), {DType::kF32, c.inputs[i]}));
  }
  const graph::ValueId out = b.add(c.op, inputs, c.attrs).value();
  return b.finish({out}, {"y"});
}

TEST(GraphEval, EqualsTheMeaningOfEachOperator) {
  Rng rng(3);
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.op + std::string(" ") + graph::to_text(c.attrs));
    const graph::Graph graph = single(c);
    std::vector<HostTensor> inputs;
    std::vector<at::Tensor> tensors;
    for (const Shape& shape : c.inputs) {
      inputs.push_back(random_tensor(DType::kF32, shape, rng));
      tensors.push_back(to_torch(inputs.back(), kF32));
    }
    const HostTensor want = graph::evaluate(graph, inputs).value()[0];
    const HostTensor got = to_host(GraphEval::make(graph, kF32).value().run(tensors)[0]);
    EXPECT_EQ(testing::mismatch(got, want, 1e-5), "");
  }
}

TEST(GraphEval, RefusesWhatNetworksDoNotHave) {
  const auto refusal = [](const Case& c) {
    const auto eval = GraphEval::make(single(c), kF32);
    return eval.ok() ? std::string() : eval.error().message;
  };
  EXPECT_EQ(refusal({"erf", {{2}}, {}}), "training has no operator erf");
  EXPECT_EQ(
      refusal(
          {"reduce",
           {{2}},
           {{"kind", std::string("prod")}, {"axes", Numbers{0}}, {"keepdims", std::int64_t{0}}}}),
      "training has no reduce of kind prod");
  EXPECT_EQ(refusal({"slice",
                     {{2}},
                     {{"starts", Numbers{1}}, {"steps", Numbers{-1}}, {"sizes", Numbers{2}}}}),
            "training slices forward only");
}

// The named network, small.
nn::Network small_network(const nn::NetworkEntry& entry) {
  nn::Hyper hyper = entry.defaults;
  const nn::Hyper small = {{"hidden", 8}, {"ffn", 8},     {"n_a", 4},    {"n_d", 4},
                           {"heads", 2},  {"steps", 2},   {"layers", 1}, {"slots", 2},
                           {"depth", 3},  {"max_rows", 8}};
  for (auto& [name, value] : hyper) {
    if (small.count(name) != 0) value = std::min(value, small.at(name));
  }
  const nn::NetworkSpec spec = nn::make_spec(entry.name, hyper, 5, 3).value();
  return nn::build_network(spec, {.batch = 3, .rows = 4}).value();
}

// Random rows, a mask with a shorter candidate, parents in a chain, random weights.
std::vector<HostTensor> network_inputs(const nn::Network& network, Rng& rng) {
  std::vector<HostTensor> inputs;
  for (const graph::ValueId id : network.graph.inputs) {
    const graph::Value& value = network.graph.value(id);
    HostTensor x = random_tensor(DType::kF32, value.type.shape, rng);
    if (value.name == "mask") {
      for (std::int64_t i = 0; i < x.size(); ++i) x.set_float(i, i == 2 || i == 3 ? 0 : 1);
    }
    if (value.name == "parents") {
      const std::int64_t rows = value.type.shape[1];
      for (std::int64_t i = 0; i < x.size(); ++i) {
        x.set_float(i, i / rows % rows + 1 == i % rows ? 1 : 0);
      }
    }
    inputs.push_back(x);
  }
  return inputs;
}

TEST(GraphEval, EqualsTheMeaningOfEachNetwork) {
  Rng rng(5);
  for (const nn::NetworkEntry& entry : nn::network_table()) {
    SCOPED_TRACE(entry.name);
    const nn::Network network = small_network(entry);
    const std::vector<HostTensor> inputs = network_inputs(network, rng);
    std::vector<at::Tensor> tensors;
    for (const HostTensor& x : inputs) tensors.push_back(to_torch(x, kF32));
    const std::vector<HostTensor> want = graph::evaluate(network.graph, inputs).value();
    const std::vector<at::Tensor> got = GraphEval::make(network.graph, kF32).value().run(tensors);
    ASSERT_EQ(got.size(), 3);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(testing::mismatch(to_host(got[i]), want[i], 1e-5), "") << "output " << i;
    }
  }
}

TEST(GraphEval, GradientsAreDifferencesOfEachNetwork) {
  Rng rng(7);
  for (const nn::NetworkEntry& entry : nn::network_table()) {
    SCOPED_TRACE(entry.name);
    const nn::Network network = small_network(entry);
    const GraphEval eval = GraphEval::make(network.graph, kF64).value();
    std::vector<at::Tensor> tensors;
    for (const HostTensor& x : network_inputs(network, rng)) tensors.push_back(to_torch(x, kF64));
    const auto loss = [&] {
      const std::vector<at::Tensor> out = eval.run(tensors);
      return (out[0] * out[0] + 2 * out[1] + 3 * out[2]).sum();
    };
    const std::size_t first = tensors.size() - network.parameters.size();
    for (std::size_t p = first; p < tensors.size(); ++p) tensors[p].set_requires_grad(true);
    loss().backward();
    for (std::size_t p = first; p < tensors.size(); ++p) {
      tensors[p].set_requires_grad(false);
      ASSERT_TRUE(tensors[p].grad().defined()) << network.parameters[p - first].name;
      double* value = tensors[p].data_ptr<double>() + rng.below(tensors[p].numel());
      const double analytic =
          tensors[p].grad().contiguous().data_ptr<double>()[value - tensors[p].data_ptr<double>()];
      const double kept = *value, step = 1e-6;
      *value = kept + step;
      const double above = loss().item<double>();
      *value = kept - step;
      const double below = loss().item<double>();
      *value = kept;
      EXPECT_NEAR(analytic, (above - below) / (2 * step), 1e-5 * (1 + std::abs(analytic)))
          << network.parameters[p - first].name;
    }
  }
}

}  // namespace
}  // namespace tessera::train
