// Products of f32 in parts of bf16: which are, and how exact they are.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/roundings.h"
#include "tests/graph/passes_net.h"

namespace tessera::graph {
namespace {

PassOptions splitting() {
  PassOptions options;
  options.rules.split_products = 65536;
  options.rules.split_rows = 64;
  options.rules.split_columns = 32;
  return options;
}

struct Case {
  Shape x, w;
  const char *a, *b, *out;
};

TEST(SplitFloats, ProductsWithWeightsBecomeProductsOfParts) {
  for (const Case& c :
       {Case{{65, 67}, {67, 33}, "mk", "kn", "mn"}, Case{{65, 67}, {33, 67}, "mk", "nk", "mn"},
        Case{{1, 71, 64}, {64, 35}, "bmk", "kn", "bmn"},
        Case{{5, 13, 70}, {3, 11, 70}, "bmk", "hnk", "bhmn"},
        Case{{65, 8, 9}, {8, 9, 33}, "mik", "ikn", "mn"}}) {
    SCOPED_TRACE(c.out);
    Net net;
    const ValueId x = net.input(c.x), y = net.contract(x, net.weights(c.w), c.a, c.b, c.out);
    const Graph g = check_pass(net.finish({net.relu(y)}), split_floats, splitting());
    EXPECT_EQ(count(g, "contract_parts"), 1);
    EXPECT_EQ(count(g, "float_parts"), 1);
    EXPECT_EQ(count(g, "contract"), 0);
  }
}

TEST(SplitFloats, ShapesOnlyLeavesPartsUncomputed) {
  Net net;
  const ValueId y = net.contract(net.input({65, 67}), net.weights({67, 33}), "mk", "kn", "mn");
  const Graph g = net.finish({y});
  const auto parts_of = [&](bool shapes_only) {
    PassOptions options = splitting();
    options.shapes_only = shapes_only;
    Graph made = g;
    EXPECT_TRUE(split_floats(made, options).value());
    for (const Node& node : made.nodes) {
      if (std::string_view(node.op->name) == "contract_parts")
        return *made.constant(node.inputs[1]);
    }
    return HostTensor();
  };
  const HostTensor quick = parts_of(true), whole = parts_of(false);
  EXPECT_EQ(quick.shape(), whole.shape());
  EXPECT_EQ(quick.dtype(), whole.dtype());
  const auto is_zero = [](const HostTensor& t) {
    const auto* bits = t.as<std::uint16_t>();
    return std::all_of(bits, bits + t.size(), [](std::uint16_t b) { return b == 0; });
  };
  EXPECT_TRUE(is_zero(quick));
  EXPECT_FALSE(is_zero(whole));
}

TEST(SplitFloats, WeightsOnTheLeftAndValuesReadTwice) {
  Net net;
  const ValueId x = net.input({67, 65});
  const ValueId y = net.contract(net.weights({33, 67}), x, "mk", "kn", "mn"),
                z = net.contract(x, net.weights({67, 40}), "km", "kn", "mn");
  const Graph g = check_pass(net.finish({y, z}), split_floats, splitting());
  EXPECT_EQ(count(g, "contract_parts"), 2);
  EXPECT_EQ(count(g, "float_parts"), 1);
}

// The kernel that makes a value makes its parts, whatever shape a product reads it in.
TEST(SplitFloats, PartsAreMadeBeforeReshapes) {
  Net net;
  const ValueId x = net.relu(net.input({5, 13, 70}));
  const ValueId flat = net.reshape(x, {65, 70});
  const ValueId y = net.contract(flat, net.weights({70, 33}), "mk", "kn", "mn"),
                z = net.contract(x, net.weights({70, 40}), "bmk", "kn", "bmn");
  const Graph g = check_pass(net.finish({y, z}), split_floats, splitting());
  EXPECT_EQ(count(g, "contract_parts"), 2);
  EXPECT_EQ(count(g, "float_parts"), 1);
}

// A residual reads the parts, so that nothing needs the whole; others do.
TEST(SplitFloats, SumsReadParts) {
  for (const bool others : {false, true}) {
    Net net;
    const ValueId x = net.relu(net.input({5, 13, 70}));
    const ValueId flat = net.reshape(x, {65, 70});
    const ValueId y = net.contract(flat, net.weights({70, 70}), "mk", "kn", "mn");
    const ValueId z = net.op("add", {y, flat});
    const Graph g =
        check_pass(net.finish({z, others ? net.relu(x) : z}), split_floats, splitting());
    EXPECT_EQ(count(g, "contract_parts"), 1);
    EXPECT_EQ(count(g, "float_whole"), others ? 0 : 1);
  }
}

TEST(SplitFloats, OthersStayAsTheyAre) {
  const auto unchanged = [](const Graph& graph, const PassOptions& options) {
    return count(check_pass(graph, split_floats, options), "contract_parts") == 0;
  };
  const auto product = [](const Case& c, bool constant, DType type = DType::kF32) {
    Net net;
    const ValueId x = net.input(c.x, type), w = constant ? net.weights(c.w, type) : net.input(c.w);
    return net.finish({net.contract(x, w, c.a, c.b, c.out)});
  };
  const Case usual{{65, 67}, {67, 33}, "mk", "kn", "mn"};
  EXPECT_TRUE(unchanged(product(usual, true), {}));
  EXPECT_TRUE(unchanged(product(usual, false), splitting()));
  EXPECT_TRUE(unchanged(product(usual, true, DType::kF16), splitting()));
  // Few rows read each weight once: more bytes of it take longer than what tensor cores save.
  EXPECT_TRUE(unchanged(product({{4, 300}, {300, 300}, "mk", "kn", "mn"}, true), splitting()));
  // Batches of products with weights of their own.
  EXPECT_TRUE(
      unchanged(product({{2, 65, 67}, {2, 67, 33}, "bmk", "bkn", "bmn"}, true), splitting()));
  // Parts of the left operand that few columns read.
  EXPECT_TRUE(unchanged(product({{300, 300}, {300, 16}, "mk", "kn", "mn"}, true), splitting()));
  PassOptions larger = splitting();
  larger.rules.split_products = 1 << 20;
  EXPECT_TRUE(unchanged(product(usual, true), larger));
}

TEST(SplitFloats, ThePlanDecides) {
  Net net;
  const ValueId x = net.input({65, 67});
  const ValueId y = net.contract(x, net.weights({67, 33}), "mk", "kn", "mn");
  const ValueId z = net.contract(x, net.weights({67, 16}), "mk", "kn", "mn");
  const Graph graph = net.finish({y, z});
  const auto split = [&](const plan::Decisions& decisions, PassOptions options = splitting()) {
    options.decider = std::make_shared<plan::Decider>(decisions);
    const std::int64_t found = count(check_pass(graph, split_floats, options), "contract_parts");
    EXPECT_EQ(options.decider->decided().size(), options.rules.split_products > 0 ? 2u : 0u);
    return found;
  };
  EXPECT_EQ(split({}), 1) << "the second one has few columns";
  EXPECT_EQ(split({{"product m65 n33 k67", plan::kWhole}}), 0);
  EXPECT_EQ(split({{"product m65 n16 k67", plan::kParts}}), 2);
  EXPECT_EQ(split({{"products", plan::kParts}}), 2);
  EXPECT_EQ(split({{"products", plan::kParts}}, {}), 0) << "this machine has no tensor cores";
}

struct BothWays {
  Graph exact, split;
};

// One product, as it is and of parts.
BothWays both_ways(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  Net net;
  const ValueId x = net.input({rows, depth}), w = net.weights({depth, columns});
  const Graph exact = net.finish({net.contract(x, w, "mk", "kn", "mn")});
  Graph split = exact;
  EXPECT_TRUE(split_floats(split, splitting()).value());
  compact(split);
  return {exact, std::move(split)};
}

TEST(SplitFloats, InfinitiesAndNoNumbersStaySuch) {
  const std::int64_t rows = 64, columns = 32, depth = 64;
  const auto [exact, split] = both_ways(rows, columns, depth);
  Rng rng(2);
  HostTensor input = random_tensor(DType::kF32, {rows, depth}, rng);
  const double infinity = std::numeric_limits<double>::infinity();
  input.set_float(5, infinity);
  input.set_float(depth + 7, -infinity);
  input.set_float(2 * depth, std::numeric_limits<double>::quiet_NaN());
  input.set_float(3 * depth + 1, std::numeric_limits<float>::max());
  const HostTensor want = evaluate(exact, {input}).value()[0],
                   got = evaluate(split, {input}).value()[0];
  for (std::int64_t i = 0; i < 4 * columns; ++i) {
    const double a = got.get_float(i), b = want.get_float(i);
    if (std::isnan(b)) {
      EXPECT_TRUE(std::isnan(a)) << i;
    } else if (std::isinf(b)) {
      EXPECT_EQ(a, b) << i;
    } else {
      EXPECT_NEAR(a, b, 1e-6 * std::abs(b)) << i;
    }
  }
}

// The largest error of sums of 768 products, relative to the sum of their magnitudes, is below that
// of sums in f32 in the same order.
TEST(SplitFloats, AreAsExactAsSumsOfF32) {
  const std::int64_t rows = 64, columns = 32, depth = 768;
  const auto [exact, split] = both_ways(rows, columns, depth);
  Rng rng(11);
  const HostTensor input = random_tensor(DType::kF32, {rows, depth}, rng);
  const auto sums = [&input](const Graph& graph) { return evaluate(graph, {input}).value()[0]; };
  const HostTensor got = sums(split), plain = sums(exact);
  const HostTensor* weights = exact.constant(exact.nodes[0].inputs[1]);
  double worst = 0, worst_plain = 0;
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < columns; ++n) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double term = input.get_float(m * depth + k) * weights->get_float(k * columns + n);
        sum += term;
        magnitude += std::abs(term);
      }
      const std::int64_t at = m * columns + n;
      worst = std::max(worst, std::abs(got.get_float(at) - sum) / magnitude);
      worst_plain = std::max(worst_plain, std::abs(plain.get_float(at) - sum) / magnitude);
    }
  }
  EXPECT_LE(worst, 1.2 * worst_plain);
  EXPECT_LE(worst, 16 * 0x1p-24);
  // Nor may a comparison allow more than for f32, but for six times as many terms.
  EXPECT_LE(tolerance(roundings(split, Products::kExact)[0]),
            2.5 * tolerance(roundings(exact, Products::kExact)[0]));
}

}  // namespace
}  // namespace tessera::graph
