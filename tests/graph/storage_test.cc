// Weights that stay as narrow in memory as the model has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/frontend/graph/passes/choose_storage.h"
#include "tests/graph/passes_net.h"

namespace tessera::graph {
namespace {

// Weights as a model has them: q [k, n], or [n, k] with `turned`.
struct Weights {
  std::int64_t k = 0, n = 0;
  std::int64_t bits = 4, group = 1;  // 1: no groups
  bool is_signed = true, zero = false, turned = false;
  bool per_channel = false;
};

HostTensor integers(const Weights& w, const Shape& shape, Rng& rng) {
  HostTensor out(w.is_signed ? DType::kI8 : DType::kU8, shape);
  const std::int64_t count = std::int64_t{1} << w.bits;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const auto value = static_cast<std::int64_t>(rng.next() % static_cast<std::uint64_t>(count));
    out.set_int(i, value - (w.is_signed ? count / 2 : 0));
  }
  return out;
}

ValueId dequantized(GraphBuilder& b, const Weights& w, Rng& rng, DType to = DType::kF32) {
  const Shape shape = w.turned ? Shape{w.n, w.k} : Shape{w.k, w.n};
  const std::size_t axis = w.turned ? 1 : 0;
  Shape shared = {1, 1};
  if (w.per_channel) shared[1 - axis] = w.n;
  if (w.group > 1) {
    shared[axis] = (w.k + w.group - 1) / w.group;
    shared[1 - axis] = w.n;
  }
  HostTensor scale(to, shared);
  for (std::int64_t i = 0; i < scale.size(); ++i) scale.set_float(i, 0.01 + 0.01 * rng.uniform());
  std::vector<ValueId> inputs = {b.constant(integers(w, shape, rng)), b.constant(scale)};
  if (w.zero) inputs.push_back(b.constant(integers(w, shared, rng)));
  return b
      .add("dequantize", inputs,
           {{"axis", static_cast<std::int64_t>(axis)},
            {"group", w.group},
            {"bits", w.bits},
            {"to", std::string(tessera::to_text(to))}})
      .value();
}

// relu(x W), with x [rows, k].
Graph product(const Weights& w, std::int64_t rows, DType type = DType::kF32) {
  Rng rng(7);
  GraphBuilder b("net");
  const ValueId x = b.input("x", {type, {rows, w.k}});
  const ValueId y = b.add("contract", {x, dequantized(b, w, rng, type)},
                          {{"a", std::string("ik")},
                           {"b", std::string(w.turned ? "jk" : "kj")},
                           {"out", std::string("ij")}})
                        .value();
  return b.finish({y}, {"y"});
}

PassOptions storing(const char* value) {
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"storage", value}});
  return options;
}

std::int64_t constant_bytes(const Graph& g) {
  std::int64_t bytes = 0;
  for (const Value& v : g.values) {
    if (v.is_constant) bytes += static_cast<std::int64_t>(v.constant.bytes());
  }
  return bytes;
}

TEST(Storage, ProductsOfStoredWeightsAreThoseOfWideOnes) {
  for (const Weights& w : {
           Weights{.k = 64, .n = 24, .group = 32},
           Weights{.k = 64, .n = 24, .group = 16, .zero = true, .turned = true},
           Weights{.k = 72, .n = 7, .group = 32},  // groups that do not divide k
           Weights{.k = 40, .n = 9, .group = 4, .is_signed = false, .zero = true},
           Weights{.k = 37, .n = 9, .group = 5, .zero = true},  // an odd k: bytes
           Weights{.k = 48, .n = 9, .bits = 2, .group = 16},
           Weights{.k = 33, .n = 6, .bits = 8, .group = 32, .zero = true},
           Weights{.k = 33, .n = 6, .bits = 8, .zero = true, .per_channel = true},
           Weights{.k = 16, .n = 8, .per_channel = true},
           Weights{.k = 16, .n = 8, .is_signed = false, .zero = true},
       }) {
    for (const DType type : {DType::kF32, DType::kF16}) {
      SCOPED_TRACE(fmt::format("k{} n{} bits{} group{} {}", w.k, w.n, w.bits, w.group,
                               tessera::to_text(type)));
      const Graph g = product(w, 3, type);
      Graph narrow = g, wide = g;
      ASSERT_TRUE(optimize(narrow, storing("narrow")).ok());
      ASSERT_TRUE(optimize(wide, storing("wide")).ok());
      EXPECT_EQ(count(narrow, "contract_stored"), 1);
      EXPECT_EQ(count(narrow, "dequantize"), 0);
      EXPECT_EQ(count(wide, "contract_stored"), 0);
      EXPECT_EQ(count(wide, "dequantize"), 0);
      expect_same(g, narrow, "narrow");
      expect_same(g, wide, "wide");
    }
  }
}

