#include "tests/graphset/graph_case.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/graphset/opcodes.h"
#include "tessera/support/rng.h"

namespace tessera::graphset::testing {
namespace {

constexpr std::int64_t kColumns = 8, kLayoutColumns = 18, kTileColumns = 24;

void add_nodes(std::int64_t nodes, Rng& rng, ConfigGraph* g) {
  g->node_feat = HostTensor(DType::kF32, {nodes, kColumns});
  for (std::int64_t n = 0; n < nodes; ++n) {
    g->opcode.push_back(opcode_id(n % 3 == 0 ? "convolution" : "add"));
    for (std::int64_t c = 0; c < kColumns; ++c) {
      g->node_feat.as<float>()[n * kColumns + c] = static_cast<float>(1 + rng.below(50));
    }
    if (n > 0) {
      g->edges.push_back({static_cast<std::int32_t>(n), static_cast<std::int32_t>(n - 1)});
    }
  }
}

}  // namespace

ConfigGraph layout_graph(std::int64_t nodes, std::int64_t configs, std::uint64_t seed) {
  Rng rng(seed);
  ConfigGraph g;
  g.name = "chain";
  add_nodes(nodes, rng, &g);
  for (std::int64_t n = 0; n < nodes; n += 3) {
    g.config_nodes.push_back(static_cast<std::int32_t>(n));
  }
  g.splits = {0, nodes};
  const auto places = static_cast<std::int64_t>(g.config_nodes.size());
  g.configs = HostTensor(DType::kF32, {configs, places, kLayoutColumns});
  std::fill_n(g.configs.as<float>(), g.configs.size(), -1.0F);
  for (std::int64_t i = 0; i < configs; ++i) {
    std::int64_t time = 1'000'000, before = -1;
    for (std::int64_t p = 0; p < places; ++p) {
      const std::int64_t first = rng.below(2);
      float* row = g.configs.as<float>() + (i * places + p) * kLayoutColumns;
      row[0] = static_cast<float>(first);
      row[1] = static_cast<float>(1 - first);
      const float size =
          g.node_feat.as<float>()[g.config_nodes[static_cast<std::size_t>(p)] * kColumns];
      if (first == 1) time += static_cast<std::int64_t>(size * 100);
      if (before >= 0 && before != first) time += 2'000;
      before = first;
    }
    g.runtime_ns.push_back(time);
  }
  return g;
}

ConfigGraph tile_graph(std::int64_t configs, std::uint64_t seed) {
  Rng rng(seed);
  ConfigGraph g;
  g.name = "kernel";
  g.kind = Kind::kTile;
  add_nodes(5, rng, &g);
  g.configs = HostTensor(DType::kF32, {configs, 1, kTileColumns});
  for (std::int64_t i = 0; i < configs; ++i) {
    const std::int64_t tile = 1 + rng.below(64);
    g.configs.as<float>()[i * kTileColumns + 8] = static_cast<float>(tile);
    g.runtime_ns.push_back(1000 + 10 * std::abs(tile - 32));
    g.normalizer_ns.push_back(1100);
  }
  return g;
}

std::string temp_file(const std::string& name) {
  namespace fs = std::filesystem;
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder =
      fs::path(::testing::TempDir()) / (std::string("graphset_") + test->name());
  fs::create_directories(folder);
  return (folder / name).string();
}

}  // namespace tessera::graphset::testing
