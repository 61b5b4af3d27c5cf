#include "tessera/frontend/task/partition.h"

#include <gtest/gtest.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/frontend/plan/pointwise.h"

namespace tessera::task {
namespace {

using graph::Attrs;
using graph::Graph;
using graph::GraphBuilder;
using graph::ValueId;

// Groups as text, "contract+add | softmax", in running order.
std::string groups_text(const Graph& graph, const PartitionOptions& options = {}) {
  std::string text;
  const std::vector<Group> groups = partition(graph, options).value();
  for (const Group& g : groups) {
    if (!text.empty()) text += " | ";
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      if (i > 0) text += "+";
      text += graph.nodes[static_cast<std::size_t>(g.nodes[i])].op->name;
    }
  }
  return text;
}

struct Net {
  GraphBuilder b{"net"};

  ValueId input(const Shape& shape) {
    return b.input("x" + std::to_string(count_++), {DType::kF32, shape});
  }
  ValueId weight(const Shape& shape) { return b.constant(HostTensor(DType::kF32, shape)); }
  ValueId add(std::string_view op, const std::vector<ValueId>& in, const Attrs& attrs = {}) {
    auto id = b.add(op, in, attrs);
    EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().message);
    return id.ok() ? *id : 0;
  }
  ValueId matmul(ValueId x, std::int64_t k, std::int64_t n) {
    return add("contract", {x, weight({k, n})},
               {{"a", std::string("mk")}, {"b", std::string("kn")}, {"out", std::string("mn")}});
  }
  Graph finish(const std::vector<ValueId>& outputs) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < outputs.size(); ++i) names.push_back("y" + std::to_string(i));
    return b.finish(outputs, names);
  }

 private:
  int count_ = 0;
};

TEST(Partition, StoresAValueWhereThatWasDecided) {
  Net n;
  const ValueId m = n.matmul(n.input({4, 8}), 8, 6);
  const ValueId biased = n.add("add", {m, n.weight({6})});
  const Graph g = n.finish({n.add("tanh", {biased})});
  const auto decided_by = [&](const plan::Decisions& given) {
    PartitionOptions options;
    options.decider = std::make_shared<plan::Decider>(given);
    const std::string text = groups_text(g, options);
    return std::pair(text, options.decider->decided());
  };
  const auto [all, points] = decided_by({});
  EXPECT_EQ(all, "contract+add+tanh");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(decided_by({{points[0].point.name, plan::kStored}}).first, "contract | add+tanh");
  EXPECT_EQ(decided_by({{points[1].point.name, plan::kStored}}).first, "contract+add | tanh");
  EXPECT_EQ(decided_by({{"fusion", plan::kStored}}).first, "contract | add | tanh");
  PartitionOptions wrong;
  wrong.decider = std::make_shared<plan::Decider>(plan::Decisions{{points[0].point.name, "hot"}});
  const auto refused = partition(g, wrong);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("fused stored"), std::string::npos)
      << refused.error().message;
}

// softmax(x y) z, each of `keys` columns.
Graph attention(std::int64_t queries, std::int64_t keys) {
  Net n;
  const auto product = [&](ValueId a, ValueId b, const char* out) {
    return n.add("contract", {a, b},
                 {{"a", std::string("mk")}, {"b", std::string("kn")}, {"out", std::string(out)}});
  };
  const ValueId scores = product(n.input({queries, 4}), n.input({4, keys}), "mn");
  const ValueId masked = n.add("add", {scores, n.input({keys})});
  const ValueId weights = n.add("softmax", {masked}, {{"axis", std::int64_t{1}}});
  return n.finish({n.add("tanh", {product(weights, n.input({keys, 4}), "mn")})});
}

TEST(Partition, PreparesOperandsInTheKernelWhereThatWasDecided) {
  const auto text = [](const Graph& g, const plan::Decisions& given) {
    PartitionOptions options;
    options.decider = std::make_shared<plan::Decider>(given);
    return groups_text(g, options);
  };
  const plan::Decisions fused = {{"fronts", plan::kFused}};
  Net n;
  const ValueId scaled = n.add("mul", {n.input({1, 2, 2, 8}), n.weight({8})});
  const ValueId rows = n.add("reshape", {scaled}, {{"shape", Shape{4, 8}}});
  const ValueId turned = n.add("transpose", {n.input({8, 4})}, {{"perm", Shape{1, 0}}});
  const Graph g = n.finish({n.add("tanh", {n.matmul(rows, 8, 6)}), n.matmul(turned, 8, 3)});
  EXPECT_EQ(text(g, {}), "mul | reshape | transpose | contract+tanh | contract");
  EXPECT_EQ(text(g, fused), "mul+reshape+contract+tanh | transpose+contract");
  // What something else reads as well is stored.
  Net m;
  const ValueId shared = m.add("tanh", {m.input({4, 8})});
  EXPECT_EQ(text(m.finish({m.matmul(shared, 8, 6), shared}), fused), "tanh | contract");
}

