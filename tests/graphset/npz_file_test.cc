#include "tessera/learn/graphset/npz_file.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tessera/support/files.h"
#include "tessera/support/npz.h"
#include "tests/graphset/graph_case.h"
#include "tests/testing/testing.h"

namespace tessera::graphset {
namespace {

using testing::layout_graph;
using testing::temp_file;
using testing::tile_graph;

void expect_equal(const ConfigGraph& got, const ConfigGraph& want) {
  EXPECT_EQ(got.kind, want.kind);
  EXPECT_EQ(tessera::testing::mismatch(got.node_feat, want.node_feat, 0), "");
  EXPECT_EQ(got.opcode, want.opcode);
  EXPECT_EQ(got.edges, want.edges);
  EXPECT_EQ(got.config_nodes, want.config_nodes);
  EXPECT_EQ(got.splits, want.splits);
  EXPECT_EQ(tessera::testing::mismatch(got.configs, want.configs, 0), "");
  EXPECT_EQ(got.runtime_ns, want.runtime_ns);
  EXPECT_EQ(got.normalizer_ns, want.normalizer_ns);
  EXPECT_EQ(got.estimate_ns, want.estimate_ns);
}

TEST(NpzFile, LayoutSetComesBack) {
  const ConfigGraph graph = layout_graph(10, 7, 1);
  const std::string path = temp_file("net.npz");
  ASSERT_TRUE(write_graph(path, graph).ok());
  const Result<ConfigGraph> back = read_graph(path);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->name, "net");
  expect_equal(*back, graph);
}

TEST(NpzFile, EstimatesComeBack) {
  ConfigGraph graph = layout_graph(10, 3, 1);
  graph.estimate_ns = {5, 7, 9};
  const std::string path = temp_file("net.npz");
  ASSERT_TRUE(write_graph(path, graph).ok());
  expect_equal(read_graph(path).value(), graph);
  EXPECT_EQ(take_configs(graph, {2, 0}).estimate_ns, (std::vector<std::int64_t>{9, 5}));
  graph.estimate_ns[1] = 0;
  EXPECT_FALSE(check(graph).ok());
  graph.estimate_ns = {5, 7};
  EXPECT_FALSE(check(graph).ok());
}

TEST(NpzFile, TileSetComesBack) {
  const ConfigGraph graph = tile_graph(9, 2);
  const std::string path = temp_file("kernel.npz");
  ASSERT_TRUE(write_graph(path, graph).ok());
  const Result<ConfigGraph> back = read_graph(path);
  ASSERT_TRUE(back.ok()) << back.error().message;
  expect_equal(*back, graph);
  EXPECT_NEAR(back->cost(0), static_cast<double>(graph.runtime_ns[0]) / 1100, 1e-12);
}

TEST(NpzFile, HasTheTypesOfTheReleasedFiles) {
  const std::string path = temp_file("net.npz");
  ASSERT_TRUE(write_graph(path, layout_graph(10, 7, 1)).ok());
  const Result<NamedTensors> arrays = read_npz(path);
  ASSERT_TRUE(arrays.ok());
  std::map<std::string, std::string> types;
  for (const NamedTensor& t : *arrays) {
    types[t.name] = std::string(to_text(t.tensor.dtype())) + " " + to_text(t.tensor.shape());
  }
  EXPECT_EQ(types["node_opcode"], "u8 10");
  EXPECT_EQ(types["edge_index"], "i64 9x2");
  EXPECT_EQ(types["node_splits"], "i64 1x2");
  EXPECT_EQ(types["node_config_feat"], "f32 7x4x18");
}

// The reason why a file of these arrays cannot be read.
std::string refusal(const NamedTensors& arrays) {
  const std::string path = temp_file("bad.npz");
  EXPECT_TRUE(write_npz(path, arrays).ok());
  const Result<ConfigGraph> graph = read_graph(path);
  EXPECT_FALSE(graph.ok());
  EXPECT_TRUE(graph.error().message.starts_with(path)) << graph.error().message;
  return graph.error().message;
}

NamedTensors arrays_of(const ConfigGraph& graph) {
  const std::string path = temp_file("good.npz");
  EXPECT_TRUE(write_graph(path, graph).ok());
  return read_npz(path).value();
}

NamedTensors with(NamedTensors arrays, const std::string& name, const HostTensor& tensor) {
  for (NamedTensor& t : arrays) {
    if (t.name == name) t.tensor = tensor;
  }
  return arrays;
}

HostTensor filled(DType dtype, const Shape& shape, std::int64_t value) {
  HostTensor out(dtype, shape);
  for (std::int64_t i = 0; i < out.size(); ++i) out.set_int(i, value);
  return out;
}

TEST(NpzFile, RefusesArraysThatDoNotFit) {
  const NamedTensors good = arrays_of(layout_graph(10, 7, 1));
  const auto refused = [&](const char* name, const HostTensor& tensor) {
    return refusal(with(good, name, tensor));
  };
  EXPECT_NE(refused("node_feat", HostTensor(DType::kF32, {9, 8})).find("node_feat is 9x8"),
            std::string::npos);
  EXPECT_NE(refused("node_feat", HostTensor(DType::kF64, {10, 8})).find("not f32"),
            std::string::npos);
  EXPECT_NE(refused("edge_index", filled(DType::kI64, {4, 3}, 0)).find("not [edges, 2]"),
            std::string::npos);
  EXPECT_NE(refused("edge_index", filled(DType::kI64, {4, 2}, 10)).find("there are 10 nodes"),
            std::string::npos);
  EXPECT_NE(refused("edge_index", filled(DType::kI64, {1, 2}, std::int64_t{1} << 40))
                .find("out of range"),
            std::string::npos);
  EXPECT_NE(refused("node_opcode", filled(DType::kI32, {10}, 300)).find("out of range"),
            std::string::npos);
  EXPECT_NE(refused("node_opcode", HostTensor(DType::kF32, {10})).find("has type f32"),
            std::string::npos);
  EXPECT_NE(refused("node_config_ids", filled(DType::kI64, {4}, 3)).find("not ascending"),
            std::string::npos);
  EXPECT_NE(refused("node_config_ids", filled(DType::kI64, {1}, 3)).find("1 places"),
            std::string::npos);
  EXPECT_NE(refused("node_config_feat", HostTensor(DType::kF32, {7, 72})).find("rank 3"),
            std::string::npos);
  EXPECT_NE(refused("config_runtime", filled(DType::kI64, {6}, 1)).find("6 values of 7"),
            std::string::npos);
  EXPECT_NE(refused("config_runtime", filled(DType::kI64, {7}, -1)).find("negative"),
            std::string::npos);
  EXPECT_NE(refused("node_splits", filled(DType::kI64, {1, 2}, 4)).find("do not ascend"),
            std::string::npos);
  HostTensor infinite(DType::kF32, {10, 8});
  infinite.as<float>()[3] = INFINITY;
  EXPECT_NE(refused("node_feat", infinite).find("not finite"), std::string::npos);
}

TEST(NpzFile, RefusesTilesThatDoNotFit) {
  const NamedTensors good = arrays_of(tile_graph(9, 1));
  EXPECT_NE(refusal(with(good, "config_feat", HostTensor(DType::kF32, {9}))).find("config_feat is"),
            std::string::npos);
  EXPECT_NE(refusal(with(good, "config_runtime_normalizers", filled(DType::kI64, {9}, 0)))
                .find("below 1"),
            std::string::npos);
  EXPECT_NE(refusal(with(good, "config_runtime_normalizers", filled(DType::kI64, {8}, 1)))
                .find("8 values of 9"),
            std::string::npos);
}

TEST(NpzFile, NamesWhatIsMissing) {
  NamedTensors arrays = arrays_of(layout_graph(10, 7, 1));
  EXPECT_NE(refusal({arrays[0]}).find("there is no array node_opcode"), std::string::npos);
  std::erase_if(arrays, [](const NamedTensor& t) { return t.name == "node_config_feat"; });
  EXPECT_NE(refusal(arrays).find("no set of TpuGraphs"), std::string::npos);
}

TEST(NpzFile, RefusesFilesThatAreCutOff) {
  const std::string path = temp_file("net.npz"), cut = temp_file("cut.npz");
  ASSERT_TRUE(write_graph(path, layout_graph(10, 7, 1)).ok());
  const std::string bytes = read_file(path).value();
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 50) {
    ASSERT_TRUE(write_file(cut, {std::string_view(bytes).substr(0, size)}).ok());
    EXPECT_FALSE(read_graph(cut).ok()) << size;
  }
  EXPECT_EQ(read_graph(temp_file("absent.npz")).error().code, ErrorCode::kIo);
}

TEST(NpzFile, RefusesWhatWouldFillTheMemory) {
  const std::string path = temp_file("net.npz");
  ASSERT_TRUE(write_graph(path, layout_graph(10, 1000, 1)).ok());
  const Result<ConfigGraph> graph = read_graph(path, 10'000);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace tessera::graphset
