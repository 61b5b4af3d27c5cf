#include "tessera/learn/nn/graph_network.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/op.h"
#include "tessera/learn/nn/graph_network_file.h"
#include "tessera/support/files.h"

namespace tessera::nn {
namespace {

constexpr std::int64_t kColumns = 5, kConfigColumns = 6;

TrainedGraphNetwork random_network(const std::string& name, const Hyper& hyper) {
  TrainedGraphNetwork out;
  out.spec = make_graph_spec(name, hyper, kColumns, kConfigColumns).value();
  out.kind = "layout";
  out.nodes.shift.assign(kColumns, 0);
  out.nodes.scale.assign(kColumns, 1);
  Rng rng(1);
  const Network built = build_graph_network(out.spec, smallest_shape()).value();
  for (const Parameter& p : built.parameters) {
    out.weights[p.name] = random_tensor(DType::kF32, p.shape, rng);
  }
  return out;
}

// Scores by the interpreter, on random inputs whose padding is 0.
std::vector<float> scores(const TrainedGraphNetwork& trained, const GraphShape& real,
                          const GraphShape& padded, bool reversed) {
  const Network network = build_graph_network(trained.spec, padded).value();
  std::vector<HostTensor> inputs;
  for (const graph::ValueId id : network.graph.inputs) {
    const std::string& name = network.graph.value(id).name;
    if (const auto weight = trained.weights.find(name); weight != trained.weights.end()) {
      inputs.push_back(weight->second);
      continue;
    }
    const Shape& shape = network.graph.type(id).shape;
    HostTensor tensor(DType::kF32, shape);
    const auto set = [&](std::int64_t at, double v) { tensor.set_float(at, v); };
    const std::int64_t n = padded.nodes, m = padded.places, c = padded.configs;
    if (name == "linked") {
      for (std::int64_t i = 0; i < n * n; ++i) set(i, i % n == i / n ? 0 : -1e9);
      for (std::int64_t i = 1; i < real.nodes; ++i) set(i * n + i - 1, 0);
    } else if (name == "sources" || name == "users" || name == "symmetric") {
      for (std::int64_t i = 1; i < real.nodes; ++i) set(i * n + i - 1, 0.5);
    } else if (name == "estimate") {
      for (std::int64_t i = 0; i < c; ++i) set(i, static_cast<double>(reversed ? c - 1 - i : i));
    } else if (name == "mask") {
      for (std::int64_t i = 0; i < real.nodes; ++i) set(i, 1);
    } else if (name == "place") {
      for (std::int64_t p = 0; p < real.places; ++p) set(p * m + p, 1);
    } else if (name == "opcodes" || name == "place_opcodes") {
      const std::int64_t rows = name == "opcodes" ? real.nodes : real.places;
      for (std::int64_t r = 0; r < rows; ++r) set(r * kGraphOpcodes + r, 1);
    } else if (name == "place_ids") {
      for (std::int64_t p = 0; p < real.places; ++p) set(p * shape[1] + p, 1);
    } else if (name == "nodes") {
      for (std::int64_t i = 0; i < real.nodes * kColumns; ++i) set(i, 0.1 * static_cast<double>(i));
    } else {
      EXPECT_EQ(name, "configs");
      for (std::int64_t p = 0; p < real.places; ++p) {
        for (std::int64_t i = 0; i < c; ++i) {
          const std::int64_t config = reversed ? c - 1 - i : i;
          set((p * c + i) * kConfigColumns + (config + p) % kConfigColumns, 1);
        }
      }
    }
    inputs.push_back(std::move(tensor));
  }
  const HostTensor out = graph::evaluate(network.graph, inputs).value()[0];
  return {out.as<float>(), out.as<float>() + out.size()};
}

struct Case {
  std::string name, network;
  Hyper hyper;
};
std::vector<Case> cases() {
  const Hyper small = {{"hidden", 8}, {"layers", 2}};
  const auto with = [&](const char* name, std::int64_t value) {
    Hyper out = small;
    out[name] = value;
    return out;
  };
  return {{"additive", "additive", {}},
          {"additive_places", "additive", {{"places", 3}}},
          {"pairs", "pairs", {{"hidden", 4}}},
          {"pairs_places", "pairs", {{"hidden", 4}, {"places", 3}}},
          {"gcn", "gcn", small},
          {"places", "graphsage", with("places", 3)},
          {"gat", "gat", small},
          {"graphsage", "graphsage", small},
          {"late", "graphsage", with("early", 0)},
          {"one_way", "graphsage", with("both", 0)},
          {"plain", "graphsage", with("residual", 0)},
          {"compare", "graphsage", with("compare", 1)},
          {"estimate", "graphsage", with("estimate", 1)},
          {"late_estimate", "gcn", {{"hidden", 8}, {"early", 0}, {"estimate", 1}}}};
}

class GraphNetworks : public ::testing::TestWithParam<Case> {};

TEST_P(GraphNetworks, ScoresFollowConfigurationsAndNotPadding) {
  const TrainedGraphNetwork network = random_network(GetParam().network, GetParam().hyper);
  const GraphShape real = {.configs = 5, .nodes = 6, .places = 3};
  const GraphShape padded = {.configs = 5, .nodes = 9, .places = 4};
  const std::vector<float> plain = scores(network, real, real, false);
  const std::vector<float> more = scores(network, real, padded, false);
  const std::vector<float> reversed = scores(network, real, real, true);
  ASSERT_EQ(plain.size(), 5U);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(more[i], plain[i], 1e-3 * (1 + std::abs(plain[i])));
    EXPECT_NEAR(reversed[4 - i], plain[i], 1e-3 * (1 + std::abs(plain[i])));
  }
  EXPECT_NE(plain[0], plain[1]);
}

TEST_P(GraphNetworks, FilesComeBack) {
  const TrainedGraphNetwork network = random_network(GetParam().network, GetParam().hyper);
  const std::string path = ::testing::TempDir() + "graph_network_" + GetParam().name;
  ASSERT_TRUE(save_graph_network(network, path).ok());
  const Result<TrainedGraphNetwork> back = load_graph_network(path);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->spec, network.spec);
  EXPECT_EQ(back->kind, "layout");
  EXPECT_EQ(back->nodes.scale, network.nodes.scale);
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(All, GraphNetworks, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

TEST(GraphNetwork, ScoresWithoutLayersDoNotNeedEdges) {
  const TrainedGraphNetwork network = random_network("graphsage", {{"hidden", 8}, {"layers", 0}});
  const Network built = build_graph_network(network.spec, {2, 4, 2}).value();
  for (const graph::ValueId id : built.graph.inputs) {
    EXPECT_NE(built.graph.value(id).name, "sources");
  }
}

TEST(GraphNetwork, DataComesBeforeParameters) {
  for (const GraphNetworkEntry& entry : graph_network_table()) {
    const GraphNetworkSpec spec = make_graph_spec(entry.name, {}, kColumns, kConfigColumns).value();
    const Network built = build_graph_network(spec, smallest_shape()).value();
    const std::size_t data = built.graph.inputs.size() - built.parameters.size();
    for (std::size_t i = 0; i < built.parameters.size(); ++i) {
      EXPECT_EQ(built.graph.value(built.graph.inputs[data + i]).name, built.parameters[i].name)
          << entry.name;
    }
  }
}

TEST(GraphNetwork, RefusesUselessSizes) {
  const auto reason = [](const std::string& network, const Hyper& hyper) {
    return make_graph_spec(network, hyper, kColumns, kConfigColumns).error().message;
  };
  EXPECT_NE(reason("mlp", {}).find("there are additive"), std::string::npos);
  EXPECT_NE(reason("gcn", {{"both", 1}}).find("unknown hyper-parameter"), std::string::npos);
  EXPECT_NE(reason("gcn", {{"hidden", 0}}).find("outside"), std::string::npos);
  EXPECT_NE(reason("additive", {{"places", -1}}).find("outside"), std::string::npos);
  const GraphNetworkSpec spec = make_graph_spec("gcn", {}, kColumns, kConfigColumns).value();
  EXPECT_FALSE(build_graph_network(spec, {.configs = 0, .nodes = 1, .places = 1}).ok());
}

TEST(GraphNetwork, FilesOfOthersAreRefused) {
  TrainedGraphNetwork network = random_network("additive", {});
  const std::string path = ::testing::TempDir() + "graph_network_bad";
  network.kind = "other";
  EXPECT_NE(save_graph_network(network, path).error().message.find("kind 'other'"),
            std::string::npos);
  network.kind = "tile";  // whose configurations are normalised
  EXPECT_NE(save_graph_network(network, path).error().message.find("normalizer.configs"),
            std::string::npos);
  ASSERT_TRUE(write_file(path, {"nothing"}).ok());
  EXPECT_EQ(load_graph_network(path).error().code, ErrorCode::kIo);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera::nn