PassOptions rounding(Rounding r = Rounding::kAlways) {
  PassOptions options = storing("narrow");
  options.rules.rounded_products = true;
  options.rounding = r;
  return options;
}

// What x W is when rows of x are rounded in blocks, of weights as the node dequantizes them.
std::vector<double> rounded_product(const HostTensor& x, const HostTensor& w, bool turned,
                                    std::int64_t block) {
  const std::int64_t k = x.shape()[1], n = w.shape()[turned ? 0 : 1];
  std::vector<double> out;
  for (std::int64_t i = 0; i < x.shape()[0]; ++i) {
    std::vector<double> row(static_cast<std::size_t>(n), 0);
    for (std::int64_t b = 0; b < k; b += block) {
      double most = 0;
      for (std::int64_t e = b; e < b + block; ++e)
        most = std::max(most, std::abs(x.get_float(i * k + e)));
      for (std::int64_t e = b; e < b + block && most > 0; ++e) {
        const double v = std::nearbyint(x.get_float(i * k + e) * 127 / most) * most / 127;
        for (std::int64_t j = 0; j < n; ++j)
          row[static_cast<std::size_t>(j)] += v * w.get_float(turned ? j * k + e : e * n + j);
      }
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

TEST(Storage, RoundedProductsRoundRowsInBlocks) {
  for (const Weights& w : {
           Weights{.k = 64, .n = 24, .group = 32},
           Weights{.k = 96, .n = 7, .group = 16, .zero = true, .turned = true},
           Weights{.k = 256, .n = 5, .group = 128, .is_signed = false, .zero = true},
           Weights{.k = 64, .n = 33, .bits = 8, .group = 32, .zero = true, .turned = true},
           Weights{.k = 64, .n = 33, .bits = 8, .group = 32, .is_signed = false},
           Weights{.k = 96, .n = 6, .bits = 8, .zero = true, .per_channel = true},
           Weights{.k = 32, .n = 8, .turned = true, .per_channel = true},
       }) {
    SCOPED_TRACE(fmt::format("k{} n{} bits{} group{}", w.k, w.n, w.bits, w.group));
    constexpr std::int64_t kRows = 3;
    const Graph g = product(w, kRows);
    Graph rounded = g;
    ASSERT_TRUE(optimize(rounded, rounding()).ok());
    EXPECT_EQ(count(rounded, "contract_rounded"), 1);
    EXPECT_EQ(count(rounded, "contract_stored"), 0);
    Rng rng(5);
    HostTensor x = random_tensor(DType::kF32, {kRows, w.k}, rng);
    for (std::int64_t e = 0; e < 32; ++e) x.set_float(e, 0);  // a block of zeros
    const auto got = evaluate(rounded, {x});
    ASSERT_TRUE(got.ok()) << got.error().message;
    const Node& dequantize = *std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) {
      return std::string_view(n.op->name) == "dequantize";
    });
    const auto wide = widened(g, dequantize, {});
    ASSERT_TRUE(wide.ok());
    const std::vector<double> want = rounded_product(x, *wide, w.turned, w.group == 16 ? 16 : 32);
    double largest = 0;
    for (const double v : want) largest = std::max(largest, std::abs(v));
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR((*got)[0].get_float(static_cast<std::int64_t>(i)), want[i], 1e-5 * largest) << i;
    }
  }
}

TEST(Storage, ProductsRoundWhereThatIsPermittedAndPossible) {
  const auto rounded = [](const Weights& w, const PassOptions& options, bool permits = false) {
    Graph g = product(w, 3);
    for (Node& n : g.nodes) {
      if (permits && std::string_view(n.op->name) == "dequantize")
        n.attrs.set("rounds", std::int64_t{1});
    }
    EXPECT_TRUE(optimize(g, options).ok());
    EXPECT_EQ(count(g, "contract_rounded") + count(g, "contract_stored"), 1);
    return count(g, "contract_rounded") == 1;
  };
  const Weights w{.k = 64, .n = 24, .group = 32};
  EXPECT_TRUE(rounded(w, rounding()));
  EXPECT_FALSE(rounded(w, rounding(Rounding::kAsModel)));
  EXPECT_TRUE(rounded(w, rounding(Rounding::kAsModel), true));
  EXPECT_FALSE(rounded(w, rounding(Rounding::kNever), true));
  PassOptions lacks_bytes = rounding();
  lacks_bytes.rules.rounded_products = false;
  EXPECT_FALSE(rounded(w, lacks_bytes));
  EXPECT_FALSE(rounded({.k = 72, .n = 24, .group = 32}, rounding()));  // no whole blocks
  EXPECT_FALSE(rounded({.k = 64, .n = 24, .bits = 2, .group = 32}, rounding()));
  EXPECT_FALSE(rounded({.k = 64, .n = 24, .group = 8}, rounding()));
}

