// fold_scales, match_norms, select_algorithms, merge_contractions: what they match and what not.
#include <algorithm>

#include <gtest/gtest.h>

#include "passes_net.h"
#include "tessera/frontend/graph/passes/algorithms.h"

namespace tessera::graph {
namespace {

TEST(FoldScales, BatchNormBehindAConvolution) {
  Net net;
  ValueId v = net.conv(net.input({1, 4, 5, 5}), 6, 3, 1, 1, 2);
  v = net.op("add", {v, net.weights({6, 1, 1})});
  v = net.op("mul", {v, net.weights({1, 6, 1, 1})});
  v = net.op("add", {v, net.weights({6, 1, 1})});
  const Graph g = check_pass(net.finish({v}), fold_scales);
  EXPECT_EQ(count(g, "mul"), 0);
  EXPECT_EQ(count(g, "add"), 1);
}

TEST(FoldScales, ScalesBehindTransposedConvolutionAndContract) {
  Net net;
  const ValueId c = net.op("conv_transpose", {net.input({1, 4, 3, 3}), net.weights({4, 3, 2, 2})},
                           {{"group", std::int64_t{2}}, {"layout", std::string("nchw")}});
  const ValueId m = net.contract(net.weights({5, 3}), net.input({2, 3}), "nk", "mk", "mn");
  const Graph g = check_pass(net.finish({net.op("mul", {c, net.weights({6, 1, 1})}),
                                         net.op("mul", {m, net.weights({5})})}),
                             fold_scales);
  EXPECT_EQ(count(g, "mul"), 0);
}

TEST(FoldScales, FactorsBeforeAConvolution) {
  const auto muls_and_adds = [](std::int64_t pad, const char* op) {
    Net net;
    const ValueId x = net.op(op, {net.input({1, 4, 5, 5}), net.weights({4, 1, 1})});
    const Graph g = check_pass(net.finish({net.conv(x, 6, 3, pad, 1, 2)}), fold_scales);
    return last_node(g).op->name + std::string(" ") + to_text(g.type(g.inputs[0])) +
           (count(g, op) > 0 ? " kept" : "");
  };
  EXPECT_EQ(muls_and_adds(1, "mul"), "conv f32[1,4,5,5]");
  EXPECT_EQ(muls_and_adds(0, "add"), "add f32[1,4,5,5] kept");  // behind the conv now
  EXPECT_EQ(muls_and_adds(1, "add"), "conv f32[1,4,5,5] kept");
}

TEST(FoldScales, LeavesOtherReadersAndOtherAxes) {
  Net net;
  const ValueId c = net.conv(net.input({1, 2, 4, 4}), 3, 1);
  const Graph shared = net.finish({net.op("mul", {c, net.weights({3, 1, 1})}), c});
  EXPECT_EQ(count(check_pass(shared, fold_scales), "mul"), 1);
  Net other;
  const ValueId d = other.conv(other.input({1, 2, 4, 4}), 3, 1);
  const Graph rows = other.finish({other.op("mul", {d, other.weights({4, 1})})});
  EXPECT_EQ(count(check_pass(rows, fold_scales), "mul"), 1);
  PassOptions exact;
  exact.allow_reassociation = false;
  EXPECT_EQ(to_text(check_pass(rows, fold_scales, exact)), to_text(rows));
}

TEST(FoldScales, IntegersAreLeftAlone) {
  Net net;
  const ValueId x = net.input({2, 3}, DType::kI32);
  const ValueId y =
      net.op("mul", {net.op("mul", {x, net.scalar(3, DType::kI32)}), net.scalar(5, DType::kI32)});
  EXPECT_EQ(count(check_pass(net.finish({y}), fold_scales), "mul"), 2);
}

// The ways exporters spell the denominator of a norm.
ValueId norm_of(Net& net, ValueId d, ValueId again, int form) {
  const ValueId squares = form % 2 == 0 ? net.op("mul", {d, d}) : net.op("pow", {d, net.scalar(2)});
  const ValueId var = net.reduce(squares, "mean", {2});
  const ValueId sum = net.op("add", {var, net.scalar(1e-5)});
  switch (form / 2) {
    case 0:
      return net.op("div", {again, net.op("sqrt", {sum})});
    case 1:
      return net.op("mul", {again, net.op("recip", {net.op("sqrt", {sum})})});
    case 2:
      return net.op("mul", {net.op("pow", {sum, net.scalar(-0.5)}), again});
    default:
      return net.op("mul",
                    {again, net.op("div", {net.scalar(1), net.op("pow", {sum, net.scalar(0.5)})})});
  }
}

TEST(MatchNorms, LayernormAsExportersWriteIt) {
  for (int form = 0; form < 16; ++form) {
    Net net;
    const ValueId x = net.input({2, 3, 5});
    const ValueId d = net.op("sub", {x, net.reduce(x, "mean", {2})});
    const ValueId twice = form < 8 ? d : net.op("sub", {x, net.reduce(x, "mean", {2})});
    const ValueId n = norm_of(net, d, twice, form % 8);
    const ValueId scaled = net.op("mul", {n, net.weights({5})});
    Graph g = net.finish({net.op("add", {net.weights({1, 1, 5}), scaled})});
    g = check_pass(check_pass(g, simplify), match_norms);
    ASSERT_EQ(g.nodes.size(), 1u) << form << to_text(g);
    EXPECT_STREQ(g.nodes[0].op->name, "layernorm");
    EXPECT_EQ(g.nodes[0].inputs.size(), 3u);
    EXPECT_EQ(g.nodes[0].attrs.integer("axis"), 2);
  }
}

TEST(MatchNorms, RmsnormAsExportersWriteIt) {
  for (int form = 0; form < 8; ++form) {
    Net net;
    const ValueId x = net.input({2, 3, 5});
    Graph g = net.finish({net.op("mul", {net.weights({5}), norm_of(net, x, x, form)})});
    g = check_pass(check_pass(g, simplify), match_norms);
    ASSERT_EQ(g.nodes.size(), 1u) << to_text(g);
    EXPECT_STREQ(g.nodes[0].op->name, "rmsnorm");
  }
}

TEST(MatchNorms, OtherAxesOperandsAndFactorsAreNotNorms) {
  Net net;
  const ValueId x = net.input({3, 4, 5});
  const ValueId d =
      net.op("sub", {x, net.reduce(x, "mean", {1})});  // another axis than the squares
  const Graph g = net.finish({norm_of(net, d, d, 0), norm_of(net, x, net.relu(x), 0)});
  const Graph out = check_pass(g, match_norms);
  EXPECT_EQ(count(out, "layernorm"), 0);
  EXPECT_EQ(count(out, "rmsnorm"), 1);  // of d, which is any value here
  Net first;
  const ValueId y = first.input({3, 4});
  const ValueId squares = first.reduce(first.op("mul", {y, y}), "mean", {0});
  const Graph h = first.finish({first.op("div", {y, first.op("sqrt", {squares})})});
  EXPECT_EQ(count(check_pass(h, match_norms), "rmsnorm"), 0);
}

TEST(MatchNorms, FactorAlongAnotherAxisStaysOutside) {
  Net net;
  const ValueId x = net.input({2, 3, 5});
  const Graph g = net.finish({net.op("mul", {norm_of(net, x, x, 0), net.weights({3, 5})})});
  const Graph out = check_pass(g, match_norms);
  EXPECT_EQ(count(out, "rmsnorm"), 1);
  EXPECT_EQ(last_node(out).op->name, std::string("mul"));
}

TEST(MatchNorms, Softmax) {
  for (const bool shifted : {true, false}) {
    for (const bool reciprocal : {true, false}) {
      Net net;
      const ValueId x = net.input({2, 3, 4});
      const ValueId e =
          net.op("exp", {shifted ? net.op("sub", {x, net.reduce(x, "max", {1})}) : x});
      const ValueId s = net.reduce(e, "sum", {1});
      const ValueId y =
          reciprocal ? net.op("mul", {net.op("recip", {s}), e}) : net.op("div", {e, s});
      const Graph g = check_pass(net.finish({y}), match_norms);
      ASSERT_EQ(g.nodes.size(), 1u) << to_text(g);
      EXPECT_STREQ(g.nodes[0].op->name, "softmax");
    }
  }
}

TEST(MatchNorms, QuotientsThatAreNoSoftmax) {
  Net net;
  const ValueId x = net.input({2, 3});
  const ValueId e = net.op("exp", {x}), f = net.op("exp", {net.op("neg", {x})});
  const Graph g = net.finish({net.op("div", {e, net.reduce(f, "sum", {1})}),
                              net.op("div", {e, net.reduce(e, "max", {1})})});
  EXPECT_EQ(count(check_pass(g, match_norms), "softmax"), 0);
}

Graph channels_last_conv(std::int64_t ci, std::int64_t co, std::int64_t kernel, std::int64_t size,
                         std::int64_t pad, std::int64_t stride) {
  Net net;
  const ValueId w = net.weights({co, ci, kernel, kernel});
  return net.finish({net.op("conv", {net.input({1, size, size, ci}), w},
                            {{"strides", Integers{stride, stride}},
                             {"before", Integers{pad, pad}},
                             {"after", Integers{pad, pad}},
                             {"layout", std::string("nhwc")}})});
}

TEST(SelectAlgorithms, WinogradForLargeThreeByThree) {
  PassOptions options;
  options.rules.winograd_min_channels = 4;
  const auto winograds = [&](const Graph& g) {
    return count(check_pass(g, select_algorithms, options), "conv_winograd");
  };
  EXPECT_EQ(winograds(channels_last_conv(4, 5, 3, 7, 1, 1)), 1);
  EXPECT_EQ(winograds(channels_last_conv(3, 5, 3, 7, 1, 1)), 0);
  EXPECT_EQ(winograds(channels_last_conv(4, 3, 3, 7, 1, 1)), 0);
  EXPECT_EQ(winograds(channels_last_conv(4, 5, 3, 6, 1, 1)), 0);
  EXPECT_EQ(winograds(channels_last_conv(4, 5, 3, 15, 1, 2)), 0);
  EXPECT_EQ(winograds(channels_last_conv(4, 5, 5, 9, 2, 1)), 0);  // has no rule of its own
  options.rules.winograd = false;
  EXPECT_EQ(winograds(channels_last_conv(4, 5, 3, 7, 1, 1)), 0);
}

const HostTensor& weights_of(const Graph& g, std::string_view op) {
  const auto found = std::find_if(g.nodes.begin(), g.nodes.end(),
                                  [&](const Node& node) { return node.op->name == op; });
  return *g.constant(found->inputs[1]);
}

bool is_zero(const HostTensor& t) {
  // But for a number at the beginning, which keeps weights apart that were not computed.
  return std::all_of(t.as<float>() + 2, t.as<float>() + t.size(), [](float x) { return x == 0; });
}

TEST(SelectAlgorithms, ShapesOnlyLeavesWeightsUncomputed) {
  PassOptions options;
  options.rules.winograd_min_channels = 4;
  const Graph g = channels_last_conv(4, 5, 3, 7, 1, 1);
  const Graph whole = check_pass(g, select_algorithms, options);
  options.shapes_only = true;
  Graph quick = g;
  ASSERT_TRUE(select_algorithms(quick, options).value());
  ASSERT_EQ(count(quick, "conv_winograd"), 1);
  EXPECT_EQ(weights_of(quick, "conv_winograd").shape(), weights_of(whole, "conv_winograd").shape());
  EXPECT_TRUE(is_zero(weights_of(quick, "conv_winograd")));
  EXPECT_FALSE(is_zero(weights_of(whole, "conv_winograd")));
  // An option of one call: the next computes again.
  options.shapes_only = false;
  Graph again = g;
  ASSERT_TRUE(select_algorithms(again, options).value());
  EXPECT_FALSE(is_zero(weights_of(again, "conv_winograd")));
}

TEST(SelectAlgorithms, WinogradWithDepth) {
  Net net;
  const ValueId w = net.weights({4, 4, 3, 3, 3});
  const Graph g = net.finish({net.op("conv", {net.input({1, 3, 7, 8, 4}), w},
                                     {{"before", Integers{1, 1, 0}},
                                      {"after", Integers{1, 1, 1}},
                                      {"layout", std::string("nhwc")}})});
  PassOptions options;
  options.rules.winograd_min_channels = 4;
  EXPECT_EQ(count(check_pass(g, select_algorithms, options), "conv_winograd"), 0);
  options.rules.winograd_depth = true;
  const Graph made = check_pass(g, select_algorithms, options);
  ASSERT_EQ(count(made, "conv_winograd"), 1);
  EXPECT_EQ(algorithm_key(made, made.nodes[0]), algorithm_point(g, g.nodes[0], {})->name);
}

TEST(SelectAlgorithms, FewNarrowChannelsAreGatheredForTensorCores) {
  const auto graph = [](std::int64_t ci, DType type) {
    Net net;
    const ValueId w = net.weights({8, ci, 5, 5}, type);
    return net.finish({net.op("conv", {net.input({2, 9, 8, ci}, type), w},
                              {{"strides", Integers{2, 1}},
                               {"before", Integers{2, 1}},
                               {"after", Integers{1, 2}},
                               {"layout", std::string("nhwc")}})});
  };
  PassOptions options;
  EXPECT_EQ(count(check_pass(graph(3, DType::kF16), select_algorithms, options), "columns"), 0);
  options.rules.slices_in_place = true;
  const Graph made = check_pass(graph(3, DType::kF16), select_algorithms, options);
  EXPECT_EQ(count(made, "columns"), 1);
  EXPECT_EQ(count(made, "conv"), 0);
  EXPECT_EQ(count(check_pass(graph(16, DType::kF16), select_algorithms, options), "columns"), 0);
  EXPECT_EQ(count(check_pass(graph(3, DType::kF32), select_algorithms, options), "columns"), 0);
  EXPECT_EQ(count(check_pass(graph(3, DType::kI8), select_algorithms, options), "columns"), 1);
  const Graph g = graph(3, DType::kF16);
  const plan::Point point = algorithm_point(g, g.nodes[0], options.rules).value();
  EXPECT_EQ(point.name, "columns n2 h9 w8 ci3 co8 k5x5 s2,1");
}

TEST(SelectAlgorithms, FewNarrowChannelsAreSummedAlongRows) {
  struct Case {
    std::int64_t channels, width, stride, before, after;
    DType type;
  };
  const auto graph = [](const Case& c) {
    Net net;
    const ValueId w = net.weights({8, c.channels, 3, c.width}, c.type);
    return net.finish({net.op("conv", {net.input({2, 9, 11, c.channels}, c.type), w},
                              {{"strides", Integers{2, c.stride}},
                               {"before", Integers{1, c.before}},
                               {"after", Integers{0, c.after}},
                               {"layout", std::string("nhwc")}})});
  };
  for (const Case& c : {Case{3, 7, 2, 3, 3, DType::kBF16}, Case{3, 3, 2, 0, 0, DType::kI8},
                        Case{1, 5, 1, 2, 2, DType::kBF16}, Case{4, 2, 3, 0, 1, DType::kI8},
                        Case{7, 3, 3, 1, 0, DType::kBF16}}) {
    const Graph made = check_pass(graph(c), select_algorithms, {});
    ASSERT_EQ(count(made, "conv"), 1);
    ASSERT_EQ(count(made, "reshape"), 1) << c.channels << " " << c.width;
    const Node& conv = made.nodes.back();
    const std::int64_t group = 4 / size_bytes(c.type), length = c.channels * c.width;
    EXPECT_EQ(made.shape(conv.inputs[1]), (Shape{8, 1, 3, (length + group - 1) / group * group}));
    Graph again = made;
    EXPECT_FALSE(select_algorithms(again, {}).value()) << "one channel has its rows already";
  }
  for (const Case& c : {Case{3, 3, 2, 1, 1, DType::kF32}, Case{8, 3, 2, 1, 1, DType::kBF16},
                        Case{3, 1, 1, 0, 0, DType::kBF16}})
    EXPECT_EQ(count(check_pass(graph(c), select_algorithms, {}), "reshape"), 0);
  const Graph g = graph({3, 7, 2, 3, 3, DType::kBF16});
  const plan::Point point = algorithm_point(g, g.nodes[0], {}).value();
  EXPECT_EQ(point.name, "rows n2 h9 w11 ci3 co8 k3x7 s2,2");
  PassOptions direct;
  direct.decider = std::make_shared<plan::Decider>(plan::Decisions{{point.name, plan::kDirect}});
  EXPECT_EQ(count(check_pass(g, select_algorithms, direct), "reshape"), 0);
  Graph quick = g;
  PassOptions shapes;
  shapes.shapes_only = true;
  ASSERT_TRUE(select_algorithms(quick, shapes).value());
  EXPECT_EQ(quick.shape(quick.nodes.back().inputs[1]), (Shape{8, 1, 3, 22}));
}

TEST(SelectAlgorithms, LongWeightsOfSmallMapsAreReadFromMemory) {
  const auto preferred = [](std::int64_t size, double flops_per_byte) {
    PassOptions options;
    options.rules.winograd_min_channels = 4;
    options.rules.flops_per_byte = flops_per_byte;
    const Graph g = channels_last_conv(32, 32, 3, size, 1, 1);
    const plan::Point point = algorithm_point(g, g.nodes[0], options.rules).value();
    return point.label(point.preferred);
  };
  for (const double free : {0.0, 3.2}) {
    for (const std::int64_t size : {7, 14, 28}) EXPECT_EQ(preferred(size, free), "winograd4");
  }
  // 4, 16 and 49 tiles of 4x4 for each weight.
  EXPECT_EQ(preferred(7, 12.8), "winograd2");
  EXPECT_EQ(preferred(14, 12.8), "winograd2");
  EXPECT_EQ(preferred(28, 12.8), "winograd4");
  EXPECT_EQ(preferred(7, 64), "direct");
}

PassOptions decided(const plan::Decisions& given) {
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>(given);
  return options;
}

TEST(SelectAlgorithms, TakesWhatWasDecided) {
  const Graph g = channels_last_conv(4, 5, 3, 7, 1, 1);
  const plan::Point point = algorithm_point(g, g.nodes[0], {}).value();
  EXPECT_EQ(point.name, "conv n1 h7 w7 ci4 co5 k3x3 s1 p1,1,1,1 g1");
  EXPECT_EQ(point.label(point.preferred), "direct");
  ASSERT_EQ(point.labels.size(), 4u);
  for (const std::string& algorithm : point.labels) {
    const PassOptions options = decided({{point.name, algorithm}});
    const Graph made = check_pass(g, select_algorithms, options);
    const Node& node = made.nodes[0];
    EXPECT_EQ(algorithm_key(made, node), point.name);
    EXPECT_EQ(options.decider->decisions(), (plan::Decisions{{point.name, algorithm}}));
    if (algorithm == "direct") {
      EXPECT_STREQ(node.op->name, "conv");
    } else {
      EXPECT_STREQ(node.op->name, "conv_winograd");
      EXPECT_EQ(fmt::format("winograd{}", node.attrs.integer("m")), algorithm);
    }
  }
}

// Whoever asks for shapes alone counts the kernels that a model has.
TEST(SelectAlgorithms, WeightsThatAreNotComputedStayDifferent) {
  Net net;
  const ValueId x = net.input({1, 7, 7, 4});
  std::vector<ValueId> outputs;
  for (int i = 0; i < 2; ++i) {
    outputs.push_back(net.op(
        "conv", {x, net.weights({5, 4, 3, 3})},
        {{"before", Integers{1, 1}}, {"after", Integers{1, 1}}, {"layout", std::string("nhwc")}}));
  }
  const Graph g = net.finish(outputs);
  for (const bool shapes_only : {false, true}) {
    PassOptions options = decided({{"convolutions", "winograd4"}});
    options.shapes_only = shapes_only;
    Graph made = g;
    EXPECT_TRUE(optimize(made, options).ok());
    EXPECT_EQ(count(made, "conv_winograd"), 2) << shapes_only;
  }
}

TEST(SelectAlgorithms, OtherWindowsTakeWhatWasDecided) {
  Net net;
  const Graph g = net.finish({net.op(
      "conv", {net.input({1, 5, 9, 4}), net.weights({5, 4, 1, 7})},
      {{"before", Integers{0, 3}}, {"after", Integers{0, 3}}, {"layout", std::string("nhwc")}})});
  const plan::Point point = algorithm_point(g, g.nodes[0], {}).value();
  EXPECT_EQ(point.name, "conv n1 h5 w9 ci4 co5 k1x7 s1 p0,3,0,3 g1");
  EXPECT_EQ(point.label(point.preferred), "direct");
  for (const std::string& algorithm : point.labels) {
    const Graph made = check_pass(g, select_algorithms, decided({{point.name, algorithm}}));
    EXPECT_EQ(algorithm_key(made, made.nodes[0]), point.name);
  }
}

TEST(SelectAlgorithms, TransposedConvolutionsTakeWhatWasDecided) {
  for (const std::int64_t extra : {0, 1}) {
    Net net;
    const ValueId w = net.weights({4, 5, 4, 4});
    const Graph g = net.finish({net.op("conv_transpose", {net.input({1, 3, 9, 4}), w},
                                       {{"strides", Integers{2, 2}},
                                        {"before", Integers{1, 1}},
                                        {"after", Integers{1, 1}},
                                        {"output_padding", Integers{extra, 0}},
                                        {"layout", std::string("nhwc")}})});
    const plan::Point point = algorithm_point(g, g.nodes[0], {}).value();
    EXPECT_EQ(point.name,
              fmt::format("conv_transpose n1 h3 w9 ci4 co5 k4x4 s2,2 p1,1,{},1", 1 - extra));
    ASSERT_EQ(point.labels.size(), 4u);
    EXPECT_EQ(point.label(point.preferred), "direct");
    for (const std::string& algorithm : point.labels) {
      const Graph made = check_pass(g, select_algorithms, decided({{point.name, algorithm}}));
      EXPECT_EQ(algorithm_key(made, made.nodes[0]), point.name);
      EXPECT_EQ(count(made, "conv_transpose_winograd"), algorithm == "direct" ? 0 : 1);
    }
  }
}

TEST(SelectAlgorithms, FewPositionsOfTransposedConvolutionsAreGathered) {
  for (const std::int64_t pad : {0, 1}) {
    Net net;
    const ValueId w = net.weights({4, 5, 4, 3});
    const Graph g = net.finish({net.op("conv_transpose", {net.input({2, 3, 5, 4}), w},
                                       {{"strides", Integers{2, 2}},
                                        {"before", Integers{pad, 1}},
                                        {"after", Integers{0, 1}},
                                        {"layout", std::string("nhwc")}})});
    const plan::Point point = algorithm_point(g, g.nodes[0], {}).value();
    EXPECT_EQ(point.name, "columns_transpose n2 h3 w5 ci4 co5 k4x3 s2,2");
    EXPECT_EQ(point.label(point.preferred), "product");
    Graph made = check_pass(g, select_algorithms, {});
    ASSERT_EQ(count(made, "conv_transpose"), 1);
    EXPECT_TRUE(made.nodes[0].attrs.has("gathered"));
    EXPECT_FALSE(select_algorithms(made, {}).value());
    const Graph direct = check_pass(g, select_algorithms, decided({{point.name, "direct"}}));
    EXPECT_FALSE(direct.nodes[0].attrs.has("gathered"));
  }
}

TEST(SelectAlgorithms, RefusesAlgorithmsThatDoNotExist) {
  Graph g = channels_last_conv(4, 5, 3, 7, 1, 1);
  const std::string key = algorithm_point(g, g.nodes[0], {}).value().name;
  const Result<bool> done = select_algorithms(g, decided({{key, "winograd5"}}));
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("winograd6"), std::string::npos) << done.error().message;
}

TEST(SelectAlgorithms, OnlyDenseWindowsHaveAChoice) {
  const auto point = [](const Graph& g) { return algorithm_point(g, g.nodes[0], {}); };
  EXPECT_FALSE(point(channels_last_conv(4, 5, 3, 7, 1, 2)).has_value());
  EXPECT_FALSE(point(channels_last_conv(4, 5, 9, 11, 1, 1)).has_value());
  EXPECT_EQ(point(channels_last_conv(4, 5, 5, 7, 1, 1)).value().values.size(), 3u);
  EXPECT_EQ(point(channels_last_conv(4, 5, 1, 7, 0, 1)).value().kind, plan::PointKind::kPointwise);
}

TEST(SelectAlgorithms, OneByOneIsAProduct) {
  const auto contracts = [](const Graph& g, const PassOptions& options = {}) {
    return count(check_pass(g, select_algorithms, options), "contract");
  };
  EXPECT_EQ(contracts(channels_last_conv(3, 4, 1, 3, 0, 1)), 1);
  EXPECT_EQ(contracts(channels_last_conv(3, 4, 1, 3, 1, 1)), 0);
  EXPECT_EQ(contracts(channels_last_conv(3, 4, 1, 3, 0, 2)), 0);
  PassOptions off;
  off.rules.pointwise_as_product = false;
  EXPECT_EQ(contracts(channels_last_conv(3, 4, 1, 3, 0, 1), off), 0);
  EXPECT_EQ(contracts(channels_last_conv(3, 4, 1, 3, 0, 1),
                      decided({{"pointwise n1 h3 w3 ci3 co4", plan::kDirect}})),
            0);
}

// A product of rows, seen as an image of 3 x 5 positions.
ValueId image_of_product(Net& n, const Shape& rows) {
  const ValueId y = n.contract(n.input(rows), n.weights({rows[1], 4}), "mk", "kn", "mn");
  return n.reshape(y, {1, 3, 5, 4});
}

TEST(SinkReshapes, PointwiseNodesComputeInTheShapeOfTheProduct) {
  Net n;
  const ValueId x = image_of_product(n, {15, 6});
  const ValueId biased = n.op("add", {x, n.weights({4})});
  const ValueId gated = n.op("mul", {biased, n.op("sigmoid", {biased})});
  const ValueId residual = n.op("add", {gated, n.input({1, 3, 5, 4})});
  const ValueId scaled = n.op("mul", {residual, n.input({1, 1, 1, 4})});
  const Graph g = check_pass(n.finish({n.relu(scaled)}), sink_reshapes);
  EXPECT_EQ(std::string(last_node(g).op->name), "reshape");
  for (const Node& node : g.nodes) {
    if (node.op->fusion == Fusion::kPointwise) {
      EXPECT_EQ(g.shape(node.outputs[0]), (Shape{15, 4})) << node.op->name;
    }
  }
}

// What is stored before the reshape stays narrow: of other operands, and of depthwise convolutions.
TEST(SinkReshapes, WhatIsMadeWiderIsSoBehind) {
  Net n;
  const auto wider = [&](ValueId v) {
    const ValueId bytes = n.op("cast", {v}, {{"to", std::string("u8")}});
    return n.op("mul",
                {n.op("sub", {n.op("cast", {bytes}, {{"to", std::string("f32")}}), n.scalar(3)}),
                 n.scalar(0.5)});
  };
  const ValueId other = wider(n.relu(n.input({1, 3, 5, 4})));
  const ValueId sum = wider(n.op("add", {image_of_product(n, {15, 6}), other}));
  const ValueId y = n.op("conv", {sum, n.weights({4, 1, 3, 3})},
                         {{"layout", std::string("nhwc")}, {"group", std::int64_t{4}}});
  const Graph g = check_pass(n.finish({y}), sink_reshapes);
  int reshapes = 0;
  for (const Node& node : g.nodes) {
    if (std::string_view(node.op->name) != "reshape") continue;
    EXPECT_EQ(g.type(node.outputs[0]).dtype, DType::kU8);
    ++reshapes;
  }
  EXPECT_EQ(reshapes, 2);
}

TEST(SinkReshapes, LeavesOperandsThatVaryOverThePositionsAndOtherReshapes) {
  Net n;
  const ValueId rows = n.op("add", {image_of_product(n, {15, 6}), n.weights({1, 3, 1, 1})});
  const ValueId other = n.op("tanh", {n.reshape(n.input({3, 20}), {1, 3, 5, 4})});
  Net merged;  // the last dimension is not that of the product
  const ValueId y =
      merged.contract(merged.input({15, 6}), merged.weights({6, 4}), "mk", "kn", "mn");
  const Graph kept = merged.finish({merged.op("tanh", {merged.reshape(y, {60})})});
  for (const Graph& g : {n.finish({rows, other}), kept}) {
    Graph copy = g;
    const Result<bool> changed = sink_reshapes(copy, {});
    ASSERT_TRUE(changed.ok());
    EXPECT_FALSE(*changed);
  }
}

ValueId slice_of(Net& n, ValueId x, const Integers& starts, const Integers& sizes) {
  return n.op("slice", {x},
              {{"starts", starts}, {"steps", Integers(starts.size(), 1)}, {"sizes", sizes}});
}

TEST(AbsorbSlices, ContractionsReadPartsOfTheirOperands) {
  PassOptions on;
  on.rules.slices_in_place = true;
  Net n;
  // Queries and keys of two heads, side by side in one value.
  const ValueId x = n.op("exp", {n.input({1, 5, 16})});
  const ValueId q = n.reshape(slice_of(n, x, {0, 0, 0}, {1, 5, 8}), {1, 5, 2, 4});
  const ValueId k = n.reshape(slice_of(n, x, {0, 0, 8}, {1, 5, 8}), {1, 5, 2, 4});
  const ValueId s = n.contract(q, k, "bihk", "bjhk", "bhij");
  // One of an axis that is dropped, and, without a reshape, several axes at once.
  const ValueId third = slice_of(n, n.reshape(x, {1, 5, 4, 4}), {0, 0, 2, 0}, {1, 5, 1, 4});
  const ValueId z = n.contract(n.reshape(third, {5, 1, 4}), n.weights({4, 2}), "ibk", "kj", "bij");
  const ValueId y =
      n.contract(slice_of(n, x, {0, 1, 3}, {1, 3, 6}), n.weights({6, 2}), "bik", "kj", "bij");
  const Graph graph = n.finish({s, y, z});
  Graph g = check_pass(graph, absorb_slices, on);
  ASSERT_TRUE(remove_dead(g, on).ok());
  compact(g);
  EXPECT_EQ(count(g, "slice"), 0) << to_text(g);
  const Node& scores = last_node(g, 0);
  EXPECT_NE(scores.inputs[0], scores.inputs[1]);
  EXPECT_EQ(scores.attrs.integers("b_starts"), (Integers{0, 0, 2, 0}));
  EXPECT_EQ(g.shape(scores.inputs[1]), (Shape{1, 5, 4, 4}));
  EXPECT_EQ(g.shape(last_node(g, 2).inputs[0]), (Shape{5, 4, 4}));
  EXPECT_EQ(count(check_pass(graph, absorb_slices), "slice"), 4);
}

TEST(AbsorbSlices, LeavesWhatIsNoPart) {
  PassOptions on;
  on.rules.slices_in_place = true;
  Net n;
  const ValueId x = n.op("exp", {n.input({1, 5, 16})});
  // The cut is not where heads begin, elements are left out between, and the rows are mixed.
  const ValueId a = n.reshape(slice_of(n, x, {0, 0, 6}, {1, 5, 8}), {1, 5, 2, 4});
  const ValueId b = n.op(
      "slice", {x},
      {{"starts", Integers{0, 0, 0}}, {"steps", Integers{1, 1, 2}}, {"sizes", Integers{1, 5, 8}}});
  const ValueId c = n.reshape(slice_of(n, x, {0, 0, 8}, {1, 5, 8}), {1, 10, 4});
  const Graph graph = n.finish({n.contract(a, n.weights({4, 3}), "bihk", "kj", "bihj"),
                                n.contract(b, n.weights({8, 3}), "bik", "kj", "bij"),
                                n.contract(c, n.weights({4, 3}), "bik", "kj", "bij")});
  EXPECT_EQ(count(check_pass(graph, absorb_slices, on), "slice"), 3);
}

TEST(MergeContractions, BiasesOfProjectionsThatContractionsRead) {
  PassOptions on;
  on.rules.merge_contractions = true;
  const auto attention = [](const Shape& bias) {
    Net n;
    const ValueId x = n.input({1, 5, 6});
    const auto heads = [&] {
      const ValueId y = n.contract(x, n.weights({6, 8}), "bik", "kj", "bij");
      return n.reshape(n.op("add", {n.weights(bias), y}), {1, 5, 2, 4});
    };
    const ValueId q = heads(), k = heads();
    return n.finish({n.contract(q, k, "bihk", "bjhk", "bhij")});
  };
  const auto last = [&](const Graph& g) {
    return std::string_view(g.nodes[g.nodes.size() - 2].op->name);
  };
  // Slices, then the sums of each; in place: one sum, then slices.
  const Graph apart = check_pass(attention({8}), merge_contractions, on);
  EXPECT_EQ(count(apart, "add"), 2) << to_text(apart);
  on.rules.slices_in_place = true;
  const Graph together = check_pass(attention({8}), merge_contractions, on);
  EXPECT_EQ(count(together, "add"), 1) << to_text(together);
  EXPECT_EQ(count(together, "contract"), 2);
  EXPECT_EQ(last(together), "reshape");
  // A bias of every element is none of the channels.
  EXPECT_EQ(count(check_pass(attention({5, 8}), merge_contractions, on), "add"), 2);
}

TEST(MergeContractions, ProjectionsOfOneInput) {
  PassOptions on;
  on.rules.merge_contractions = true;
  const auto projections = [](bool returned) {
    Net net;
    const ValueId x = net.input({3, 4});
    const ValueId q = net.contract(x, net.weights({4, 5}), "mk", "kn", "mn");
    const ValueId k = net.contract(x, net.weights({4, 2}), "mk", "kn", "mn");
    const ValueId other = net.contract(x, net.weights({2, 4}), "mk", "nk", "mn");
    const ValueId y = net.contract(net.op("exp", {q}), net.weights({5, 2}), "mk", "kn", "mn");
    return net.finish({net.op("add", {y, net.op("mul", {k, other})}), returned ? q : y});
  };
  const Graph g = check_pass(projections(false), merge_contractions, on);
  EXPECT_EQ(count(g, "contract"), 3) << to_text(g);
  EXPECT_EQ(count(g, "slice"), 2);
  // A returned slice is a copy, and one product alone is no group.
  EXPECT_EQ(count(check_pass(projections(true), merge_contractions, on), "contract"), 4);
  EXPECT_EQ(count(check_pass(projections(false), merge_contractions), "slice"), 0);
  on.decider = decided({{"contractions", plan::kSeparate}}).decider;
  EXPECT_EQ(count(check_pass(projections(false), merge_contractions, on), "slice"), 0);
  const auto slices = [&](const char* key, const char* value) {
    return count(check_pass(projections(false), merge_contractions, decided({{key, value}})),
                 "slice");
  };
  EXPECT_EQ(slices("contractions", plan::kMerged), 2);
  EXPECT_EQ(slices("merge f32[3,4] mk,kn->mn n5+2", plan::kMerged), 2);
  EXPECT_EQ(slices("merge f32[3,4] mk,kn->mn n5+3", plan::kMerged), 0);
}

TEST(SplitConcats, AConvolutionOfPartsIsTheSumOfTheirs) {
  for (const char* layout : {"nchw", "nhwc"}) {
    const bool last = std::string_view(layout) == "nhwc";
    const auto made = [&](std::size_t parts, bool read_twice) {
      Net net;
      std::vector<ValueId> in(parts);
      for (std::int64_t c = 2; ValueId & part : in) {
        part = net.input(last ? Shape{1, 5, 5, c} : Shape{1, c, 5, 5});
        ++c;
      }
      const ValueId all = net.op("concat", in, {{"axis", std::int64_t{last ? 3 : 1}}});
      const std::int64_t ci = net.shape(all)[last ? 3 : 1];
      const ValueId y = net.op("conv", {all, net.weights({4, ci, 3, 3})},
                               {{"layout", std::string(layout)}, {"before", Integers{1, 1}}});
      return net.finish(read_twice ? std::vector<ValueId>{y, all} : std::vector<ValueId>{y});
    };
    const plan::Decisions split = {{"concatenations", plan::kSplitUp}};
    EXPECT_EQ(count(check_pass(made(3, false), split_concats, decided(split)), "conv"), 3);
    EXPECT_EQ(count(check_pass(made(3, false), split_concats, decided(split)), "concat"), 0);
    EXPECT_EQ(count(check_pass(made(3, false), split_concats, decided({})), "conv"), 1);
    EXPECT_EQ(count(check_pass(made(5, false), split_concats, decided(split)), "conv"), 1);
    EXPECT_EQ(count(check_pass(made(2, true), split_concats, decided(split)), "conv"), 1);
    PassOptions exact = decided(split);
    exact.allow_reassociation = false;
    EXPECT_EQ(count(check_pass(made(2, false), split_concats, exact), "conv"), 1);
  }
}

// Whatever makes the parts stores them narrow; parts that others read stay as they are.
TEST(SplitConcats, PartsBecomeNarrowOneByOne) {
  for (const bool read_twice : {false, true}) {
    Net net;
    const ValueId all =
        net.op("concat", {net.input({1, 5, 6}), net.input({1, 5, 3})}, {{"axis", std::int64_t{2}}});
    const ValueId bytes = net.op("cast", {net.op("round", {net.op("mul", {all, net.scalar(9)})})},
                                 {{"to", std::string("u8")}});
    const Graph g = check_pass(
        net.finish(read_twice ? std::vector<ValueId>{bytes, all} : std::vector<ValueId>{bytes}),
        split_concats, decided({}));
    EXPECT_EQ(count(g, "round"), read_twice ? 1 : 2);
    EXPECT_EQ(std::string(last_node(g).op->name), read_twice ? "cast" : "concat");
  }
}

// What SqueezeNet has: a narrow 1x1 convolution behind, a pool between.
TEST(SplitConcats, WhereThatMovesFewerBytes) {
  const auto made = [&](std::int64_t co, std::int64_t stride) {
    Net net;
    const ValueId all = net.op("concat", {net.input({2, 7, 5, 6}), net.input({2, 7, 5, 5})},
                               {{"axis", std::int64_t{3}}});
    const ValueId less = net.op("pool", {all},
                                {{"layout", std::string("nhwc")},
                                 {"kind", std::string("avg")},
                                 {"kernel", Integers{3, 3}},
                                 {"before", Integers{1, 1}},
                                 {"after", Integers{1, 1}},
                                 {"strides", Integers{stride, stride}}});
    return net.finish(
        {net.op("conv", {less, net.weights({co, 11, 1, 1})}, {{"layout", std::string("nhwc")}})});
  };
  const Graph split = check_pass(made(5, 2), split_concats, decided({}));
  EXPECT_EQ(count(split, "concat"), 0);
  EXPECT_EQ(count(split, "pool"), 2);
  EXPECT_EQ(count(split, "conv"), 2);
  const Graph wide = check_pass(made(6, 2), split_concats, decided({}));
  EXPECT_EQ(count(wide, "conv"), 1);
  EXPECT_EQ(count(wide, "pool"), 2);
  // Such a pool leaves as much to copy.
  EXPECT_EQ(count(check_pass(made(5, 1), split_concats, decided({})), "pool"), 1);
  const plan::Decisions joined = {{"concatenations", plan::kJoined}};
  EXPECT_EQ(count(check_pass(made(5, 2), split_concats, decided(joined)), "pool"), 1);
  PassOptions gpu = decided({});
  gpu.rules.moves_inside = true;
  EXPECT_EQ(count(check_pass(made(5, 2), split_concats, gpu), "pool"), 1);
}

TEST(SplitConcats, NodesWithoutNamesAreDecidedByShape) {
  const auto made = [](const std::string& origin) {
    Net net;
    std::vector<ValueId> out;
    for (const std::int64_t co : {5, 6}) {
      const ValueId all = net.op("concat", {net.input({1, 5, 3, 3}), net.input({1, 6, 3, 3})},
                                 {{"axis", std::int64_t{1}}});
      out.push_back(net.conv(all, co, 1));
    }
    Graph graph = net.finish(out);
    for (Node& node : graph.nodes) node.origin = origin;
    return graph;
  };
  PassOptions options = decided({});
  EXPECT_EQ(count(check_pass(made("Conv"), split_concats, options), "conv"), 3);
  const plan::Decisions by_shape = options.decider->decisions();
  EXPECT_EQ(by_shape.at("concat 1x5x3x3+1x6x3x3 by 5x11x1x1 to 1x5x3x3 into Conv"), plan::kSplitUp);
  EXPECT_EQ(by_shape.at("concat 1x5x3x3+1x6x3x3 by 6x11x1x1 to 1x6x3x3 into Conv"), plan::kJoined);
  options = decided({{"concat into Conv /a", plan::kSplitUp}});
  EXPECT_EQ(count(check_pass(made("Conv /a"), split_concats, options), "conv"), 4);
}

TEST(FoldGates, FactorsOfChannelsGoToTheWeights) {
  // `factors`: the shape of the gate; the result of a squeeze has batch 1.
  const auto made = [](const Shape& image, const Shape& factors, std::int64_t co, bool twice) {
    Net net;
    const ValueId x = net.input(image);
    const ValueId gate = net.op("sigmoid", {net.input(factors)});
    const ValueId scaled = net.op("mul", {gate, x});
    const std::int64_t ci = image.back();
    const ValueId rows = net.reshape(scaled, {elements(image) / ci, ci});
    std::vector<ValueId> out = {net.contract(rows, net.weights({co, ci}), "mk", "nk", "nm")};
    if (twice) out.push_back(net.op("exp", {scaled}));
    return net.finish(out);
  };
  const auto folded = [&](const Graph& graph, const PassOptions& options = {}) {
    const Graph g = check_pass(graph, fold_gates, options);
    return last_node(g).attrs.word("b") == "kn";
  };
  const PassOptions fused = decided({{"fronts", plan::kFused}});
  const PassOptions stored = decided({{"fronts", plan::kStored}});
  EXPECT_TRUE(folded(made({1, 9, 7, 5}, {1, 1, 1, 5}, 3, false)));
  EXPECT_FALSE(folded(made({1, 9, 7, 5}, {1, 1, 1, 5}, 3, false), stored));
  // As many weights as there are products to save.
  EXPECT_FALSE(folded(made({1, 1, 3, 5}, {1, 1, 1, 5}, 3, false)));
  EXPECT_TRUE(folded(made({1, 1, 3, 5}, {1, 1, 1, 5}, 3, false), fused));
  // Another gate for each image, or position; what something else reads.
  EXPECT_FALSE(folded(made({2, 9, 7, 5}, {2, 1, 1, 5}, 3, false), fused));
  EXPECT_FALSE(folded(made({1, 9, 7, 5}, {1, 9, 7, 5}, 3, false), fused));
  EXPECT_FALSE(folded(made({1, 9, 7, 5}, {1, 9, 7, 1}, 3, false), fused));
  EXPECT_FALSE(folded(made({1, 9, 7, 5}, {1, 1, 1, 5}, 3, true), fused));
  // The key has what the preference depends on.
  const PassOptions asked = decided({});
  folded(made({1, 9, 7, 5}, {1, 1, 1, 5}, 3, false), asked);
  EXPECT_EQ(asked.decider->decided().at(0).point.name.find("front gate 1x9x7x5 3x5 of "), 0u);
}

}  // namespace
}  // namespace tessera::graph