TEST(Partition, ConcatenationsTakePartsOfOthers) {
  Net n;
  const auto rows = [&](ValueId x, std::int64_t start) {
    return n.add("slice", {x},
                 {{"starts", Shape{start, 0}}, {"steps", Shape{1, 1}}, {"sizes", Shape{2, 3}}});
  };
  const ValueId x = n.input({6, 3});
  const ValueId shared = rows(x, 1), work = n.add("tanh", {rows(x, 4)});
  const ValueId all =
      n.add("concat", {rows(x, 0), shared, work, rows(x, 3)}, {{"axis", std::int64_t{0}}});
  EXPECT_EQ(groups_text(n.finish({all, shared})), "slice | slice+tanh | slice+slice+concat");
}

TEST(Partition, ProductsPrepareConcatenationsThatAreChanged) {
  Net n;
  const ValueId both =
      n.add("concat", {n.input({4, 3}), n.input({4, 5})}, {{"axis", std::int64_t{1}}});
  const Graph g = n.finish({n.matmul(n.add("tanh", {both}), 8, 6)});
  EXPECT_EQ(groups_text(g), "concat+tanh+contract");
  EXPECT_EQ(groups_text(g, {.moves_inside = true}), "concat+tanh | contract");
  PartitionOptions stored;
  stored.decider = std::make_shared<plan::Decider>(plan::Decisions{{"fronts", plan::kStored}});
  EXPECT_EQ(groups_text(g, stored), "concat+tanh | contract");
}

TEST(Partition, MovesInsideByRule) {
  Net n;
  const ValueId both =
      n.add("concat", {n.input({4, 3}), n.input({4, 5})}, {{"axis", std::int64_t{1}}});
  const ValueId turned = n.add("transpose", {n.input({8, 4})}, {{"perm", Shape{1, 0}}});
  const ValueId image = n.add("transpose", {n.input({1, 8, 6, 6})}, {{"perm", Shape{0, 2, 3, 1}}});
  const ValueId map =
      n.add("conv", {image, n.weight({4, 8, 3, 3})}, {{"layout", std::string("nhwc")}});
  const Graph g = n.finish({n.matmul(both, 8, 6), n.matmul(turned, 8, 3), map});
  EXPECT_EQ(groups_text(g), "concat | transpose | transpose | conv | contract | contract");
  EXPECT_EQ(groups_text(g, {.moves_inside = true}),
            "concat+contract | transpose | transpose+conv | contract");
  PartitionOptions options{.moves_inside = true};
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"fronts", plan::kStored}});
  EXPECT_EQ(groups_text(g, options), groups_text(g));

  Net casts;  // no movement is among them
  const ValueId narrow = casts.b.input("bytes", {DType::kI8, {4, 8}});
  const ValueId wide = casts.add("cast", {narrow}, {{"to", std::string("f32")}});
  const Graph cast = casts.finish({casts.matmul(wide, 8, 6)});
  EXPECT_EQ(groups_text(cast, {.moves_inside = true}), groups_text(cast));
}

TEST(Partition, ChainsADepthwiseConvolutionWhereThatWasDecided) {
  const auto text = [](const Graph& g, const char* value) {
    PartitionOptions options;
    options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"pointwise", value}});
    return groups_text(g, options);
  };
  const auto net = [](std::int64_t groups, bool read_twice) {
    Net n;
    const Attrs image = {{"layout", std::string("nhwc")}};
    Attrs window = image;
    window.set("group", groups);
    const ValueId x = n.input({1, 6, 6, 8});
    const ValueId y = n.add("conv", {x, n.weight({8, 8 / groups, 3, 3})}, window);
    const ValueId z = n.add("tanh", {y});
    const ValueId out = n.add("tanh", {n.add("conv", {z, n.weight({4, 8, 1, 1})}, image)});
    return n.finish(read_twice ? std::vector<ValueId>{out, z} : std::vector<ValueId>{out});
  };
  EXPECT_EQ(text(net(8, false), plan::kDirect), "conv+tanh | conv+tanh");
  EXPECT_EQ(text(net(8, false), plan::kChained), "conv+tanh+conv+tanh");
  // Sums over channels need whole rows of them; what others read is stored.
  EXPECT_EQ(text(net(1, false), plan::kChained), "conv+tanh | conv+tanh");
  EXPECT_EQ(text(net(8, true), plan::kChained), "conv+tanh | conv+tanh");
}

