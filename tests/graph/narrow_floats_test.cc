// narrow_floats: what becomes f16 or bf16, what stays, and that the values agree.
#include <cmath>

#include <gtest/gtest.h>

#include "passes_net.h"
#include "tessera/frontend/graph/roundings.h"

namespace tessera::graph {
namespace {

Graph narrowed(Graph g, DType to = DType::kF16) {
  PassOptions options;
  options.floats = to;
  const auto changed = narrow_floats(g, options);
  if (!changed) throw std::runtime_error(changed.error().message);
  compact(g);
  const auto ok = verify(g);
  EXPECT_TRUE(ok.ok()) << ok.error().message << "\n" << to_text(g);
  return g;
}

// Within what the table allows for the roundings of the narrow graph.
void expect_close(const Graph& want, const Graph& got) {
  Rng rng(3);
  std::vector<HostTensor> inputs;
  for (const ValueId id : want.inputs)
    inputs.push_back(random_tensor(want.type(id).dtype, want.shape(id), rng));
  const auto a = evaluate(want, inputs), b = evaluate(got, inputs);
  ASSERT_TRUE(a.ok() && b.ok()) << to_text(got);
  const std::vector<Roundings> rounded = roundings(got);
  for (std::size_t o = 0; o < a->size(); ++o) {
    ASSERT_EQ((*a)[o].dtype(), (*b)[o].dtype());
    double worst = 0, largest = 0;
    for (std::int64_t i = 0; i < (*a)[o].size(); ++i) {
      largest = std::max(largest, std::abs((*a)[o].get_float(i)));
      worst = std::max(worst, std::abs((*a)[o].get_float(i) - (*b)[o].get_float(i)));
    }
    EXPECT_LE(worst, tolerance(rounded[o]) * largest) << to_text(got);
    EXPECT_GT(worst, 0) << "nothing was rounded";
  }
}

TEST(NarrowFloats, AllButTheBorderOfTheGraph) {
  Net net;
  ValueId v = net.relu(net.conv(net.input({1, 4, 5, 5}), 6, 3, 1));
  v = net.reshape(net.reduce(v, "mean", {2, 3}), {1, 6});
  const Graph g = net.finish({net.contract(v, net.weights({6, 3}), "mk", "kn", "mn")});
  for (const DType to : {DType::kF16, DType::kBF16}) {
    const Graph out = narrowed(g, to);
    EXPECT_EQ(out.type(out.inputs[0]).dtype, DType::kF32);
    EXPECT_EQ(out.type(out.outputs[0]).dtype, DType::kF32);
    EXPECT_EQ(count(out, "cast"), 2) << to_text(out);
    for (const Node& node : out.nodes) {
      for (const ValueId id : node.inputs) {
        if (std::string_view(node.op->name) == "cast") continue;
        EXPECT_EQ(out.type(id).dtype, to);
      }
    }
    expect_close(g, out);
  }
}

TEST(NarrowFloats, NothingForF32) {
  Net net;
  const Graph g = net.finish({net.relu(net.input({4}))});
  const Graph same = check_pass(g, narrow_floats);
  EXPECT_EQ(to_text(same), to_text(g));
}

TEST(NarrowFloats, ConstantsStayFinite) {
  Net net;
  const Graph g = net.finish({net.op("mul", {net.input({4}), net.scalar(-3e38)})});
  const Graph out = narrowed(g);
  const auto values = evaluate(out, {HostTensor(DType::kF32, {4})});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0].get_float(0), 0) << "zero times an infinity";
}

TEST(NarrowFloats, IntegersAndWhatComesFromThemStay) {
  Net net;
  const ValueId n = net.op("cast", {net.input({3}, DType::kI64)}, {{"to", std::string("f32")}});
  const ValueId exact = net.op("cast", {n}, {{"to", std::string("i64")}});
  const Graph g = net.finish({exact, net.op("mul", {n, net.input({3})})});
  const Graph out = narrowed(g);
  HostTensor numbers(DType::kI64, {3});
  numbers.set_int(0, 70001);
  const auto values = evaluate(out, {numbers, HostTensor(DType::kF32, {3})});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0].get_int(0), 70001);
}