TEST(Storage, RoundedProductsRefuseWhatDoesNotFit) {
  Rng rng(3);
  GraphBuilder b("net");
  const auto refused = [&](const Shape& x, const Shape& data, DType of, const Shape& scale,
                           std::int64_t bits) {
    const auto made =
        b.add("contract_rounded",
              {b.input(fmt::format("x{}", b.graph().values.size()), {DType::kF32, x}),
               b.constant(HostTensor(of, data)), b.constant(HostTensor(DType::kF32, scale))},
              {{"bits", bits}, {"offset", std::int64_t{0}}});
    return made.ok() ? "" : made.error().message;
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(refused({3, 64}, {5, 2, 16}, DType::kU8, {5, 2}, 4), "");
  EXPECT_EQ(refused({3, 64}, {5, 2, 32}, DType::kU8, {5, 1}, 8), "");
  EXPECT_THAT(refused({3, 64}, {5, 2, 16}, DType::kI8, {5, 2}, 4), HasSubstr("no product of f32"));
  EXPECT_THAT(refused({3, 64}, {5, 2, 16}, DType::kU8, {5, 2}, 2), HasSubstr("in 2 bits"));
  EXPECT_THAT(refused({3, 60}, {5, 2, 16}, DType::kU8, {5, 2}, 4), HasSubstr("does not multiply"));
  EXPECT_THAT(refused({3, 64}, {5, 1, 64}, DType::kU8, {5, 1}, 8), HasSubstr("does not multiply"));
  EXPECT_THAT(refused({3, 64}, {5, 2, 16}, DType::kU8, {4, 2}, 4),
              HasSubstr("does not fit blocks"));
  EXPECT_THAT(refused({3, 96}, {5, 3, 16}, DType::kU8, {5, 2}, 4),
              HasSubstr("does not fit blocks"));
}

TEST(Storage, TakesThePredictedBytes) {
  const auto bytes = [](const Weights& w) {
    Graph g = product(w, 1);
    EXPECT_TRUE(optimize(g, storing("narrow")).ok());
    return constant_bytes(g);
  };
  const std::int64_t n = 64, k = 256;
  EXPECT_EQ(bytes({.k = k, .n = n, .group = 32}), k * n / 2 + k * n / 32 * 4);
  EXPECT_EQ(bytes({.k = k, .n = n, .group = 32, .zero = true}), k * n / 2 + k * n / 32 * 5);
  EXPECT_EQ(bytes({.k = k, .n = n, .bits = 8, .per_channel = true}), k * n + n * 4);
  EXPECT_EQ(bytes({.k = k, .n = n, .bits = 2, .group = 64}), k * n / 4 + k * n / 64 * 4);
  // The bars for weights: shares of what f16 takes.
  EXPECT_LE(static_cast<double>(bytes({.k = k, .n = n, .group = 32})), 0.35 * 2 * k * n);
  EXPECT_LE(static_cast<double>(bytes({.k = k, .n = n, .bits = 8, .group = 32})), 0.6 * 2 * k * n);
}

// Reading less pays for few rows only.
TEST(Storage, IsNarrowForFewRows) {
  const Weights w{.k = 64, .n = 24, .group = 32};
  const auto stored = [&](std::int64_t rows) {
    PassOptions options;
    options.rules.flops_per_byte = 8;
    Graph g = product(w, rows);
    EXPECT_TRUE(optimize(g, options).ok());
    return count(g, "contract_stored") == 1;
  };
  EXPECT_TRUE(stored(1));
  EXPECT_TRUE(stored(8));
  EXPECT_FALSE(stored(64));
  EXPECT_FALSE(stored(512));
}

TEST(Storage, OtherReadersWiden) {
  Rng rng(3);
  GraphBuilder b("net");
  const Weights w{.k = 16, .n = 8, .group = 8};
  const ValueId weights = dequantized(b, w, rng);
  const ValueId x = b.input("x", {DType::kF32, {2, 16}});
  const Attrs labels{
      {"a", std::string("ik")}, {"b", std::string("kj")}, {"out", std::string("ij")}};
  const ValueId y = b.add("contract", {x, weights}, labels).value();
  const ValueId z = b.add("exp", {weights}).value();
  const Graph g = b.finish({y, z}, {"y", "z"});
  Graph narrow = g;
  ASSERT_TRUE(optimize(narrow, storing("narrow")).ok());
  EXPECT_EQ(count(narrow, "contract_stored"), 0);
  EXPECT_EQ(count(narrow, "dequantize"), 0);
  expect_same(g, narrow, "two readers");
}

TEST(Storage, GroupsAlongColumnsWiden) {
  Rng rng(3);
  GraphBuilder b("net");
  const ValueId x = b.input("x", {DType::kF32, {2, 16}});
  const Weights w{.k = 8, .n = 16, .group = 4, .turned = true};  // [16, 8], groups along the last
  const ValueId y =
      b.add("contract", {x, dequantized(b, w, rng)},
            {{"a", std::string("ik")}, {"b", std::string("kj")}, {"out", std::string("ij")}})
          .value();
  const Graph g = b.finish({y}, {"y"});
  Graph narrow = g;
  ASSERT_TRUE(optimize(narrow, storing("narrow")).ok());
  EXPECT_EQ(count(narrow, "contract_stored"), 0);
  expect_same(g, narrow, "groups along columns");
}

TEST(Storage, FloatsOfTheFileStayWhereTheMachineHasNoneOfTheType) {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    Net net;
    const ValueId x = net.input({1, 33}, type);
    const ValueId y = net.contract(x, net.weights({33, 20}, type), "ik", "kj", "ij");
    const Graph g = net.finish({y});
    const auto bytes = [&](const char* value) {
      PassOptions options = storing(value);
      options.widened = {type};
      Graph made = g;
      EXPECT_TRUE(optimize(made, options).ok());
      expect_same(g, made, value);
      return constant_bytes(made);
    };
    EXPECT_EQ(bytes("narrow"), 33 * 20 * 2);
    EXPECT_EQ(bytes("wide"), 33 * 20 * 4);
  }
}

