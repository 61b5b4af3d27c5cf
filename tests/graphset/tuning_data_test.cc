#include "tessera/learn/graphset/tuning_data.h"

#include <gtest/gtest.h>

#include "tessera/learn/graphset/node_features.h"
#include "tessera/learn/graphset/opcodes.h"
#include "tessera/learn/graphset/wire.h"
#include "tessera/support/files.h"
#include "tests/graphset/graph_case.h"

namespace tessera::graphset {
namespace {

// Messages in the wire format.
std::string varint(std::uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
  return out;
}
std::string number(unsigned id, std::uint64_t v) { return varint(id << 3) + varint(v); }
std::string bytes(unsigned id, const std::string& v) {
  return varint(id << 3 | 2) + varint(v.size()) + v;
}
std::string packed(unsigned id, const std::vector<std::uint64_t>& list) {
  std::string all;
  for (const std::uint64_t v : list) all += varint(v);
  return bytes(id, all);
}

constexpr std::uint64_t kF32 = 11;

std::string instruction(const std::string& opcode, std::uint64_t id,
                        const std::vector<std::uint64_t>& shape, const std::string& rest) {
  const std::string layout = bytes(5, packed(1, {1, 0}));
  return bytes(2, bytes(1, opcode) + bytes(2, opcode) +
                      bytes(3, number(2, kF32) + packed(3, shape) + layout) + number(35, id) +
                      rest);
}

// A computation `sum` that the second one calls; ids of instructions begin anew in each.
std::string program() {
  const std::string sum = bytes(1, "sum") + instruction("parameter", 1, {}, "") +
                          instruction("add", 2, {}, packed(36, {1, 1})) + number(5, 7) +
                          number(6, 2);
  const std::string window =
      bytes(15, bytes(1, number(1, 3) + number(2, 2)) + bytes(1, number(1, 5) + number(7, 1)));
  const std::string main =
      bytes(1, "cluster_0") + instruction("parameter", 1, {4, 8}, number(9, 2)) +
      instruction("reshape", 2, {32}, packed(36, {1})) +
      instruction("reduce", 3, {2, 3}, packed(36, {2, 1}) + packed(38, {7}) + window) +
      number(5, 8) + number(6, 3);
  return bytes(1, "net") + bytes(3, sum) + bytes(3, main);
}

std::string profile(std::uint64_t ns) { return bytes(4, number(4, ns)); }

std::string layout_run(const std::vector<std::uint64_t>& dims, std::uint64_t ns, bool is_default) {
  const std::string node = bytes(1, bytes(1, packed(1, dims)) + bytes(1, ""));
  return bytes(3, bytes(2, bytes(1, node)) + profile(ns) + number(5, is_default ? 1 : 0));
}

std::string layout_data(const std::string& runs) {
  return bytes(1, program()) + runs + packed(4, {3});
}

TEST(TuningData, LayoutsBecomeOneGraph) {
  const std::string failed = bytes(3, bytes(2, bytes(1, bytes(1, ""))) + number(3, 1));
  const Result<Converted> made = convert_tuning_data(
      layout_data(layout_run({1, 0}, 500, true) + failed + layout_run({0, 1}, 400, false)));
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->graphs.size(), 1U);
  const ConfigGraph& g = made->graphs[0];
  EXPECT_EQ(g.name, "net");
  EXPECT_EQ(g.nodes(), 5);
  EXPECT_EQ(g.opcode[3], opcode_id("reshape"));
  const std::vector<Edge> edges = {{1, 0}, {3, 2}, {4, 1}, {4, 2}, {4, 3}};
  EXPECT_EQ(g.edges, edges);
  EXPECT_EQ(g.splits, (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(g.config_nodes, std::vector<std::int32_t>{3});
  EXPECT_EQ(g.runtime_ns, (std::vector<std::int64_t>{500, 400}));
  EXPECT_EQ(g.config(1)[0], 0);
  EXPECT_EQ(g.config(1)[1], 1);
  EXPECT_EQ(g.config(1)[2], -1);
  EXPECT_EQ(made->runs, 3);
  EXPECT_EQ(made->failed, 1);
}

TEST(TuningData, NodesHaveTheirNumbers) {
  const Result<Converted> made = convert_tuning_data(layout_data(layout_run({1}, 5, true)));
  ASSERT_TRUE(made.ok()) << made.error().message;
  const float* node = made->graphs[0].node_feat.as<float>() + std::ptrdiff_t{4} * kNodeFeatures;
  EXPECT_EQ(node[0], 1);   // the root
  EXPECT_EQ(node[13], 1);  // f32
  EXPECT_EQ(node[21], 2);
  EXPECT_EQ(node[27], 5);
  EXPECT_EQ(node[28], 6);
  EXPECT_EQ(node[37], 3);
  EXPECT_EQ(node[43], 8);
  EXPECT_EQ(node[44], 15);
  EXPECT_EQ(node[86], 1);  // the second dimension is reversed
  EXPECT_EQ(node[91], 1);
  EXPECT_EQ(node[92], 1);
  EXPECT_EQ(node[112], 1);  // the product of no slices
  EXPECT_EQ(node[134], 1);
}

std::string tile_run(std::uint64_t bound, std::uint64_t ns, bool is_default) {
  const std::string tile = bytes(1, packed(2, {bound, 2}));
  return bytes(3, bytes(1, tile) + profile(ns) + number(5, is_default ? 1 : 0));
}

TEST(TuningData, TilesBecomeAGraphEach) {
  const std::string module = bytes(1, program());
  const std::string good = module + tile_run(8, 100, true) + tile_run(16, 50, false);
  const std::string alone = module + tile_run(8, 100, true);
  const std::string headless = module + tile_run(8, 100, false) + tile_run(16, 50, false);
  const std::string bare = module + bytes(3, profile(5)) + tile_run(8, 100, true);
  const Result<Converted> made =
      convert_tuning_data(bytes(1, good) + bytes(1, alone) + bytes(1, headless) + bytes(1, bare));
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_EQ(made->graphs.size(), 1U);
  const ConfigGraph& g = made->graphs[0];
  EXPECT_EQ(g.kind, Kind::kTile);
  EXPECT_EQ(g.normalizer_ns, (std::vector<std::int64_t>{100, 100}));
  EXPECT_EQ(g.config(1)[8], 16);
  EXPECT_EQ(g.config(1)[14], 18);
  EXPECT_EQ(g.config(1)[15], 32);
  EXPECT_EQ(g.config(1)[7], 0);  // the product of no bounds
  const std::vector<std::string> dropped = {"net: a single run", "net: no run of the default",
                                            "net: a run without tiles"};
  EXPECT_EQ(made->dropped, dropped);
}

std::string reason(const std::string& data) {
  const Result<Converted> made = convert_tuning_data(data);
  EXPECT_FALSE(made.ok());
  return made.ok() ? "" : made.error().message;
}

TEST(TuningData, RefusesWhatIsNone) {
  EXPECT_NE(reason("").find("no tuning data"), std::string::npos);
  EXPECT_NE(reason(number(1, 3)).find("no tuning data"), std::string::npos);
  EXPECT_NE(reason("\xff\xff").find("protobuf"), std::string::npos);
  EXPECT_NE(reason(bytes(1, bytes(2, "x"))).find("without a program"), std::string::npos);
  EXPECT_NE(reason(bytes(1, bytes(1, "net")) + layout_run({1}, 5, true)).find("computations"),
            std::string::npos);
  const std::string run = layout_run({1}, 5, true);
  EXPECT_NE(reason(bytes(1, program()) + run + packed(4, {3, 4})).find("of 1 nodes, not 2"),
            std::string::npos);
  EXPECT_NE(reason(bytes(1, program()) + run + packed(4, {9})).find("node_config_ids"),
            std::string::npos);
  EXPECT_NE(reason(layout_data(layout_run({1}, 0, true))).find("no run has a time"),
            std::string::npos);
  const std::string lost =
      bytes(3, bytes(1, "main") + instruction("add", 1, {}, packed(36, {5})) + number(6, 1));
  EXPECT_NE(reason(bytes(1, lost) + run + packed(4, {0})).find("no operand 5"), std::string::npos);
  const std::string caller =
      bytes(3, bytes(1, "main") + instruction("call", 1, {}, packed(38, {5})) + number(6, 1));
  EXPECT_NE(reason(bytes(1, caller) + run + packed(4, {0})).find("no computation 5"),
            std::string::npos);
}

TEST(TuningData, SurvivesFilesThatAreCutOff) {
  const std::string whole = layout_data(layout_run({1, 0}, 500, true));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Result<Converted> made = convert_tuning_data(std::string_view(whole).substr(0, size));
    EXPECT_TRUE(!made.ok() || made->graphs.empty()) << size;
  }
}

TEST(TuningData, ErrorsNameTheFile) {
  const std::string path = testing::temp_file("bad.pb");
  ASSERT_TRUE(write_file(path, {"\xff"}).ok());
  EXPECT_TRUE(read_tuning_data(path).error().message.starts_with(path));
  EXPECT_EQ(read_tuning_data(testing::temp_file("absent.pb")).error().code, ErrorCode::kIo);
}

TEST(Opcodes, HaveTheirIds) {
  EXPECT_EQ(opcode_id("convolution"), 26);
  EXPECT_EQ(opcode_id("dot"), 34);
  EXPECT_EQ(opcode_id("tan"), 120);
  EXPECT_EQ(opcode_id("no-such"), 0);
  EXPECT_EQ(opcode_name(75), "reshape");
  EXPECT_EQ(opcode_name(97), "");
  EXPECT_EQ(opcode_name(200), "");
}

}  // namespace
}  // namespace tessera::graphset
