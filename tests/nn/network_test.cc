#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "candidates.h"

namespace tessera::nn {
namespace {

// The list in tessera/learn/nn/README.md: what an evaluator with gradients must know.
const std::set<std::string> kOperators = {
    "add",    "concat",  "contract", "div",   "expand",  "layernorm", "max",  "mul",
    "reduce", "reshape", "sigmoid",  "slice", "softmax", "sub",       "tanh",
};

TEST(Table, NetworksUseTheListedOperatorsOnly) {
  for (const NetworkEntry& entry : network_table()) {
    const auto network = build_network(small_spec(entry.name), {.batch = 3, .rows = 4});
    ASSERT_TRUE(network.ok()) << network.error().message;
    const auto verified = graph::verify(network->graph);
    EXPECT_TRUE(verified.ok()) << verified.error().message;
    for (const graph::Node& node : network->graph.nodes) {
      EXPECT_EQ(kOperators.count(node.op->name), 1u) << entry.name << ": " << node.op->name;
    }
  }
}

TEST(Table, DefaultsBuild) {
  for (const NetworkEntry& entry : network_table()) {
    const auto spec = make_spec(entry.name, {}, 174, 10);
    EXPECT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(entry.defaults.count("hidden"), 1u) << entry.name;
  }
}

TEST(BuildNetwork, NamesInputsAndOutputsInOrder) {
  for (const NetworkEntry& entry : network_table()) {
    const auto network = build_network(small_spec(entry.name), {.batch = 2, .rows = 3});
    ASSERT_TRUE(network.ok()) << network.error().message;
    std::vector<std::string> want = {"rows", "mask", "context"};
    if (entry.rows == Rows::kLoop) want.push_back("parents");
    for (const Parameter& p : network->parameters) want.push_back(p.name);
    std::vector<std::string> got;
    for (const graph::ValueId id : network->graph.inputs) {
      got.push_back(network->graph.value(id).name);
    }
    EXPECT_EQ(got, want) << entry.name;
    EXPECT_EQ(network->graph.output_names,
              (std::vector<std::string>{"score", "validity", "log_time"}));
    for (const graph::ValueId id : network->graph.outputs) {
      EXPECT_EQ(network->graph.shape(id), Shape{2});
    }
  }
}

TEST(BuildNetwork, HasTheSameParametersForEveryShape) {
  for (const NetworkEntry& entry : network_table()) {
    const NetworkSpec spec = small_spec(entry.name);
    const auto a = build_network(spec, {.batch = 1, .rows = 1});
    const auto b = build_network(spec, {.batch = 5, .rows = 7});
    ASSERT_TRUE(a.ok() && b.ok());
    ASSERT_EQ(a->parameters.size(), b->parameters.size()) << entry.name;
    for (std::size_t i = 0; i < a->parameters.size(); ++i) {
      EXPECT_EQ(a->parameters[i].name, b->parameters[i].name);
      EXPECT_EQ(a->parameters[i].shape, b->parameters[i].shape);
    }
  }
}

struct Refusal {
  const char* name;
  std::string network;
  Hyper hyper;
  std::int64_t columns, context;
  const char* message;  // part of it
};

const Refusal kRefusals[] = {
    {"network", "gbt", {}, 8, 0, "unknown network 'gbt'; there are atformer, lstm, mha, mlp"},
    {"name", "mlp", {{"layers", 2}}, 8, 0, "mlp: unknown hyper-parameter 'layers'; it has hidden"},
    {"zero", "mlp", {{"hidden", 0}}, 8, 0, "hidden=0 is outside 1..4096"},
    {"huge", "mlp", {{"hidden", INT64_MAX}}, 8, 0, "is outside"},
    {"flag", "atformer", {{"masked", 2}}, 8, 0, "masked=2 is outside 0..1"},
    {"heads", "atformer", {{"heads", 3}}, 8, 0, "hidden=512 is not a multiple of heads=3"},
    {"columns", "mlp", {}, 0, 0, "columns=0 is outside"},
    {"context", "mlp", {}, 8, -1, "context=-1 is outside"},
};

class Refused : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refused, NamesTheReason) {
  const Refusal& r = GetParam();
  const auto spec = make_spec(r.network, r.hyper, r.columns, r.context);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(spec.error().message.find(r.message), std::string::npos) << spec.error().message;
}

INSTANTIATE_TEST_SUITE_P(Spec, Refused, ::testing::ValuesIn(kRefusals),
                         [](const auto& param) { return param.param.name; });

TEST(BuildNetwork, RefusesUselessShapesAndIncompleteSpecs) {
  NetworkSpec spec = small_spec("sequence");
  for (const InstanceShape shape : {InstanceShape{0, 1}, InstanceShape{1, 0}, InstanceShape{-1, 1},
                                    InstanceShape{INT64_MAX, 1}, InstanceShape{1, INT64_MAX}}) {
    EXPECT_FALSE(build_network(spec, shape).ok());
  }
  const auto long_one = build_network(spec, {.batch = 1, .rows = 10});
  ASSERT_FALSE(long_one.ok());
  EXPECT_NE(long_one.error().message.find("10 rows, but the network has max_rows=9"),
            std::string::npos);
  spec.hyper.erase("ffn");
  const auto incomplete = build_network(spec, {.batch = 1, .rows = 1});
  ASSERT_FALSE(incomplete.ok());
  EXPECT_NE(incomplete.error().message.find("ffn is missing"), std::string::npos);
}

TEST(InitialValue, FollowsTheSeedAndTheKind) {
  const Parameter uniform{"w", {40, 30}, Init::kUniformFanIn, 16};
  Rng a(7), b(7), c(8);
  const HostTensor x = initial_value(uniform, a), y = initial_value(uniform, b),
                   z = initial_value(uniform, c);
  double largest = 0;
  bool same = true, other = false;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x.get_float(i)));
    same = same && x.get_float(i) == y.get_float(i);
    other = other || x.get_float(i) != z.get_float(i);
  }
  EXPECT_TRUE(same);
  EXPECT_TRUE(other);
  EXPECT_LE(largest, 0.25);
  EXPECT_GT(largest, 0.24);

  const HostTensor n = initial_value({"p", {50, 50}, Init::kNormal, 4}, a);
  double square = 0;
  for (std::int64_t i = 0; i < n.size(); ++i) square += n.get_float(i) * n.get_float(i);
  EXPECT_NEAR(square / static_cast<double>(n.size()), 0.25, 0.03);

  EXPECT_EQ(initial_value({"s", {3}, Init::kOne, 1}, a).get_float(2), 1);
  EXPECT_EQ(initial_value({"s", {3}, Init::kZero, 1}, a).get_float(2), 0);
}

}  // namespace
}  // namespace tessera::nn