TEST(Storage, RefusesWhatDoesNotFit) {
  Rng rng(3);
  GraphBuilder b("net");
  const ValueId q = b.constant(random_tensor(DType::kI8, {8, 6}, rng));
  const ValueId scale = b.constant(random_tensor(DType::kF32, {2, 6}, rng));
  const auto refused = [&](const std::vector<ValueId>& inputs, std::int64_t axis,
                           std::int64_t group, std::int64_t bits) {
    const auto made =
        b.add("dequantize", inputs,
              {{"axis", axis}, {"group", group}, {"bits", bits}, {"to", std::string("f32")}});
    return made.ok() ? "" : made.error().message;
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(refused({q, scale}, 0, 4, 8), "");
  EXPECT_THAT(refused({q, scale}, 0, 3, 8), HasSubstr("does not fit groups of 3 along axis 0"));
  EXPECT_THAT(refused({q, scale}, 2, 4, 8), HasSubstr("groups of 4 along axis 2"));
  EXPECT_THAT(refused({q, scale}, 0, 0, 8), HasSubstr("groups of 0"));
  EXPECT_THAT(refused({q, scale}, 0, 4, 3), HasSubstr("elements of 3 bits"));
  EXPECT_THAT(refused({scale, scale}, 0, 1, 8), HasSubstr("cannot dequantize f32"));
  EXPECT_EQ(refused({q, scale, scale}, 0, 4, 8), "");
  const ValueId words = b.constant(HostTensor(DType::kI32, {2, 6}));
  EXPECT_THAT(refused({q, scale, words}, 0, 4, 8), HasSubstr("the zero point is i32"));
  const ValueId x = b.input("x", {DType::kF32, {2, 8}});
  const auto product = [&](const char* labels, std::int64_t axis, std::int64_t bits) {
    const auto made = b.add("contract_stored", {x, q, scale},
                            {{"a", std::string("ik")},
                             {"b", std::string(labels)},
                             {"out", std::string("ij")},
                             {"axis", axis},
                             {"group", std::int64_t{4}},
                             {"bits", bits},
                             {"offset", std::int64_t{0}}});
    return made.ok() ? "" : made.error().message;
  };
  EXPECT_EQ(product("kj", 0, 0), "");
  EXPECT_THAT(product("kj", 1, 0), HasSubstr("j is not summed over"));
  EXPECT_THAT(product("kj", 3, 0), HasSubstr("no axis 3"));
  EXPECT_THAT(product("kj", 0, 4), HasSubstr("no product of f32 and i8 in 4 bits"));
}

}  // namespace
}  // namespace tessera::graph
