// absorb_transposes, move_transposes, channels_last, read_images and what they are made of.
#include <gtest/gtest.h>

#include "passes_net.h"
#include "tessera/frontend/graph/passes/algorithms.h"
#include "tessera/frontend/graph/passes/axis_groups.h"
#include "tessera/frontend/graph/passes/layout_choice.h"

namespace tessera::graph {
namespace {

TEST(AxisGroups, SplitsMergesAndOnes) {
  const auto groups = axis_groups({2, 6, 1, 5}, {2, 2, 3, 5, 1});
  ASSERT_TRUE(groups.has_value());
  ASSERT_EQ(groups->size(), 3u);
  EXPECT_EQ((*groups)[1].to_end, 3u);
  EXPECT_FALSE(axis_groups({}, {1}).has_value());
  EXPECT_FALSE(axis_groups({0, 2}, {2, 0}).has_value());
}

TEST(AxisGroups, OrdersPassReshapesThatKeepGroupsTogether) {
  using P = Permutation;
  EXPECT_EQ(order_through_reshape({1, 6, 4, 5}, {1, 2, 3, 4, 5}, {0, 2, 3, 1}), (P{0, 3, 4, 1, 2}));
  EXPECT_EQ(order_through_reshape({2, 6, 4, 5}, {2, 6, 20}, {0, 2, 3, 1}), (P{0, 2, 1}));
  EXPECT_EQ(order_through_reshape({2, 6, 1, 1}, {2, 6}, {0, 2, 3, 1}), (P{0, 1}));
  EXPECT_FALSE(order_through_reshape({2, 6, 4, 5}, {2, 120}, {0, 2, 3, 1}).has_value());
}

TEST(AbsorbTransposes, IntoLabelsOnAllSides) {
  Net net;
  const ValueId a = net.input({2, 3, 4}), b = net.input({2, 5, 4});
  const ValueId y =
      net.contract(net.transpose(a, {0, 2, 1}), net.transpose(b, {2, 0, 1}), "bkm", "kbn", "bmn");
  const Graph g = check_pass(net.finish({net.transpose(y, {2, 0, 1})}), absorb_transposes);
  EXPECT_EQ(g.nodes.size(), 1u);
  EXPECT_EQ(g.nodes[0].attrs.word("a"), "bmk");
  EXPECT_EQ(g.nodes[0].attrs.word("b"), "bnk");
  EXPECT_EQ(g.nodes[0].attrs.word("out"), "nbm");
}

TEST(AbsorbTransposes, ResultWithAnotherReaderStays) {
  Net net;
  const ValueId y = net.contract(net.input({2, 3}), net.weights({3, 4}), "mk", "kn", "mn");
  const Graph g = check_pass(net.finish({net.transpose(y, {1, 0}), y}), absorb_transposes);
  EXPECT_EQ(count(g, "transpose"), 1);
}

// A pair of transposes with nodes of every kind that can follow between them.
TEST(MoveTransposes, CancelThroughTheNetwork) {
  Net net;
  const ValueId x = net.input({2, 3, 4, 5});
  ValueId v = net.transpose(x, {0, 2, 3, 1});  // 2 4 5 3
  v = net.op("add", {v, net.weights({5, 1})});
  v = net.op("softmax", {v}, {{"axis", std::int64_t{3}}});
  v = net.op("concat", {v, net.relu(v)}, {{"axis", std::int64_t{1}}});  // 2 8 5 3
  v = net.op("slice", {v},
             {{"starts", Integers{0, 1, 4, 0}},
              {"steps", Integers{1, 2, -1, 1}},
              {"sizes", Integers{2, 3, 4, 3}}});
  v = net.op("pad", {v},
             {{"mode", std::string("edge")},
              {"before", Integers{0, 1, 0, 0}},
              {"after", Integers{0, 0, 2, 0}}});  // 2 4 6 3
  v = net.op("mul", {v, net.reduce(v, "mean", {1, 2})});
  const Graph g = net.finish({net.transpose(v, {0, 3, 1, 2})});
  EXPECT_EQ(count(check_pass(g, move_transposes), "transpose"), 0);
}

TEST(MoveTransposes, SinkIntoAContract) {
  Net net;
  const ValueId x = net.input({2, 3, 4});
  const ValueId t = net.op("exp", {net.transpose(x, {0, 2, 1})});
  const Graph g = net.finish({net.contract(t, net.weights({3, 2}), "bmk", "kn", "bmn")});
  EXPECT_EQ(count(check_pass(g, move_transposes), "transpose"), 0);
}

TEST(MoveTransposes, HoistIntoAContract) {
  Net net;
  const ValueId y = net.contract(net.input({2, 3, 4}), net.weights({4, 5}), "bmk", "kn", "bmn");
  const Graph g = net.finish({net.transpose(net.relu(y), {0, 2, 1})});
  EXPECT_EQ(count(check_pass(g, move_transposes), "transpose"), 0);
}

TEST(MoveTransposes, PassReshapesThatSplitOrMerge) {
  Net net;
  ValueId v = net.contract(net.input({9, 4}), net.weights({4, 5}), "mk", "kn", "mn");
  v = net.op("add", {net.reshape(v, {1, 3, 3, 5}), net.weights({5})});
  v = net.op("exp", {net.reshape(v, {1, 9, 5})});
  const Graph g = net.finish({net.transpose(v, {0, 2, 1})});
  EXPECT_EQ(count(check_pass(g, move_transposes), "transpose"), 0);
}

TEST(MoveTransposes, MoveToTheSmallerValue) {
  Net net;
  const ValueId x = net.input({2, 8, 8});
  const ValueId y = net.reduce(net.op("exp", {net.transpose(x, {0, 2, 1})}), "sum", {0});
  const Graph g = check_pass(net.finish({y}), move_transposes);
  EXPECT_EQ(transposed_bytes(g), 8 * 8 * 4);
}

TEST(MoveTransposes, OneTransposeServesAllReaders) {
  Net net;
  const ValueId t = net.transpose(net.input({4, 6}), {1, 0});
  const Graph g = net.finish({net.relu(t), net.op("exp", {t})});
  EXPECT_EQ(count(check_pass(g, move_transposes), "transpose"), 1);
}

TEST(MoveTransposes, LayernormOnlyOverAxesThatStay) {
  const auto with_perm = [](const Integers& first, const Integers& second) {
    Net net;
    const ValueId t = net.transpose(net.input({2, 3, 4}), first);
    const ValueId n = net.op("layernorm", {t}, {{"axis", std::int64_t{2}}, {"epsilon", 1e-5}});
    return count(check_pass(net.finish({net.transpose(n, second)}), move_transposes), "transpose");
  };
  EXPECT_EQ(with_perm({1, 0, 2}, {1, 0, 2}), 0);
  EXPECT_EQ(with_perm({0, 2, 1}, {0, 2, 1}), 2);
}

TEST(ChannelsLast, OnlyInputAndOutputAreTransposed) {
  Net net;
  const ValueId x = net.input({1, 3, 8, 8});
  ValueId v = net.relu(net.op("add", {net.conv(x, 4, 3, 1), net.weights({4, 1, 1})}));
  v = net.op("pool", {v},
             {{"kind", std::string("max")},
              {"kernel", Integers{2, 2}},
              {"strides", Integers{2, 2}},
              {"before", Integers{0, 0}},
              {"after", Integers{0, 0}},
              {"dilations", Integers{1, 1}},
              {"include_pad", std::int64_t{0}},
              {"layout", std::string("nchw")}});
  v = net.op("add", {net.conv(net.relu(net.conv(v, 4, 3, 1, 1, 4)), 4, 1), v});
  v = net.op("concat", {v, net.conv(v, 2, 3, 1)}, {{"axis", std::int64_t{1}}});
  const ValueId gate = net.op("sigmoid", {net.conv(net.reduce(v, "mean", {2, 3}), 6, 1)});
  v = net.op("mul", {v, gate});
  const Graph g = check_pass(net.finish({v}), channels_last);
  EXPECT_EQ(count(g, "transpose"), 2) << to_text(g);
  for (const Node& node : g.nodes) {
    if (!node.attrs.has("layout")) continue;
    EXPECT_EQ(node.attrs.word("layout"), "nhwc");
  }
}

TEST(ChannelsLast, ClassifierTransposesItsInputOnly) {
  Net net;
  ValueId v = net.relu(net.conv(net.input({2, 3, 5, 4}), 4, 3, 1));
  const ValueId pooled = net.reshape(net.reduce(v, "mean", {2, 3}), {2, 4});
  const ValueId flat = net.reshape(v, {2, 4 * 5 * 4});
  const ValueId a = net.contract(pooled, net.weights({7, 4}), "mk", "nk", "mn");
  const ValueId b = net.contract(net.weights({4 * 5 * 4, 6}), flat, "kn", "mk", "mn");
  const Graph g = check_pass(net.finish({a, b}), channels_last);
  EXPECT_EQ(count(g, "transpose"), 1) << to_text(g);
  EXPECT_EQ(transposed_bytes(g), 2 * 3 * 5 * 4 * 4);
}

TEST(ChannelsLast, FlattenWithAnotherReaderKeepsItsOrder) {
  Net net;
  const ValueId v = net.conv(net.input({2, 3, 5, 4}), 4, 3, 1);
  const ValueId flat = net.reshape(v, {2, 80});
  const ValueId y = net.contract(flat, net.weights({7, 80}), "mk", "nk", "mn");
  const Graph g = check_pass(net.finish({y, flat}), channels_last);
  EXPECT_EQ(count(g, "transpose"), 2);
}

TEST(ChannelsLast, ChannelShuffleStaysBetweenConvolutions) {
  Net net;
  ValueId v = net.conv(net.input({1, 4, 3, 5}), 6, 1);
  v = net.reshape(net.transpose(net.reshape(v, {1, 2, 3, 3, 5}), {0, 2, 1, 3, 4}), {1, 6, 3, 5});
  v = net.reduce(net.conv(v, 4, 3, 1, 1, 2), "mean", {2, 3}, false);
  const Graph g = check_pass(net.finish({v}), channels_last);
  // The input, and the shuffle itself.
  EXPECT_EQ(count(g, "transpose"), 2) << to_text(g);
}

TEST(ChannelsLast, PatchesOfATransformerNeedNoTranspose) {
  Net net;
  ValueId v = net.conv(net.input({1, 3, 8, 8}), 5, 4, 0, 4);
  v = net.transpose(net.reshape(v, {1, 5, 4}), {0, 2, 1});
  const Graph g = check_pass(net.finish({v}), channels_last);
  EXPECT_EQ(count(g, "transpose"), 1) << to_text(g);
}

// conv, norm as its reshapes and factors spell it, conv.
Graph normed_images(const Shape& grouped, const Shape& factor) {
  Net net;
  ValueId v = net.conv(net.input({2, 3, 5, 4}), 6, 3, 1);
  const Shape image = net.shape(v);
  v = net.op("layernorm", {net.reshape(v, grouped), net.weights(factor), net.weights(factor)},
             {{"axis", std::int64_t{2}}, {"epsilon", 1e-5}});
  v = net.conv(net.relu(net.reshape(v, image)), 2, 3, 1);
  return net.finish({net.reduce(v, "mean", {2, 3}, false)});
}

TEST(OpenImageNorms, InstanceAndGroupNormsFollowTheLayout) {
  const std::vector<std::pair<Shape, Shape>> forms = {
      {{2, 6, 5, 4}, {6, 1, 1}}, {{2, 2, 60}, {2, 1}}, {{2, 2, 3, 5, 4}, {2, 3, 1, 1}}};
  for (const auto& [grouped, factor] : forms) {
    Graph g = check_pass(normed_images(grouped, factor), open_image_norms);
    EXPECT_EQ(count(g, "layernorm"), 0);
    g = check_pass(check_pass(g, simplify), channels_last);
    EXPECT_EQ(count(g, "transpose"), 1) << to_text(g);
  }
}

TEST(OpenImageNorms, OtherNormsStay) {
  // A factor along the normalised elements, and no convolution.
  EXPECT_EQ(count(check_pass(normed_images({2, 2, 60}, {60}), open_image_norms), "layernorm"), 1);
  Net net;
  const Graph g = net.finish({net.op("layernorm", {net.input({1, 2, 3, 4})},
                                     {{"axis", std::int64_t{2}}, {"epsilon", 1e-5}})});
  EXPECT_EQ(to_text(check_pass(g, open_image_norms)), to_text(g));
}

TEST(ChannelsLast, OneDimensionAndTransposedConvolution) {
  Net net;
  const ValueId x = net.input({2, 3, 7});
  const ValueId y = net.op("conv", {x, net.weights({4, 3, 3})}, {{"layout", std::string("nchw")}});
  const ValueId z = net.op("conv_transpose", {net.relu(y), net.weights({4, 2, 2})},
                           {{"strides", Integers{2}}, {"layout", std::string("nchw")}});
  const Graph g = check_pass(net.finish({z}), channels_last);
  EXPECT_EQ(count(g, "transpose"), 2);
}

TEST(ChannelsLast, LeavesGraphsWithoutConvolutions) {
  Net net;
  const Graph g = net.finish({net.relu(net.input({1, 2, 3, 4}))});
  EXPECT_EQ(to_text(check_pass(g, channels_last)), to_text(g));
}

TEST(ChannelsLast, ModelsThatTransposeThemselvesLoseThat) {
  Net net;
  const ValueId x = net.input({1, 6, 5, 3});  // channels last already
  const ValueId v = net.relu(net.conv(net.transpose(x, {0, 3, 1, 2}), 4, 3));
  const Graph g = check_pass(net.finish({net.transpose(v, {0, 2, 3, 1})}), channels_last);
  EXPECT_EQ(count(g, "transpose"), 0);
}

TEST(ChannelsLast, KeepsAConvolutionAsItIsWhereThatWasDecided) {
  Net net;
  const auto conv = [&](ValueId x) {
    return net.op("conv", {x, net.weights({4, 4, 3, 3})}, {{"layout", std::string("nchw")}});
  };
  const ValueId first = conv(net.input({1, 4, 9, 9}));
  const Graph g = net.finish({net.relu(conv(net.relu(first)))});
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>();
  const auto layouts = [&](const Graph& made) {
    std::string out;
    for (const Node& node : made.nodes) {
      if (std::string_view(node.op->name) == "conv") out += node.attrs.word("layout") + " ";
    }
    return out;
  };
  EXPECT_EQ(layouts(check_pass(g, channels_last, options)), "nhwc nhwc ");
  const std::vector<plan::Decided> points = options.decider->decided();
  ASSERT_EQ(points.size(), 2u);
  options.decider =
      std::make_shared<plan::Decider>(plan::Decisions{{points[1].point.name, plan::kFirst}});
  const Graph mixed = check_pass(g, channels_last, options);
  EXPECT_EQ(layouts(mixed), "nhwc nchw ");
  // Moving transposes does not undo it.
  EXPECT_EQ(layouts(check_pass(mixed, move_transposes)), "nhwc nchw ");
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"layouts", plan::kFirst}});
  EXPECT_EQ(layouts(check_pass(g, channels_last, options)), "nchw nchw ");
}

