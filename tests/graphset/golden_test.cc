// Real files of TpuGraphs, which do not come with Tessera: TESSERA_TPUGRAPHS names their folder.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/learn/graphset/npz_file.h"
#include "tessera/learn/graphset/tuning_data.h"
#include "tests/graphset/graph_case.h"
#include "tests/testing/testing.h"

namespace tessera::graphset {
namespace {

class Golden : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("TESSERA_TPUGRAPHS");
    if (folder == nullptr)
      GTEST_SKIP() << "files of TpuGraphs do not come with Tessera: name their folder by "
                      "TESSERA_TPUGRAPHS";
    folder_ = folder;
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

TEST_F(Golden, ConvertedProgramEqualsTheReleasedArrays) {
  const Result<Converted> made = read_tuning_data(file("pb/module_tuning_data_layout.pb"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->graphs.size(), 1U);
  const ConfigGraph& got = made->graphs[0];
  const Result<ConfigGraph> want =
      read_graph(file("npz/layout/xla/random/valid/unet_3d.4x4.bf16.npz"));
  ASSERT_TRUE(want.ok()) << want.error().message;
  EXPECT_EQ(tessera::testing::mismatch(got.node_feat, want->node_feat, 0), "");
  EXPECT_EQ(got.opcode, want->opcode);
  EXPECT_EQ(got.edges, want->edges);
  EXPECT_EQ(got.splits, want->splits);
  EXPECT_EQ(got.config_nodes, want->config_nodes);
  EXPECT_EQ(made->runs, 122);
  EXPECT_EQ(made->failed, 10);
  EXPECT_EQ(got.size(), 112);
}

TEST_F(Golden, TilesOfKernelsAreConverted) {
  const Result<Converted> made = read_tuning_data(file("pb/op_tuning_data_partA.pb"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made->runs, 633);
  std::int64_t configs = made->failed;
  for (const ConfigGraph& g : made->graphs) {
    EXPECT_EQ(g.kind, Kind::kTile);
    EXPECT_EQ(g.config_columns(), 24);
    configs += g.size();
  }
  EXPECT_EQ(made->graphs.size() + made->dropped.size(), 7U);
  EXPECT_LE(configs, made->runs);
}

TEST_F(Golden, EveryReleasedFileIsReadAndComesBack) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(file(""))) {
    if (entry.path().extension() != ".npz") continue;
    const Result<ConfigGraph> graph = read_graph(entry.path().string());
    ASSERT_TRUE(graph.ok()) << graph.error().message;
    const std::string copy = testing::temp_file("copy.npz");
    ASSERT_TRUE(write_graph(copy, *graph).ok());
    const Result<ConfigGraph> back = read_graph(copy);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(tessera::testing::mismatch(back->configs, graph->configs, 0), "");
    EXPECT_EQ(back->runtime_ns, graph->runtime_ns);
    ++files;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace tessera::graphset