TEST(Partition, AttentionIsOneKernelWhereTheRulesSaySo) {
  const Graph g = attention(8, 16);
  EXPECT_EQ(groups_text(g), "contract+add | softmax | contract+tanh");
  EXPECT_EQ(groups_text(g, {.attention_keys = 16}), "contract+add+softmax+contract+tanh");
  EXPECT_EQ(groups_text(g, {.attention_keys = 15}), groups_text(g));
  EXPECT_EQ(groups_text(g, {.max_nodes = 4, .attention_keys = 16}), groups_text(g));
  EXPECT_EQ(groups_text(attention(7, 16), {.attention_keys = 16}), groups_text(g));
  PartitionOptions options{.attention_keys = 16};
  options.decider = std::make_shared<plan::Decider>();
  groups_text(g, options);
  const std::string key = options.decider->decided().back().point.name;
  EXPECT_TRUE(key.starts_with("fuse softmax of ")) << key;
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{key, plan::kStored}});
  EXPECT_EQ(groups_text(g, options), groups_text(g));
}

TEST(Partition, WeightsThatOthersReadAreStored) {
  Net n;
  const auto labels = std::vector<std::string>{"mk", "kn", "mn"};
  const auto product = [&](ValueId a, ValueId b) {
    return n.add("contract", {a, b}, {{"a", labels[0]}, {"b", labels[1]}, {"out", labels[2]}});
  };
  const ValueId scores = product(n.input({8, 4}), n.input({4, 16}));
  const ValueId weights = n.add("softmax", {scores}, {{"axis", std::int64_t{1}}});
  const Graph g = n.finish({product(weights, n.input({16, 4})), weights});
  EXPECT_EQ(groups_text(g, {.attention_keys = 64}), "contract | softmax | contract");
}

TEST(Partition, PointwiseNodesFollowTheirContraction) {
  Net n;
  const ValueId m = n.matmul(n.input({4, 8}), 8, 6);
  const ValueId y = n.add("tanh", {n.add("add", {m, n.weight({6})})});
  EXPECT_EQ(groups_text(n.finish({y})), "contract+add+tanh");
}

TEST(Partition, WhatIsReadInPartsOnlyIsStoredInParts) {
  Net n;
  const ValueId once = n.add("tanh", {n.matmul(n.input({4, 8}), 8, 6)});
  const ValueId twice = n.add("tanh", {n.matmul(n.input({4, 8}), 8, 6)});
  const Graph g = n.finish(
      {n.add("float_parts", {once}), n.add("float_parts", {twice}), n.add("tanh", {twice})});
  EXPECT_EQ(groups_text(g), "contract+tanh+float_parts | contract+tanh | float_parts | tanh");
}

TEST(Partition, WithoutFusionEveryNodeIsAlone) {
  Net n;
  const ValueId m = n.matmul(n.input({4, 8}), 8, 6);
  const ValueId y = n.add("tanh", {n.add("add", {m, n.weight({6})})});
  EXPECT_EQ(groups_text(n.finish({y}), {.fuse = false}), "contract | add | tanh");
}

// x * sigmoid(x): the value between is read twice, but both readers meet again.
TEST(Partition, ChainsThatMeetAgainJoin) {
  Net n;
  const ValueId m = n.matmul(n.input({4, 8}), 8, 6);
  const ValueId y = n.add("mul", {m, n.add("sigmoid", {m})});
  EXPECT_EQ(groups_text(n.finish({y})), "contract+sigmoid+mul");
}

TEST(Partition, AValueReadElsewhereIsStoredAndEndsItsGroup) {
  Net n;
  const ValueId m = n.matmul(n.input({4, 8}), 8, 6);
  const ValueId a = n.add("tanh", {m});
  const ValueId b = n.matmul(m, 6, 6);
  EXPECT_EQ(groups_text(n.finish({a, b})), "contract | tanh | contract");
}

TEST(Partition, AGraphOutputEndsItsGroup) {
  Net n;
  const ValueId m = n.matmul(n.input({4, 8}), 8, 6);
  const ValueId y = n.add("tanh", {m});
  EXPECT_EQ(groups_text(n.finish({m, y})), "contract | tanh");
}

TEST(Partition, AResidualAddJoinsOneOfItsContractions) {
  Net n;
  const ValueId x = n.input({4, 8});
  const ValueId y = n.add("add", {n.matmul(x, 8, 8), n.matmul(x, 8, 8)});
  const Graph g = n.finish({y});
  const std::vector<Group> groups = partition(g).value();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].nodes.size(), 1u);  // the one whose result the other adds
  EXPECT_EQ(groups[1].nodes.size(), 2u);
}