TEST(ChannelsLast, PoolsAndConcatenationsMayBeDecidedToo) {
  Net net;
  const ValueId a = net.conv(net.input({1, 4, 9, 9}), 6, 3, 1);
  const ValueId pooled =
      net.op("pool", {net.op("concat", {a, net.relu(a)}, {{"axis", std::int64_t{1}}})},
             {{"kind", std::string("max")},
              {"kernel", Integers{2, 2}},
              {"strides", Integers{2, 2}},
              {"layout", std::string("nchw")}});
  const Graph g = net.finish({net.conv(pooled, 4, 3)});
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>();
  EXPECT_EQ(count(check_pass(g, channels_last, options), "transpose"), 2);
  const std::vector<plan::Decided> points = options.decider->decided();
  ASSERT_EQ(points.size(), 4u);  // convolutions first
  EXPECT_EQ(points[2].text(), plan::kLast);
  // One of them alone stands between two transposes more; both together no more than that.
  plan::Decisions given;
  for (const std::size_t i : {2u, 3u}) {
    given[points[i].point.name] = plan::kFirst;
    options.decider = std::make_shared<plan::Decider>(given);
    const Graph made = check_pass(g, channels_last, options);
    EXPECT_GE(count(made, "transpose"), 4);
    EXPECT_EQ(options.decider->decisions().at(points[i].point.name), plan::kFirst);
  }
}

