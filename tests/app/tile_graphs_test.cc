#include "tessera/app/collect/tile_graphs.h"

#include <gtest/gtest.h>

#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/graphset/opcodes.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::app {
namespace {

constexpr const char* kConv =
    "dag conv+max\n"
    "  input p0: f32[1, 10, 10, 8]\n"
    "  constant p1: f32[16, 8, 3, 3]\n"
    "  stage conv: f32[1, 8, 8, 16]\n"
    "    conv[n, oh, ow, co] = sum(kh in 3, kw in 3, ci in 8) p0[n, oh + kh, ow + kw, ci] * "
    "p1[co, ci, kh, kw]\n"
    "  stage max: f32[1, 8, 8, 16]\n"
    "    max[i0, i1, i2, i3] = max(conv[0, i1, i2, i3], 0.0)\n"
    "  output max\n";

dataset::Dataset recorded(int records) {
  dataset::Dataset d;
  d.machines = {{"host cores=1", 1}, {"host cores=16", 16}};
  d.tasks.push_back({"00aa", "conv+max", "tessera", kConv, 1e6, 1e4});
  for (int i = 0; i < records; ++i) {
    dataset::Example e;
    e.seconds = 1e-6F * static_cast<float>(i + 1);
    e.outcome = "ok";
    e.schedule = fmt::format("split max i2 {} 4\nsplit max i3 16\nsplit conv ci 2 {}\n", 1 + i / 2,
                             1 + i % 2);
    d.examples.push_back(e);
  }
  return d;
}

TEST(TileGraphs, TilesAreWhatSplitsLeaveInside) {
  const te::Dag dag = te::dag_from_text(kConv).value();
  const schedule::Schedule steps =
      schedule::schedule_from_text("split max i2 2 4\nsplit max i3 16\nsplit conv ci 4\n").value();
  const std::vector<float> tile = tile_features(dag, steps);
  ASSERT_EQ(tile.size(), 24U);
  EXPECT_EQ((std::vector<float>(tile.begin(), tile.begin() + 8)),
            (std::vector<float>{1, 1, 4, 0, 0, 0, 6, 4}));
  EXPECT_EQ((std::vector<float>(tile.begin() + 8, tile.begin() + 16)),
            (std::vector<float>{1, 1, 4, 16, 0, 0, 22, 64}));
  EXPECT_EQ((std::vector<float>(tile.begin() + 16, tile.end())),
            (std::vector<float>{1, 1, 8, 16, 0, 0, 26, 128}));
}

TEST(TileGraphs, RecordsBecomeFilesInTheSchema) {
  const TileGraphs made = tile_graphs(recorded(12), {.machine = "cores=1", .least = 10}).value();
  ASSERT_EQ(made.graphs.size(), 1U);
  EXPECT_EQ(made.records, 12U);
  const graphset::ConfigGraph& g = made.graphs[0];
  EXPECT_EQ(g.name, "conv+max.0_00aa");
  ASSERT_EQ(g.nodes(), 4);
  EXPECT_EQ(graphset::opcode_name(g.opcode[2]), "convolution");
  EXPECT_EQ(graphset::opcode_name(g.opcode[3]), "maximum");
  EXPECT_EQ(g.edges, (std::vector<graphset::Edge>{{2, 0}, {2, 1}, {3, 2}}));
  EXPECT_EQ(g.runtime_ns[3], 4000);
  EXPECT_EQ(g.normalizer_ns[0], 7000);
  const TemporaryFolder folder = TemporaryFolder::make("tiles").value();
  const std::string path = folder.path() + "/kernel.npz";
  ASSERT_TRUE(graphset::write_graph(path, g).ok());
  const graphset::ConfigGraph back = graphset::read_graph(path).value();
  EXPECT_EQ(back.kind, graphset::Kind::kTile);
  EXPECT_EQ(back.runtime_ns, g.runtime_ns);
  EXPECT_EQ(back.opcode, g.opcode);
}

TEST(TileGraphs, FewTilesAndOtherMachinesAreLeftOut) {
  EXPECT_EQ(tile_graphs(recorded(5), {.least = 10}).value().few, 1U);
  EXPECT_EQ(tile_graphs(recorded(12), {.least = 13}).value().graphs.size(), 0U);
  EXPECT_NE(tile_graphs(recorded(12), {.machine = "cores=16"}).error().message.find("cores=16"),
            std::string::npos);
  dataset::Dataset broken = recorded(12);
  broken.examples[3].schedule = "no such step";
  EXPECT_FALSE(tile_graphs(broken, {.least = 10}).ok());
}

}  // namespace
}  // namespace tessera::app