// What is narrow goes to memory narrow, and the kernel that adds makes it wider.
TEST(Partition, WhatAnotherKernelCanWidenIsStoredNarrow) {
  const auto text = [](const char* narrow, const PartitionOptions& options = {}) {
    Net n;
    const ValueId x = n.input({4, 8});
    const auto rounded = [&](ValueId v) {
      const ValueId less = n.add("cast", {v}, {{"to", std::string(narrow)}});
      return n.add("mul", {n.add("cast", {less}, {{"to", std::string("f32")}}), n.weight({})});
    };
    const ValueId first = rounded(n.matmul(x, 8, 8)), second = rounded(n.matmul(x, 8, 8));
    return groups_text(n.finish({n.add("add", {first, second})}), options);
  };
  EXPECT_EQ(text("u8"), "contract+cast | contract+cast+cast+mul+cast+mul+add");
  EXPECT_EQ(text("i32"), "contract+cast+cast+mul | contract+cast+cast+mul+add");
  PartitionOptions fused;
  fused.decider = std::make_shared<plan::Decider>(plan::Decisions{{"fusion", plan::kFused}});
  EXPECT_EQ(text("u8", fused), "contract+cast+cast+mul | contract+cast+cast+mul+add");
}

// Not so a convolution over all channels, which would make it wider for every place of its window.
TEST(Partition, DepthwiseConvolutionsWidenWhatTheyRead) {
  const auto text = [](std::int64_t groups) {
    Net n;
    const ValueId less =
        n.add("cast", {n.add("tanh", {n.input({1, 5, 5, 4})})}, {{"to", std::string("u8")}});
    const ValueId wide = n.add("cast", {less}, {{"to", std::string("f32")}});
    return groups_text(n.finish({n.add("conv", {wide, n.weight({4, 4 / groups, 3, 3})},
                                       {{"layout", std::string("nhwc")}, {"group", groups}})}));
  };
  EXPECT_EQ(text(4), "tanh+cast | cast+conv");
  EXPECT_EQ(text(1), "tanh+cast+cast | conv");
}

// y = f(m) + matmul(f(m)): joining the add with the first product would need its own result first.
TEST(Partition, NeverMakesACycle) {
  Net n;
  const ValueId m = n.matmul(n.input({4, 8}), 8, 8);
  const ValueId y = n.add("add", {m, n.matmul(m, 8, 8)});
  EXPECT_EQ(groups_text(n.finish({y})), "contract | contract+add");
}

TEST(Partition, BroadcastConsumersStartAGroup) {
  Net n;
  const ValueId r = n.add("reduce", {n.input({4, 8})},
                          {{"kind", std::string("sum")},
                           {"axes", std::vector<std::int64_t>{1}},
                           {"keepdims", std::int64_t{1}}});
  const ValueId y = n.add("add", {r, n.input({4, 8})});
  EXPECT_EQ(groups_text(n.finish({y})), "reduce | add");
}

TEST(Partition, PointwiseNodesBeforeAReductionAreComputedInside) {
  Net n;
  const ValueId x = n.add("mul", {n.input({4, 8}), n.weight({8})});
  const ValueId y = n.add("softmax", {x}, {{"axis", std::int64_t{1}}});
  EXPECT_EQ(groups_text(n.finish({y})), "mul+softmax");
}

TEST(Partition, ReshapesAreAliasesBetweenGroups) {
  Net n;
  const ValueId x = n.add("tanh", {n.input({4, 8})});
  const ValueId r = n.add("reshape", {x}, {{"shape", std::vector<std::int64_t>{32}}});
  const Graph g = n.finish({n.add("exp", {r})});
  const std::vector<Group> groups = partition(g).value();
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1].kind, GroupKind::kAlias);
}

TEST(Partition, EmptyResultsAreNotComputed) {
  Net n;
  const Graph g = n.finish({n.add("tanh", {n.input({0, 8})})});
  const std::vector<Group> groups = partition(g).value();
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].kind, GroupKind::kEmpty);
}

// Runs check indices in memory before a kernel reads by them.
TEST(Partition, IndicesAreStoredBeforeTheyAreUsed) {
  const auto text = [](bool computed) {
    Net n;
    const ValueId x = n.input({4, 8}), ids = n.b.input("ids", {DType::kI64, {4, 8}});
    const ValueId at = computed ? n.add("add", {ids, n.b.scalar(DType::kI64, 1)}) : ids;
    const ValueId picked =
        n.add("gather_elements", {n.add("tanh", {x}), *n.b.cast(at, DType::kI32)},
              {{"axis", std::int64_t{1}}});
    return groups_text(n.finish({picked}));
  };
  EXPECT_EQ(text(false), "tanh+cast+gather_elements");
  EXPECT_EQ(text(true), "add+cast | tanh+gather_elements");
}

TEST(Partition, TheSizeOfAKernelIsBounded) {
  Net n;
  ValueId x = n.input({4, 8});
  for (int i = 0; i < 10; ++i) x = n.add("tanh", {x});
  const Graph g = n.finish({x});
  const std::vector<Group> groups = partition(g, {.max_nodes = 4, .decider = {}}).value();
  for (const Group& group : groups) EXPECT_LE(group.nodes.size(), 4u);
}

}  // namespace
}  // namespace tessera::task
