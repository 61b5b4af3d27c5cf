// simplify, merge_common, remove_dead: the smallest graph that each rule changes, and the nearest
// one that it must not.
#include <gtest/gtest.h>

#include "passes_net.h"

namespace tessera::graph {
namespace {

using Build = ValueId (*)(Net&, ValueId);

Graph simplified(Build build, const Shape& shape = {2, 3, 4}, DType dtype = DType::kF32,
                 PassOptions options = {}) {
  Net net;
  const ValueId x = net.input(shape, dtype);
  return check_pass(net.finish({build(net, x)}), simplify, options);
}

TEST(Simplify, NeutralOperandsVanish) {
  const std::vector<Build> builds = {
      [](Net& n, ValueId x) {
        return n.op("add", {x, n.scalar(0)});
      },
      [](Net& n, ValueId x) {
        return n.op("add", {n.scalar(0), x});
      },
      [](Net& n, ValueId x) {
        return n.op("sub", {x, n.scalar(0)});
      },
      [](Net& n, ValueId x) {
        return n.op("mul", {n.scalar(1), x});
      },
      [](Net& n, ValueId x) {
        return n.op("div", {x, n.scalar(1)});
      },
      [](Net& n, ValueId x) { return n.op("neg", {n.op("neg", {x})}); },
      [](Net& n, ValueId x) {
        return n.op("pow", {x, n.scalar(1)});
      },
      [](Net& n, ValueId x) {
        return n.reshape(n.reshape(x, {24}), {2, 3, 4});
      },
      [](Net& n, ValueId x) {
        return n.transpose(n.transpose(x, {2, 0, 1}), {1, 2, 0});
      },
      [](Net& n, ValueId x) {
        return n.op("concat", {x}, {{"axis", std::int64_t{1}}});
      },
      [](Net& n, ValueId x) {
        return n.op("expand", {x}, {{"shape", Shape{2, 3, 4}}});
      },
      [](Net& n, ValueId x) {
        return n.op("slice", {x},
                    {{"starts", Integers{0, 0, 0}},
                     {"steps", Integers{1, 1, 1}},
                     {"sizes", Integers{2, 3, 4}}});
      },
      [](Net& n, ValueId x) {
        return n.op("pad", {x},
                    {{"mode", std::string("edge")},
                     {"before", Integers{0, 0, 0}},
                     {"after", Integers{0, 0, 0}}});
      },
      [](Net& n, ValueId x) {
        return n.op("where", {n.scalar(1, DType::kBool), x, n.scalar(2)});
      },
  };
  for (const Build build : builds) {
    const Graph g = simplified(build);
    EXPECT_TRUE(g.nodes.empty()) << to_text(g);
    EXPECT_EQ(g.outputs, g.inputs);
  }
}

TEST(Simplify, LeavesWhatOnlyLooksNeutral) {
  const std::vector<Build> builds = {
      [](Net& n, ValueId x) {
        return n.op("sub", {n.scalar(0), x});
      },
      [](Net& n, ValueId x) {
        return n.op("add", {x, n.weights({3, 1})});
      },
      [](Net& n, ValueId x) {
        return n.op("pow", {x, n.scalar(4)});
      },
      [](Net& n, ValueId x) {
        return n.transpose(x, {0, 2, 1});
      },
      [](Net& n, ValueId x) {
        return n.op("expand", {x}, {{"shape", Shape{2, 2, 3, 4}}});
      },
      [](Net& n, ValueId x) { return n.op("neg", {n.op("abs", {x})}); },
  };
  for (const Build build : builds)
    EXPECT_EQ(simplified(build).nodes.size(), 1u + (build == builds.back()));
}

TEST(Simplify, BroadcastingNeutralOperandStays) {
  Net net;
  const ValueId x = net.input({3, 1});
  const Graph g =
      net.finish({net.op("add", {x, net.op("expand", {net.scalar(0)}, {{"shape", Shape{1, 4}}})})});
  EXPECT_EQ(count(check_pass(g, simplify), "add"), 1);
}

TEST(Simplify, Powers) {
  EXPECT_EQ(count(simplified([](Net& n, ValueId x) {
                    return n.op("pow", {x, n.scalar(2)});
                  }),
                  "mul"),
            1);
  EXPECT_EQ(count(simplified([](Net& n, ValueId x) {
                    return n.op("pow", {n.op("abs", {x}), n.scalar(0.5)});
                  }),
                  "sqrt"),
            1);
  const Graph g = simplified([](Net& n, ValueId x) {
    return n.op("pow", {n.op("add", {n.op("abs", {x}), n.scalar(1)}), n.scalar(-0.5)});
  });
  EXPECT_EQ(count(g, "recip") + count(g, "sqrt"), 2);
}

TEST(Simplify, DivisionByConstants) {
  const Build by_four = [](Net& n, ValueId x) { return n.op("div", {x, n.scalar(4)}); };
  const Build by_three = [](Net& n, ValueId x) { return n.op("div", {x, n.scalar(3)}); };
  const Build by_zero = [](Net& n, ValueId x) { return n.op("div", {x, n.scalar(0)}); };
  const Build by_tiny = [](Net& n, ValueId x) { return n.op("div", {x, n.scalar(1e38)}); };
  PassOptions exact;
  exact.allow_reassociation = false;
  EXPECT_EQ(count(simplified(by_four, {3}, DType::kF32, exact), "mul"), 1);
  EXPECT_EQ(count(simplified(by_three, {3}, DType::kF32, exact), "div"), 1);
  EXPECT_EQ(count(simplified(by_three), "mul"), 1);
  EXPECT_EQ(count(simplified(by_zero), "div"), 1);
  EXPECT_EQ(count(simplified(by_tiny), "div"), 1);  // its reciprocal is subnormal
  const Build reciprocal = [](Net& n, ValueId x) {
    return n.op("div", {n.scalar(1), n.op("exp", {x})});
  };
  EXPECT_EQ(count(simplified(reciprocal), "recip"), 1);
}

TEST(Simplify, CastsThatLoseNothingMerge) {
  const Build widened = [](Net& n, ValueId x) {
    return n.op("cast", {n.op("cast", {x}, {{"to", std::string("i64")}})},
                {{"to", std::string("f32")}});
  };
  EXPECT_EQ(count(simplified(widened, {5}, DType::kI32), "cast"), 1);
  const Build there_and_back = [](Net& n, ValueId x) {
    return n.op("cast", {n.op("cast", {x}, {{"to", std::string("i32")}})},
                {{"to", std::string("f32")}});
  };
  EXPECT_EQ(count(simplified(there_and_back, {5}), "cast"), 2);
  EXPECT_EQ(count(simplified(
                      [](Net& n, ValueId x) {
                        return n.op("cast", {n.op("cast", {x}, {{"to", std::string("f64")}})},
                                    {{"to", std::string("f32")}});
                      },
                      {5}),
                  "cast"),
            0);
}

TEST(Simplify, TransposeOfSizeOneAxesIsReshape) {
  const Graph g = simplified(
      [](Net& n, ValueId x) {
        return n.transpose(x, {0, 2, 3, 1});
      },
      {2, 5, 1, 1});
  EXPECT_EQ(count(g, "transpose"), 0);
  EXPECT_EQ(count(g, "reshape"), 1);
}

TEST(Simplify, SlicesCompose) {
  const Graph g = simplified(
      [](Net& n, ValueId x) {
        const ValueId a =
            n.op("slice", {x},
                 {{"starts", Integers{8}}, {"steps", Integers{-2}}, {"sizes", Integers{4}}});
        return n.op("slice", {a},
                    {{"starts", Integers{1}}, {"steps", Integers{2}}, {"sizes", Integers{2}}});
      },
      {9});
  ASSERT_EQ(g.nodes.size(), 1u);
  EXPECT_EQ(g.nodes[0].attrs.integers("starts"), Integers{6});
  EXPECT_EQ(g.nodes[0].attrs.integers("steps"), Integers{-4});
}

// Bytes -> numbers -> bytes: round((x - zero) * from / to) + zero.
Graph scaled_and_back(DType type, double from, double to, double zero, double other_zero) {
  Net net;
  const ValueId x = net.input({2, 3}, type);
  ValueId y = net.op("cast", {x}, {{"to", std::string("f32")}});
  y = net.op("mul", {net.op("sub", {y, net.scalar(zero)}), net.scalar(from)});
  y = net.op("round", {net.op("div", {y, net.scalar(to)})});
  y = net.op("add", {y, net.scalar(other_zero)});
  return check_pass(net.finish({net.op("cast", {y}, {{"to", std::string(to_text(type))}})}),
                    simplify);
}

TEST(Simplify, BytesThatAreScaledAndScaledBackStayAsTheyAre) {
  for (const double scale : {1.0, 0.020113312, 3.7e-5, 911.3}) {
    EXPECT_EQ(count(scaled_and_back(DType::kU8, scale, scale, 0, 0), "round"), 0) << scale;
    EXPECT_EQ(count(scaled_and_back(DType::kU8, scale, scale, 17, 17), "round"), 0) << scale;
    EXPECT_EQ(count(scaled_and_back(DType::kI8, scale, scale, 0, 0), "round"), 0) << scale;
    // 255 steps that are a little larger are 256.
    EXPECT_EQ(count(scaled_and_back(DType::kU8, scale * 1.003, scale, 0, 0), "round"), 1);
    EXPECT_EQ(count(scaled_and_back(DType::kU8, scale, scale, 0, 1), "round"), 1);
  }
  EXPECT_EQ(count(scaled_and_back(DType::kI16, 1, 2, 0, 0), "round"), 1);
}

TEST(Simplify, ExpandBeforeBroadcastingIsSkipped) {
  const Build build = [](Net& n, ValueId x) {
    const ValueId row = n.reduce(x, "mean", {0, 1});
    return n.op("sub", {x, n.op("expand", {row}, {{"shape", Shape{2, 3, 4}}})});
  };
  EXPECT_EQ(count(simplified(build), "expand"), 0);
  const Build needed = [](Net& n, ValueId x) {
    return n.op("abs", {n.op("expand", {x}, {{"shape", Shape{5, 2, 3, 4}}})});
  };
  EXPECT_EQ(count(simplified(needed), "expand"), 1);
}

TEST(Simplify, ZerosAroundAConvolutionBecomeItsPadding) {
  const auto padded_conv = [](double value, std::int64_t channels) {
    Net net;
    const ValueId x = net.input({1, 2, 5, 4});
    const ValueId p = net.op("pad", {x, net.scalar(value)},
                             {{"mode", std::string("constant")},
                              {"before", Integers{0, 0, 1, 2}},
                              {"after", Integers{0, channels, 0, 1}}});
    return check_pass(net.finish({net.conv(p, 3, 3, 1)}), simplify);
  };
  const Graph g = padded_conv(0, 0);
  EXPECT_EQ(count(g, "pad"), 0);
  EXPECT_EQ(last_node(g).attrs.integers("before"), (Integers{2, 3}));
  EXPECT_EQ(count(padded_conv(1, 0), "pad"), 1);
  EXPECT_EQ(count(padded_conv(0, 1), "pad"), 1);
}

TEST(Simplify, TheGreatestOfBytesIsFoundBeforeTheyAreScaled) {
  const auto pooled = [](const char* kind, double scale, bool twice, DType type = DType::kU8) {
    Net net;
    const ValueId x = net.input({1, 2, 6, 7}, type);
    const ValueId wide = net.op("cast", {x}, {{"to", std::string("f32")}});
    const ValueId y = net.op("mul", {net.op("sub", {wide, net.scalar(3)}), net.scalar(scale)});
    const ValueId p = net.op("pool", {y},
                             {{"kind", std::string(kind)},
                              {"layout", std::string("nchw")},
                              {"kernel", Integers{3, 2}},
                              {"before", Integers{1, 0}},
                              {"after", Integers{1, 1}},
                              {"strides", Integers{2, 2}}});
    const Graph g = check_pass(net.finish(twice ? std::vector{p, y} : std::vector{p}), simplify);
    for (const Node& node : g.nodes) {
      if (node.op->name == std::string_view("pool")) return g.type(node.inputs[0]).dtype;
    }
    return DType::kBool;
  };
  EXPECT_EQ(pooled("max", 0.5, false), DType::kU8);
  EXPECT_EQ(pooled("max", 0.5, false, DType::kI8), DType::kI8);
  EXPECT_EQ(pooled("max", -0.5, false), DType::kF32) << "the greatest becomes the least";
  EXPECT_EQ(pooled("max", 0.5, true), DType::kF32) << "somebody else reads them";
  EXPECT_EQ(pooled("sum", 0.5, false), DType::kF32);
  EXPECT_EQ(pooled("max", 0.5, false, DType::kI32), DType::kF32) << "f32 rounds large ones";
}

TEST(Simplify, ReductionOverSizeOneIsReshape) {
  const Build build = [](Net& n, ValueId x) { return n.reduce(x, "mean", {1}, false); };
  EXPECT_EQ(count(simplified(build, {3, 1, 2}), "reduce"), 0);
  EXPECT_EQ(count(simplified(build, {3, 2, 2}), "reduce"), 1);
}

TEST(Simplify, EmptyAndScalarValues) {
  const Build build = [](Net& n, ValueId x) {
    return n.op("add", {n.op("mul", {x, n.scalar(1)}), n.scalar(0)});
  };
  EXPECT_TRUE(simplified(build, {}).nodes.empty());
  EXPECT_TRUE(simplified(build, {0, 3}).nodes.empty());
}

TEST(MergeCommon, EqualNodesAndConstantsMerge) {
  Net net;
  const ValueId x = net.input({3});
  const ValueId a = net.op("mul", {x, net.scalar(2)}), b = net.op("mul", {x, net.scalar(2)});
  const Graph g = check_pass(net.finish({net.op("add", {a, b})}), merge_common);
  EXPECT_EQ(g.nodes.size(), 2u);
}

// Each kernel reads a bounded number of tensors.
TEST(Simplify, LongConcatenationsAreJoinedInSteps) {
  const auto joined = [](int parts) {
    Net net;
    std::vector<ValueId> inputs;
    for (int i = 0; i < parts; ++i) inputs.push_back(net.input({2, 1 + i % 3}));
    return net.finish({net.op("concat", inputs, {{"axis", std::int64_t{1}}})});
  };
  EXPECT_EQ(count(check_pass(joined(64), simplify), "concat"), 1);
  EXPECT_EQ(count(check_pass(joined(65), simplify), "concat"), 2);  // the last part is alone
  EXPECT_EQ(count(check_pass(joined(200), simplify), "concat"), 5);
  const Graph deep = check_pass(joined(64 * 64 + 2), simplify);
  EXPECT_EQ(count(deep, "concat"), 64 + 1 + 1 + 1);
  for (const Node& node : deep.nodes) EXPECT_LE(node.inputs.size(), 64u);
}

TEST(MergeCommon, OtherAttributesOrTypesStay) {
  Net net;
  const ValueId x = net.input({2, 3});
  const ValueId a = net.reduce(x, "sum", {0}), b = net.reduce(x, "max", {0});
  const ValueId c = net.op(
      "add", {net.op("cast", {x}, {{"to", std::string("i32")}}), net.scalar(0, DType::kI32)});
  const ValueId d = net.op("add", {x, net.scalar(0)});
  const Graph g = net.finish({a, b, c, d});
  EXPECT_EQ(check_pass(g, merge_common).nodes.size(), g.nodes.size());
}

TEST(RemoveDead, DropsWhatNothingReads) {
  Net net;
  const ValueId x = net.input({3});
  Graph g = net.finish({net.relu(x)});
  const Graph small = g;
  Node extra = g.nodes[0];
  extra.outputs = {g.add_value("unused", g.type(extra.outputs[0]))};
  g.nodes.push_back(extra);
  const auto changed = remove_dead(g, {});
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  EXPECT_EQ(to_text(g), to_text(small));
  EXPECT_FALSE(*remove_dead(g, {}));
}

}  // namespace
}  // namespace tessera::graph