TEST(NarrowFloats, TheGreatestOfAWindowIsNarrow) {
  for (const char* kind : {"max", "sum"}) {
    Net net;
    const Graph g = net.finish({net.op("pool", {net.conv(net.input({1, 4, 6, 6}), 4, 1)},
                                       {{"kind", std::string(kind)},
                                        {"layout", std::string("nchw")},
                                        {"kernel", Integers{3, 3}},
                                        {"before", Integers{1, 1}},
                                        {"after", Integers{1, 1}}})});
    PassOptions options;
    options.floats = DType::kBF16;
    options.narrow_windows = false;
    Graph out = g;
    ASSERT_TRUE(narrow_floats(out, options).ok());
    compact(out);
    for (const Node& node : out.nodes) {
      if (node.op->name != std::string_view("pool")) continue;
      EXPECT_EQ(out.type(node.outputs[0]).dtype,
                kind == std::string_view("max") ? DType::kBF16 : DType::kF32);
    }
    expect_close(g, out);
  }
}

TEST(NarrowFloats, WindowsStayWideWhereNothingMultipliesThem) {
  Net net;
  const ValueId wide = net.conv(net.input({1, 4, 6, 6}), 4, 1);
  const Graph g = net.finish({net.conv(wide, 4, 3, 1, 1, /*group=*/4)});
  PassOptions options;
  options.floats = DType::kBF16;
  options.narrow_windows = false;
  Graph out = g;
  ASSERT_TRUE(narrow_floats(out, options).ok());
  compact(out);
  std::vector<DType> of_convs;
  for (const Node& node : out.nodes) {
    if (node.op->is(fact::kConvolves)) of_convs.push_back(out.type(node.outputs[0]).dtype);
  }
  EXPECT_EQ(of_convs, (std::vector{DType::kBF16, DType::kF32})) << to_text(out);
  expect_close(g, out);
}

// A network whose values are all of the type.
Graph in_type(DType type) {
  Net net;
  ValueId v = net.contract(net.input({5, 8}, type), net.weights({8, 6}, type), "mk", "kn", "mn");
  v = net.op("add", {v, net.weights({6}, type)});
  const ValueId rows = net.op("gather", {net.weights({10, 6}, type), net.input({5}, DType::kI64)},
                              {{"axis", std::int64_t{0}}});
  return net.finish({net.op("mul", {v, rows})});
}

TEST(WidenFloats, AllButTablesAndTheBorderOfTheGraph) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const Graph g = in_type(type);
    PassOptions options;
    options.widened = {type};
    Graph out = g;
    const auto changed = widen_floats(out, options);
    ASSERT_TRUE(changed.ok() && *changed);
    compact(out);
    ASSERT_TRUE(verify(out).ok()) << to_text(out);
    EXPECT_EQ(out.type(out.inputs[0]).dtype, type);
    EXPECT_EQ(out.type(out.outputs[0]).dtype, type);
    for (const Node& node : out.nodes) {
      const std::string_view op = node.op->name;
      if (op == "cast") continue;
      EXPECT_EQ(out.type(node.outputs[0]).dtype, op == "gather" ? type : DType::kF32) << op;
    }
    EXPECT_EQ(count(out, "cast"), 3) << to_text(out);  // the input, the table's rows, the output
    expect_close(out, g);
  }
}

// x - f32(f16(x)) is not zero.
TEST(WidenFloats, CastsOfTheModelStillRound) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    Net net;
    const ValueId x = net.input({5, 8});
    const ValueId rounded =
        net.op("cast", {net.op("cast", {x}, {{"to", to_text(type)}})}, {{"to", "f32"}});
    const Graph g = net.finish({net.op("sub", {x, rounded})});
    PassOptions options;
    options.widened = {DType::kF16, DType::kBF16};
    for (const char* origin : {"Cast /round", "BatchNormalization /norm"}) {
      Graph out = g;
      for (Node& node : out.nodes) node.origin = origin;
      ASSERT_TRUE(optimize(out, options).ok());
      EXPECT_EQ(count(out, "cast"), origin[0] == 'C' ? 2 : 0) << to_text(out);
    }
  }
}

TEST(WidenFloats, NothingWhereTheMachineMultipliesThem) {
  const Graph g = in_type(DType::kBF16);
  Graph out = g;
  PassOptions options;
  options.widened = {DType::kF16};
  const auto changed = widen_floats(out, options);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
  EXPECT_EQ(to_text(out), to_text(g));
}

TEST(NarrowFloats, WholeNetworks) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(seed);
    const Graph g = random_net(seed);
    PassOptions options;
    options.floats = DType::kF16;
    Graph out = g;
    const auto report = optimize(out, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    expect_close(g, out);
  }
}

}  // namespace
}  // namespace tessera::graph