TEST(ReadImages, ConvolutionsOfFewChannels) {
  const auto net_of = [](std::int64_t channels, bool twice) {
    Net net;
    const ValueId x = net.transpose(net.input({2, channels, 9, 7}), {0, 2, 3, 1});
    const Attrs attrs = {{"layout", std::string("nhwc")},
                         {"strides", Integers{2, 1}},
                         {"before", Integers{1, 2}},
                         {"after", Integers{0, 1}}};
    std::vector<ValueId> outputs = {net.op("conv", {x, net.weights({5, channels, 3, 3})}, attrs)};
    if (twice) outputs.push_back(net.op("exp", {x}));
    return net.finish(outputs);
  };
  const Graph g = check_pass(net_of(3, false), read_images);
  ASSERT_EQ(g.nodes.size(), 1u);
  EXPECT_EQ(g.nodes[0].attrs.word("reads"), "nchw");
  EXPECT_EQ(count(check_pass(net_of(3, true), read_images), "transpose"), 1);
  EXPECT_EQ(count(check_pass(net_of(9, false), read_images), "transpose"), 1);
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"fronts", plan::kFused}});
  EXPECT_EQ(count(check_pass(net_of(9, false), read_images, options), "transpose"), 0);
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"fronts", plan::kStored}});
  EXPECT_EQ(count(check_pass(net_of(3, false), read_images, options), "transpose"), 1);
}

