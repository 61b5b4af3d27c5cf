#include "tessera/learn/graphset/segments.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/learn/graphset/network_inputs.h"
#include "tests/graphset/graph_case.h"

namespace tessera::graphset {
namespace {

using testing::layout_graph;
using testing::tile_graph;

std::size_t edges_of(const std::vector<Segment>& segments) {
  std::size_t sum = 0;
  for (const Segment& s : segments) sum += s.edges.size();
  return sum;
}

TEST(Segments, WholeGraphIsOne) {
  const ConfigGraph g = layout_graph(30, 3, 1);
  const std::vector<Segment> all = cut(g, {.hops = -1, .nodes = 512});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].nodes.size(), 30U);
  EXPECT_EQ(all[0].edges, g.edges);
  EXPECT_EQ(all[0].at, g.config_nodes);
}

TEST(Segments, ConfigurableNodesStayJoinedThroughOthers) {
  const ConfigGraph g = layout_graph(30, 3, 1);
  const std::vector<Segment> few = cut(g, {.hops = 0, .nodes = 512});
  ASSERT_EQ(few.size(), 1U);
  EXPECT_EQ(few[0].nodes, g.config_nodes);
  ASSERT_EQ(few[0].edges.size(), 9U);  // of the chain of ten
  EXPECT_EQ(few[0].edges[0], (Edge{1, 0}));
}

TEST(Segments, HubsDoNotJoinAllWithAll) {
  ConfigGraph g = layout_graph(600, 1, 1);
  g.edges.clear();
  for (std::int32_t n = 1; n < 600; ++n) {
    if (n != 301) g.edges.push_back({301, n < 301 ? n : 0});
    if (n > 301) g.edges.push_back({n, 301});
  }
  std::sort(g.edges.begin(), g.edges.end());
  g.edges.erase(std::unique(g.edges.begin(), g.edges.end()), g.edges.end());
  const std::vector<Segment> few = cut(g, {.hops = 0, .nodes = 4096});
  EXPECT_LE(edges_of(few), few[0].nodes.size() * 64);
}

TEST(Segments, AreBoundedAndHaveEveryPlaceOnce) {
  const ConfigGraph g = layout_graph(100, 3, 1);
  const std::vector<Segment> parts = cut(g, {.hops = 1, .nodes = 16});
  std::vector<std::int32_t> places;
  for (const Segment& s : parts) {
    EXPECT_LE(s.nodes.size(), 16U);
    ASSERT_EQ(s.at.size(), s.places.size());
    for (std::size_t p = 0; p < s.at.size(); ++p) {
      EXPECT_EQ(s.nodes[static_cast<std::size_t>(s.at[p])],
                g.config_nodes[static_cast<std::size_t>(s.places[p])]);
    }
    places.insert(places.end(), s.places.begin(), s.places.end());
  }
  EXPECT_EQ(places.size(), g.config_nodes.size());
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
}

TEST(Segments, ThoseWithoutAPlaceAreLeftOut) {
  ConfigGraph g = layout_graph(100, 3, 1);
  g.config_nodes = {98};
  const std::vector<Segment> parts = cut(g, {.hops = -1, .nodes = 10});
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].nodes.front(), 90);
}

TEST(Segments, TilesAreOfEveryNode) {
  const std::vector<Segment> parts = cut(tile_graph(4, 1), {.hops = 0, .nodes = 3});
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[0].at.empty());
  EXPECT_EQ(parts[1].places, std::vector<std::int32_t>{0});
}

TEST(NetworkInputs, MatricesAverageNeighbours) {
  const ConfigGraph g = layout_graph(6, 3, 1);
  const Encoding encoding = fit_encoding({g}).value();
  const std::vector<Segment> parts = cut(g, {.hops = -1, .nodes = 8});
  const nn::GraphShape shape = {.configs = 2, .nodes = 8, .places = 4};
  const auto input = [&](const char* name) {
    return still_input(name, encoding, g, parts[0], shape);
  };
  const std::vector<float> sources = input("sources"), users = input("users");
  EXPECT_EQ(sources[1 * 8 + 0], 1);
  EXPECT_EQ(users[0 * 8 + 1], 1);
  EXPECT_EQ(sources[0], 0);
  const std::vector<float> symmetric = input("symmetric"), linked = input("linked");
  EXPECT_FLOAT_EQ(symmetric[1 * 8 + 2], 1.0F / 3);
  EXPECT_EQ(linked[1 * 8 + 2], 0);
  EXPECT_EQ(linked[1 * 8 + 1], 0);
  EXPECT_LT(linked[1 * 8 + 3], -1e8F);
  const std::vector<float> mask = input("mask"), place = input("place");
  EXPECT_EQ(mask[5], 1);
  EXPECT_EQ(mask[6], 0);
  EXPECT_EQ(place[3 * 4 + 1], 1);
  EXPECT_EQ(input("opcodes")[26], 1);
  EXPECT_EQ(input("place_opcodes")[128 + 26], 1);
  EXPECT_TRUE(input("no-such").empty());
}

TEST(NetworkInputs, LayoutsAreEncodedByWhatTheyAre) {
  const ConfigGraph g = layout_graph(6, 3, 1);
  const Encoding encoding = fit_encoding({g}).value();
  EXPECT_EQ(encoding.config_columns, kLayoutValues * 18);
  const std::vector<Segment> parts = cut(g, {.hops = -1, .nodes = 8});
  const nn::GraphShape shape = {.configs = 2, .nodes = 8, .places = 4};
  std::vector<float> out(kLayoutValues * 18 * 2 * 4, 5);
  const std::vector<std::int64_t> configs = {2};
  fill_configs(encoding, g, parts[0], configs, shape, out.data());
  const auto first = static_cast<std::size_t>(g.config(2)[0]);
  EXPECT_EQ(out[first + 1], 1);
  EXPECT_EQ(out[kLayoutValues * 2], 1);           // -1
  EXPECT_EQ(out[kLayoutValues * 18], 0);          // a configuration that is missing
  EXPECT_EQ(out[kLayoutValues * 18 * 2 * 2], 0);  // a place that is not there
}

TEST(NetworkInputs, RefusesWhatDoesNotFit) {
  ConfigGraph g = layout_graph(6, 3, 1);
  const Encoding encoding = fit_encoding({g}).value();
  EXPECT_NE(check_fits(encoding, tile_graph(3, 1)).error().message.find("a tile set"),
            std::string::npos);
  g.configs.as<float>()[0] = 7;
  EXPECT_NE(check_fits(encoding, g).error().message.find("not dimensions"), std::string::npos);
  g.node_feat = HostTensor(DType::kF32, {6, 9});
  EXPECT_NE(check_fits(encoding, g).error().message.find("nodes of 9"), std::string::npos);
  EXPECT_FALSE(fit_encoding({}).ok());
}

}  // namespace
}  // namespace tessera::graphset
