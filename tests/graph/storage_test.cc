// Weights that stay as narrow in memory as the model has them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