// Records of its kernel belong to the decision about its algorithm.
TEST(ReadImages, KeepTheKeyOfTheAlgorithm) {
  Net net;
  const ValueId x = net.transpose(net.input({1, 3, 12, 9}), {0, 2, 3, 1});
  const Attrs attrs = {
      {"layout", std::string("nhwc")}, {"before", Integers{1, 1}}, {"after", Integers{1, 1}}};
  const Graph before = net.finish({net.op("conv", {x, net.weights({8, 3, 3, 3})}, attrs)});
  const Graph after = check_pass(before, read_images);
  ASSERT_EQ(after.nodes.size(), 1u);
  EXPECT_EQ(algorithm_key(after, after.nodes[0]), algorithm_key(before, before.nodes.back()));
  EXPECT_EQ(algorithm_key(after, after.nodes[0]), "conv n1 h12 w9 ci3 co8 k3x3 s1 p1,1,1,1 g1");
}

TEST(ReadImages, NodesOfOneNameAreDecidedByShape) {
  for (const bool few_first : {true, false}) {
    Net net;
    std::vector<ValueId> outputs;
    for (const std::int64_t channels : {few_first ? 3 : 8, few_first ? 8 : 3}) {
      const ValueId x = net.transpose(net.input({1, channels, 9, 7}), {0, 2, 3, 1});
      outputs.push_back(
          net.op("conv", {x, net.weights({5, channels, 3, 3})}, {{"layout", std::string("nhwc")}}));
    }
    Graph graph = net.finish(outputs);
    for (Node& node : graph.nodes) node.origin = "Conv";
    PassOptions options;
    options.decider = std::make_shared<plan::Decider>(plan::Decisions{});
    EXPECT_EQ(count(check_pass(graph, read_images, options), "transpose"), 1);
    const plan::Decisions decided = options.decider->decisions();
    EXPECT_EQ(decided.at("front image 1x3x9x7 of Conv"), plan::kFused);
    EXPECT_EQ(decided.at("front image 1x8x9x7 of Conv"), plan::kStored);
  }
}

}  // namespace
}  // namespace tessera::graph
